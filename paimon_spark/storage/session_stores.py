"""What the session of the driver says about a store in Hadoop's settings: the default of the options of ours.

The one place that decides it. `follow` says where to ask; processes that were given nothing (tasks, clients of Spark
Connect, the command line) have no such defaults: tasks get a `FileIO` in which the driver has put them. Options that
are given win, credentials all together. A setting without an equal fails nothing: Python then finds credentials as it
does without the setting, and an error that a store gives names the setting (`hint`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_spark.errors import OptionError
from paimon_spark.storage.azure import of_account
from paimon_spark.storage.s3 import CREDENTIALS as S3_CREDENTIALS
from paimon_spark.storage.s3 import for_bucket
from paimon_spark.storage.store_errors import check_bucket
from paimon_spark.storage.store_options import fsspec_options

Ask = Callable[[Sequence[str], str | None, Sequence[str]], Mapping[str, str]]
"""Asked for the settings with these prefixes: a setting that names stores of credentials, the secrets in such."""

_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("fs.s3a.",),
    "gs": ("fs.gs.", "google.cloud."),
    "abfs": ("fs.azure.",),
    "oss": ("fs.oss.",),
    "hdfs": ("dfs.", "fs.defaultFS", "fs.viewfs.mounttable.", "hadoop.security.authentication", "hadoop.rpc."),
}
_SECRETS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("access.key", "secret.key", "session.token"),
    "oss": ("accessKeyId", "accessKeySecret", "securityToken"),
}
_CREDENTIALS: Final[Mapping[str, frozenset[str]]] = {
    "s3": S3_CREDENTIALS,
    "gs": frozenset({"token"}),
    "abfs": frozenset(
        {
            "account_key",
            "client_id",
            "client_secret",
            "tenant_id",
            "sas_token",
            "connection_string",
            "credential",
            "anon",
        }
    ),
    "oss": frozenset({"key", "secret", "token"}),
}
"""Arguments of fsspec's file systems that belong together: one that is given replaces all of the session's."""
_S3_FOLLOWED: Final = re.compile(
    r"fs\.s3a\.(access\.key|secret\.key|session\.token|endpoint|endpoint\.region|path\.style\.access|"
    r"connection\.ssl\.enabled|aws\.credentials\.provider|assumed\.role\..*)"
)
_ENCRYPTION: Final = {"AES256": "AES256", "SSE-S3": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
_AMAZON: Final = re.compile(r"(?:https?://)?s3(?:[.-]([a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?/?", re.IGNORECASE)
_GS_TYPES: Final = ("fs.gs.auth.type", "google.cloud.auth.type")
_TOKEN_URI: Final = "https://oauth2.googleapis.com/token"
_ask: list[Ask] = []


@dataclass(frozen=True, slots=True)
class SessionStore:
    """What a session says about one store."""

    options: dict[str, Any] = field(default_factory=dict, repr=False)
    """Arguments of fsspec's file system, those that are given on top."""
    given: dict[str, Any] = field(default_factory=dict, repr=False)
    """Those that the session does not have already."""
    hint: str = ""
    """What to say when the store denies something: a setting that Python cannot follow."""


def follow(ask: Ask) -> None:
    """Let stores have what ``ask`` finds in the session of this process."""
    _ask[:] = [ask]


def with_session(scheme: str, path: str, given: Mapping[str, Any]) -> SessionStore:
    """Put what the session says about the store of a path under the arguments that were given for it.

    Args:
        scheme: fsspec's scheme.
        path: A path in that store; its bucket, host or account matters.
        given: arguments of fsspec's file system.

    Raises:
        OptionError: the path names no bucket.
    """
    check_bucket(scheme, path)
    prefixes = _PREFIXES.get(scheme)
    if not _ask or prefixes is None:
        return SessionStore(dict(given), dict(given))
    bucket = bucket_of(path)
    key_stores = f"{prefixes[0]}security.credential.provider.path" if scheme == "s3" else None
    asked = _ask[0](prefixes, key_stores, _secrets(scheme, prefixes[0], bucket))
    settings = {key: value for key, value in asked.items() if value.strip()}
    if not settings:
        return SessionStore(dict(given), dict(given))
    try:
        found, hint = _translated(scheme, path, settings)
    except OptionError as error:  # of a session's setting, which other readers of the session may understand
        return SessionStore(dict(given), dict(given), f"A setting of the session is not followed: {error}")
    credentials = _CREDENTIALS.get(scheme, frozenset())
    if credentials.intersection(given):
        found, hint = {key: value for key, value in found.items() if key not in credentials}, ""
    return SessionStore(_joined(found, given), dict(given), hint)


def bucket_of(path: str) -> str:
    """The bucket or host of a path."""
    return path.partition("://")[2].partition("/")[0]


def _secrets(scheme: str, prefix: str, bucket: str) -> list[str]:
    names = _SECRETS.get(scheme, ())
    of_bucket = [f"{prefix}bucket.{bucket}.{name}" for name in names] if scheme == "s3" else []
    return [*(prefix + name for name in names), *of_bucket]


def _joined(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    joined = dict(below)
    for key, value in above.items():
        under = joined.get(key)
        joined[key] = _joined(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return joined


def _translated(scheme: str, path: str, settings: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Arguments of fsspec's file system, and what of the settings has no equal."""
    match scheme:
        case "s3":
            every = for_bucket(settings, path)
            own = {key: value for key, value in every.items() if _S3_FOLLOWED.fullmatch(key)}
            hint: list[str] = []
            found = fsspec_options("s3", path, _without_amazon(own), unknown=hint.append)
            found.pop("config_kwargs") if not found["config_kwargs"].get("s3") else None
            return {**found, **_of_requests(every)}, " ".join(hint)
        case "gs":
            return _google(settings)
        case "abfs":
            return of_account(path, settings)
        case "oss":
            names = {f"fs.oss.{name}".lower() for name in (*_SECRETS["oss"], "endpoint")}
            return fsspec_options("oss", path, {k: v for k, v in settings.items() if k.lower() in names}), ""
    return {"config": dict(settings)}, ""


def _of_requests(settings: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of s3fs for what is sent with each request: who pays, and how the store encrypts."""
    found: dict[str, Any] = {}
    if settings.get("fs.s3a.requester.pays.enabled", "").strip().lower() == "true":
        found["requester_pays"] = True
    names = ("encryption", "server-side-encryption")
    kind = next((settings[key] for name in names for key in _spelled(name, "algorithm") if settings.get(key)), "")
    if kind.strip().upper() in _ENCRYPTION:
        found["s3_additional_kwargs"] = {"ServerSideEncryption": _ENCRYPTION[kind.strip().upper()]}
        key = next((settings[key] for name in names for key in _spelled(name, "key") if settings.get(key)), "")
        if key and kind.strip().upper().endswith("KMS"):
            found["s3_additional_kwargs"]["SSEKMSKeyId"] = key
    return found


def _spelled(name: str, last: str) -> tuple[str, str]:
    return f"fs.s3a.{name}.{last}", f"fs.s3a.{name}-{last}"


def _without_amazon(settings: dict[str, str]) -> dict[str, str]:
    """The settings without an endpoint of Amazon's own, which botocore finds by the region (Spark sets one itself)."""
    known = _AMAZON.fullmatch(settings.get("fs.s3a.endpoint", "").strip())
    if known is None:
        return settings
    left = {key: value for key, value in settings.items() if key != "fs.s3a.endpoint"}
    if known[1]:
        left.setdefault("fs.s3a.endpoint.region", known[1])
    return left


def _google(settings: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    found: dict[str, Any] = {}
    for key, name in (("fs.gs.project.id", "project"), ("fs.gs.storage.root.url", "endpoint_url")):
        if settings.get(key, "").strip() not in ("", "https://storage.googleapis.com/"):
            found[name] = settings[key].strip().rstrip("/")
    prefix = ("fs.gs.", "google.cloud.")

    def setting(name: str) -> str:
        return next((settings[each + name].strip() for each in prefix if settings.get(each + name, "").strip()), "")

    kind = next((settings[key].strip().upper() for key in _GS_TYPES if key in settings), "")
    keyfile, private = setting("auth.service.account.json.keyfile"), setting("auth.service.account.private.key")
    if kind == "UNAUTHENTICATED" or setting("auth.null.enable").lower() == "true":
        found["token"] = "anon"
    elif kind == "COMPUTE_ENGINE":
        found["token"] = "cloud"
    elif kind in ("", "SERVICE_ACCOUNT_JSON_KEYFILE") and keyfile:
        found["token"] = _content(keyfile)
    elif private and setting("auth.service.account.email"):
        found["token"] = {
            "type": "service_account",
            "client_email": setting("auth.service.account.email"),
            "private_key_id": setting("auth.service.account.private.key.id"),
            "private_key": private.replace("\\n", "\n"),
            "token_uri": _TOKEN_URI,
        }
    elif kind not in ("", "APPLICATION_DEFAULT"):
        return found, (
            f"The session's 'fs.gs.auth.type' is {kind}, which only Java has: give "
            "gs.auth.service.account.json.keyfile, or let gcsfs find application default credentials"
        )
    return found, ""


def _content(keyfile: str) -> Any:
    """What is in a file of keys, which only the driver may have; its path where it cannot be read."""
    try:
        with open(keyfile.removeprefix("file://"), encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return keyfile
    return content if isinstance(content, dict) else keyfile
