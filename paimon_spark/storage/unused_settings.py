"""Settings of Hadoop's file systems that fsspec has no equal for: refused where a promise depends on them, else logged.

A key concerns the store of a path by its prefix; keys of other stores are passed over. Values are never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from paimon_spark.errors import UnsupportedError

_LOG = logging.getLogger(__name__)
_S3: Final = ("s3.", "s3a.", "fs.s3a.", "fs.s3.")
_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": _S3,
    "gs": ("gs.", "fs.gs."),
    "oss": ("oss.", "fs.oss."),
    "abfs": ("azure.", "fs.azure."),
    "hdfs": ("fs.hdfs.", "fs.viewfs."),
    "webhdfs": ("fs.hdfs.", "fs.viewfs."),
}
_ENCRYPTION: Final = (
    "files would be written without it. Set the bucket's default encryption, or give s3fs its own option: "
    'fs.s3_additional_kwargs = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "…"}'
)
_KEYS: Final = "give s3.access-key, s3.secret-key and s3.session.token, or let s3fs find them as boto3 does"
_REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "server-side-encryption-algorithm": _ENCRYPTION,
        "server-side-encryption.key": _ENCRYPTION,
        "encryption.algorithm": _ENCRYPTION,
        "encryption.key": _ENCRYPTION,
        "security.credential.provider.path": f"its credentials would not be read: {_KEYS}",
        "requester.pays.enabled": "use fs.requester_pays = true",
        "acl.default": 'use fs.s3_additional_kwargs = {"ACL": "…"}',
    }
}
_DEFAULT_STORE: Final = "fs.defaultfs"
_MOST_LINES: Final = 1000
_logged: set[tuple[str, str]] = set()


def check_default_store(options: Mapping[str, str]) -> None:
    """Refuse a default store for a path without a scheme, which is a local one here.

    Raises:
        UnsupportedError: `fs.defaultFS` names another store.
    """
    for key, value in options.items():
        if key.lower() == _DEFAULT_STORE and not value.lower().startswith("file:"):
            raise UnsupportedError(
                f"Option '{key}' is not supported: a path without a scheme is a local one. Write the whole path, such "
                f"as {value.rstrip('/')}/warehouse/db.db/t"
            )


def check_unused(scheme: str, options: Mapping[str, str], used: Iterable[str]) -> None:
    """Refuse or log the options of a store that nothing acts on.

    Raises:
        UnsupportedError: without the option, files or requests would be others than those asked for.
    """
    known = set(used)
    for key, value in options.items():
        lowered = key.lower()
        prefix = next((p for p in _PREFIXES.get(scheme, ()) if lowered.startswith(p)), None)
        if prefix is None or key in known or value.strip().lower() in ("", "none"):
            continue
        advice = _REFUSED.get(scheme, {}).get(lowered.removeprefix(prefix))
        if advice is not None and value.strip().lower() != "false":
            raise UnsupportedError(f"Option '{key}' is not supported: {advice}")
        if advice is None and (scheme, lowered) not in _logged and len(_logged) < _MOST_LINES:
            _logged.add((scheme, lowered))
            _LOG.warning("Option '%s' is ignored: fsspec's file system of '%s:' has no equal for it.", key, scheme)
