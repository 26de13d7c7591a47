"""Which fsspec scheme a path needs, and how Paimon's and Hadoop's store options become fsspec's.

Pure functions over strings. Three spellings are taken: Paimon's own (`s3.access-key`), Hadoop's (`fs.s3a.access.key`)
and fsspec's behind `fs.` (`fs.anon=true`, `fs.client_kwargs={"region_name": "eu-west-1"}`). Where they name the same
thing, fsspec's spelling wins, then Hadoop's. The secrets of options are kept out of texts of objects and of messages.

Settings of Hadoop's file systems that fsspec has no equal for are refused where a promise depends on them, else logged.
A key concerns the store of a path by its prefix; keys of other stores are passed over. Values are never logged.
"""

from __future__ import annotations

import difflib
import inspect
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from paimon_spark.errors import OptionError, PaimonError, UnsupportedError
from paimon_spark.options import Scope, with_scope
from paimon_spark.options.option import parse_duration
from paimon_spark.storage.azure import account_options
from paimon_spark.storage.extras import pip_command
from paimon_spark.storage.hdfs import hdfs_options
from paimon_spark.storage.s3 import for_bucket, provided

_LOG = logging.getLogger(__name__)
_S3: Final = ("s3.", "s3a.", "fs.s3a.", "fs.s3.")
_PREFIXES_OF_STORE: Final[Mapping[str, tuple[str, ...]]] = {
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
        prefix = next((p for p in _PREFIXES_OF_STORE.get(scheme, ()) if lowered.startswith(p)), None)
        if prefix is None or key in known or value.strip().lower() in ("", "none"):
            continue
        advice = _REFUSED.get(scheme, {}).get(lowered.removeprefix(prefix))
        if advice is not None and value.strip().lower() != "false":
            raise UnsupportedError(f"Option '{key}' is not supported: {advice}")
        if advice is None and (scheme, lowered) not in _logged and len(_logged) < _MOST_LINES:
            _logged.add((scheme, lowered))
            _LOG.warning("Option '%s' is ignored: fsspec's file system of '%s:' has no equal for it.", key, scheme)


FSSPEC_SCHEME: Final[Mapping[str, str]] = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "az": "abfs",
    "swebhdfs": "webhdfs",
}
"""Schemes of Hadoop and of other tools that are another name of an fsspec scheme."""

_EXTRA_OF_SCHEME: Final[Mapping[str, str]] = {
    "s3": "s3",
    "gs": "gcs",
    "abfs": "azure",
    "hdfs": "hdfs",
    "oss": "oss",
}
_PACKAGE_OF_SCHEME: Final[Mapping[str, str]] = {"webhdfs": "requests", "sftp": "paramiko", "smb": "smbprotocol"}

_S3_NAMES: Final[Mapping[str, str]] = {
    "access-key": "key",
    "access.key": "key",
    "secret-key": "secret",
    "secret.key": "secret",
    "session-token": "token",
    "session.token": "token",
    "endpoint": "endpoint_url",
    "region": "client_kwargs.region_name",
    "endpoint.region": "client_kwargs.region_name",
    "path-style-access": "path_style",
    "path.style.access": "path_style",
    "connection.ssl.enabled": "use_ssl",
    "connection.establish.timeout": "config_kwargs.connect_timeout",
    "connection.timeout": "config_kwargs.read_timeout",
    "attempts.maximum": "config_kwargs.retries",
    "connection.maximum": "config_kwargs.max_pool_connections",
}
_S3_SECONDS: Final = ("connect_timeout", "read_timeout")
S3_BOUNDS: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "read_timeout": 15,
    "retries": {"mode": "standard", "total_max_attempts": 3},
    "max_pool_connections": 64,
}
"""Default seconds, attempts and connections.

A store that does not answer is given up within a minute. botocore's own ten connections would be fewer than one reader
asks for at once (`REQUESTS_AT_ONCE`), and the threads of a driver are several readers.
"""
_OSS_NAMES: Final[Mapping[str, str]] = {
    "accesskeyid": "key",
    "accesskeysecret": "secret",
    "securitytoken": "token",
    "endpoint": "endpoint",
}
_GS_NAMES: Final[Mapping[str, str]] = {
    "auth.service.account.json.keyfile": "token",
    "google.cloud.auth.service.account.json.keyfile": "token",
    "project.id": "project",
    "storage.root.url": "endpoint_url",
}
_PREFIXES: Final[Mapping[str, tuple[tuple[str, Mapping[str, str]], ...]]] = {
    "s3": (("s3.", _S3_NAMES), ("s3a.", _S3_NAMES), ("fs.s3a.", _S3_NAMES)),
    "oss": (("oss.", _OSS_NAMES), ("fs.oss.", _OSS_NAMES)),
    "gs": (("gs.", _GS_NAMES), ("fs.gs.", _GS_NAMES)),
}
_HADOOP_PREFIXES: Final = (
    "fs.s3a.",
    "fs.s3.",
    "fs.oss.",
    "fs.gs.",
    "fs.azure.",
    "fs.hdfs.",
    "fs.defaultfs",
    "fs.viewfs.",
)
_OF_EVERY_STORE: Final = frozenset(
    (
        "asynchronous",
        "loop",
        "batch_size",
        "skip_instance_cache",
        "use_listings_cache",
        "listings_expiry_time",
        "max_paths",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "default_concurrency",
    )
)
_UNNAMED: Final[Mapping[str, frozenset[str]]] = {"s3": frozenset({"profile"})}
"""Arguments that a file system takes without naming them: a profile of ``~/.aws/config``."""
_ENDPOINT_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "gs": ("FSSPEC_GCS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST"),
}
_BLOB_ENDPOINT: Final = re.compile(r"BlobEndpoint=([^;]+)", re.IGNORECASE)
_OF_ALL: Final = re.compile(r"\.amazonaws\.com(\.cn)?(:\d+)?$|\.googleapis\.com$|\.aliyuncs\.com$")
"""Endpoints of which each leads to every bucket, or to no bucket of another's name."""
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):(?://|(?=/)|(?<=[A-Za-z0-9]{2}:)$)")
_USER_INFO: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*://)[^/@]*@")
_AZURE_CONTAINER: Final = re.compile(r"^(?:abfss?|wasbs?|az)://([^/@:]+)@", re.IGNORECASE)
_NEVER_NUMBERS: Final = re.compile(r"key|secret|token|password|account|user|name|id$", re.IGNORECASE)
_SECRET_NAMES: Final = re.compile(r"key|secret|token|password|credential|sas|connection_string", re.IGNORECASE)
_NAMES_OF_COLUMNS: Final = re.compile(r"(primary|bucket)-key|(fields|chain-table|orc)\..*", re.IGNORECASE)
"""Options of tables whose keys look like those of secrets."""


def install_command(scheme: str) -> str:
    """What to run for the package of an fsspec scheme."""
    if scheme in _EXTRA_OF_SCHEME:
        return pip_command(_EXTRA_OF_SCHEME[scheme])
    package = _PACKAGE_OF_SCHEME.get(scheme, f"the fsspec package for '{scheme}'")
    return f"pip install {package}"


def scheme_of(path: str) -> str:
    """The scheme of a path, lower case; `""` for a plain local path (a drive letter is not a scheme)."""
    if path.lower().startswith("file:"):
        return "file"
    found = _SCHEME.match(path)
    return found.group(1).lower() if found else ""


def redact(path: str) -> str:
    """The path without a user and password in front of its host, fit for messages.

    `abfs://container@account` stays, as the container is no secret.
    """
    return path if _AZURE_CONTAINER.match(path) else _USER_INFO.sub(r"\1", path)


def store_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a table's or a reader's options that concern the store; keys keep their case."""
    return {key: str(value) for key, value in with_scope(options, Scope.STORE).items()}


def fsspec_options(
    scheme: str, path: str, options: Mapping[str, str], *, unknown: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Keyword arguments of fsspec's file system for one path.

    Args:
        scheme: fsspec's scheme (`s3`, not `s3a`).
        path: A path in that store; its host matters for HDFS and Azure.
        options: Options as given by the user; keys that concern other stores are passed over.
        unknown: called with the name of a provider of credentials that only Java has, which is refused otherwise.

    Raises:
        OptionError: an `fs.` option that looks like JSON but is not.
        UnsupportedError: an option of Hadoop's asks for what fsspec would leave out, such as encryption.
    """
    translated: dict[str, Any] = {}
    used: set[str] = set()
    if scheme == "s3":
        options = for_bucket(options, path)
    for prefix, names in _PREFIXES.get(scheme, ()):
        for key, value in options.items():
            name = names.get(key.lower().removeprefix(prefix)) if key.lower().startswith(prefix) else None
            if name is not None:
                _put(translated, name, value)
                used.add(key)
    if scheme == "s3":
        provided(options, translated, used, unknown)
        _finish_s3(translated)
    if scheme == "abfs":
        translated.update(account_options(path, options, used))
    if scheme == "hdfs":
        translated.update(hdfs_options(options))
    check_unused(scheme, options, used)
    for key, value in options.items():
        lowered = key.lower()
        if lowered.startswith("fs.") and not lowered.startswith(_HADOOP_PREFIXES):
            _put(translated, key[3:], _value(key, value))
    if scheme == "s3" and isinstance(translated.setdefault("config_kwargs", {}), dict):
        translated["config_kwargs"] = {**S3_BOUNDS, **translated["config_kwargs"]}
    return translated


def address_of(scheme: str, options: Mapping[str, Any]) -> str:
    """What tells apart two stores that have a path in common: the endpoint; empty where the path says it all.

    Args:
        scheme: fsspec's.
        options: arguments of fsspec's file system.
    """
    client = options.get("client_kwargs")
    given = client.get("endpoint_url") if isinstance(client, Mapping) else None
    blobs = _BLOB_ENDPOINT.search(str(options.get("connection_string") or ""))
    variables = (os.environ.get(name) for name in _ENDPOINT_VARIABLES.get(scheme, ()))
    found = (options.get("endpoint_url"), options.get("endpoint"), given, blobs and blobs[1], *variables)
    address = str(next(filter(None, found), "")).rpartition("://")[2].rstrip("/").lower()
    return "" if _OF_ALL.search(address) else address


def store_of(path: str, options: Mapping[str, str]) -> str:
    """What tells the store of a path apart from others that have it (`address_of`), by options as a user gives them."""
    scheme = scheme_of(path)
    known = FSSPEC_SCHEME.get(scheme, scheme)
    if known in ("", "file"):
        return ""
    with suppress(PaimonError):  # opening the store says what is wrong
        return address_of(known, fsspec_options(known, path, store_options(options)))
    return ""


def check_known(scheme: str, store: type, options: Mapping[str, Any]) -> None:
    """Refuse options that a store would ignore, or report under another name.

    Raises:
        OptionError: one is none of the store's; the message names the nearest.
    """
    known = _OF_EVERY_STORE | _UNNAMED.get(scheme, frozenset())
    for kind in store.__mro__[:-1]:
        known = known | set(inspect.signature(kind.__init__).parameters)  # type: ignore[misc]
    unknown = next((key for key in options if key not in known), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, sorted(known - {"self", "args", "kwargs"}), n=1)
        hint = f"Did you mean 'fs.{near[0]}'?" if near else f"fsspec's documents of {_documented(store)} list them."
        raise OptionError(f"Unknown option 'fs.{unknown}': the file system of '{scheme}:' has none such. {hint}")


def _documented(store: type) -> str:
    """The name of a store's class in its package; ours are put before it (`store_opening`)."""
    return next((kind.__name__ for kind in store.__mro__ if not kind.__module__.startswith("paimon_spark.")), "it")


def secret_values(options: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Values of options whose name says that they are secret, longest first (to be cut out of messages)."""
    found: set[str] = set()
    for key, value in options:
        if isinstance(value, Mapping):
            found.update(secret_values(value.items()))
        elif isinstance(value, str) and len(value) > 3 and _is_secret(key):
            found.add(value)
    return tuple(sorted(found, key=len, reverse=True))


def _is_secret(key: str) -> bool:
    return _SECRET_NAMES.search(key) is not None and not _NAMES_OF_COLUMNS.fullmatch(key)


def _finish_s3(translated: dict[str, Any]) -> None:
    if _boolean("path.style.access", translated.pop("path_style", "false")):
        _put(translated, "config_kwargs.s3", {"addressing_style": "path"})
    if "use_ssl" in translated:
        translated["use_ssl"] = _boolean("connection.ssl.enabled", translated["use_ssl"])
    config = translated.get("config_kwargs", {})
    for key in _S3_SECONDS:
        if key in config:
            config[key] = _seconds(config[key])
    if "retries" in config:
        attempts = _number("attempts.maximum", config["retries"])
        config["retries"] = {"mode": "standard", "total_max_attempts": attempts}
    if "max_pool_connections" in config:
        config["max_pool_connections"] = _number("connection.maximum", config["max_pool_connections"])
    endpoint = translated.get("endpoint_url")
    if endpoint and "://" not in endpoint:
        translated["endpoint_url"] = ("https://" if translated.get("use_ssl", True) else "http://") + endpoint


def _seconds(text: str) -> float:
    """A time-out: a duration such as ``200 s``, or milliseconds, as in Hadoop."""
    try:
        return parse_duration(text).total_seconds()
    except ValueError:
        raise OptionError(
            f"A time-out of the store is a duration such as '30 s', or milliseconds, not '{text}'."
        ) from None


def _boolean(name: str, text: object) -> bool:
    given = str(text).strip().lower()
    if given not in ("true", "false"):
        raise OptionError(f"The option 's3.{name}' is true or false, not '{text}'.")
    return given == "true"


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or not int(text):
        raise OptionError(f"The option 's3.{name}' is a number from 1 on, not '{text}'.")
    return int(text)


def is_true(options: Mapping[str, str], key: str) -> bool:
    """Return whether an option is set to true, whatever the case of its letters."""
    return any(name.lower() == key and value.strip().lower() == "true" for name, value in options.items())


def _put(target: dict[str, Any], name: str, value: Any) -> None:
    head, dot, rest = name.partition(".")
    if not dot:
        target[head] = value
        return
    child = target.setdefault(head, {})
    if not isinstance(child, dict):
        raise OptionError(
            f"The option 'fs.{head}' is given as one value and also as 'fs.{name}'. Give only one of them."
        )
    _put(child, rest, value)


def _value(key: str, text: str) -> Any:
    """An fsspec option's value: JSON objects and lists, booleans, whole numbers, else the text."""
    stripped = text.strip()
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if stripped[:1] in ("{", "["):
        try:
            return json.loads(stripped)
        except ValueError:
            raise OptionError(f"The value of the option '{key}' starts like JSON but is not valid JSON.") from None
    if stripped.isdecimal() and not _NEVER_NUMBERS.search(key):
        return int(stripped)
    return text


class QuietOptions(dict[str, str]):
    """Options whose text has no secrets."""

    def __repr__(self) -> str:
        """Like a dict's, with stars for the values of secret keys."""
        return repr({key: "***" if secret_values([(key, value)]) else value for key, value in self.items()})


@contextmanager
def without_secrets(options: Mapping[str, Any]) -> Iterator[None]:
    """Remove the secrets of options from the message of an error."""
    try:
        yield
    except PaimonError as error:
        message = str(error)
        cleaned = message
        for secret in secret_values(options.items()):
            cleaned = cleaned.replace(secret, "***")
        if cleaned != message:
            error.args = (cleaned, *error.args[1:])
            error.__cause__ = error.__context__ = None
        raise
