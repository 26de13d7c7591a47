"""A store's options in Hadoop's spelling, for whatever in the JVM opens the same files.

The reverse of `store_options`, and of `azure` for the options of adlfs. Only what has an equal there: a store that is
reached with anything else is left to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from paimon_spark.storage.azure import ANSWER_SECONDS, CONNECT_SECONDS
from paimon_spark.storage.store_options import S3_BOUNDS

_S3: Final = "fs.s3a."
_S3_PROVIDERS: Final = "org.apache.hadoop.fs.s3a."
_S3_NAMES: Final[Mapping[str, str]] = {
    "key": "access.key",
    "secret": "secret.key",
    "token": "session.token",
    "endpoint_url": "endpoint",
    "client_kwargs.region_name": "endpoint.region",
}
_S3_MOST: Final[Mapping[str, str]] = {
    "connection.establish.timeout": "5000",
    "connection.timeout": "15000",
    "attempts.maximum": "1",
    "retry.limit": "1",
}
"""A store that does not answer is given up within about a minute: Hadoop's own bounds multiply to an hour and more."""
_OSS: Final = "fs.oss."
_OSS_NAMES: Final[Mapping[str, str]] = {
    "key": "accessKeyId",
    "secret": "accessKeySecret",
    "token": "securityToken",
    "endpoint": "endpoint",
}
_OSS_MOST: Final[Mapping[str, str]] = {
    "connection.establish.timeout": "5000",
    "connection.timeout": "8000",
    "attempts.maximum": "1",
}
_GS_MOST: Final[Mapping[str, str]] = {
    "fs.gs.http.connect-timeout": "5000",
    "fs.gs.http.read-timeout": "15000",
    "fs.gs.http.max.retry": "2",
}
_GS_NAMES: Final[Mapping[str, str]] = {"project": "fs.gs.project.id", "endpoint_url": "fs.gs.storage.root.url"}
_GS_TOKENS: Final[Mapping[str, str]] = {
    "anon": "UNAUTHENTICATED",
    "cloud": "COMPUTE_ENGINE",
    "google_default": "APPLICATION_DEFAULT",
}
_HDFS_MOST: Final[Mapping[str, str]] = {
    "ipc.client.connect.timeout": "10000",
    "ipc.client.connect.max.retries": "2",
    "ipc.client.connect.max.retries.on.timeouts": "2",
    "ipc.client.rpc-timeout.ms": "40000",
}
_KEPT_ELSEWHERE: Final[Mapping[str, str]] = {"hadoop.security.credential.provider.path": "user:///"}
"""Hadoop takes keys from there before it looks at its settings; in the memory of the user there are none of a store."""
_VIEW: Final = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
"""What leads to Hadoop's file systems of Google Cloud Storage and HDFS, which take paths of their own schemes only."""
_CLASSES: Final[Mapping[str, str]] = {
    "s3": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "oss": "org.apache.hadoop.fs.aliyun.oss.AliyunOSSFileSystem",
    "abfs": "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
    "gs": _VIEW,
    "hdfs": _VIEW,
}
FILE_SYSTEM_JARS: Final[Mapping[str, str]] = {
    "s3": "hadoop-aws",
    "oss": "hadoop-aliyun",
    "abfs": "hadoop-azure",
    "gs": "Google's gcs-connector",
}
"""Where Hadoop's file systems are, by fsspec's scheme; that of HDFS is always there."""
_PLAIN_AZURE: Final = "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem"

_PREFIX: Final = "fs.azure."
_SERVICES: Final = "org.apache.hadoop.fs.azurebfs.services."
_TOKENS: Final = "org.apache.hadoop.fs.azurebfs.oauth2."
_AUTHORITY: Final = "https://login.microsoftonline.com"
_MOST: Final[Mapping[str, str]] = {
    "io.retry.max.retries": "2",
    "io.retry.backoff.interval": "1000",
    "io.retry.min.backoff.interval": "1000",
    "io.retry.max.backoff.interval": "4000",
    "http.connection.timeout": str(CONNECT_SECONDS * 1000),
    "http.read.timeout": str(ANSWER_SECONDS * 1000),
    "oauth.token.fetch.retry.max.retries": "2",
}
"""A store that does not answer is given up within about a minute: Hadoop's own bounds come to half an hour."""
_OAUTH: Final = {"client_id", "client_secret", "tenant_id"}
_KEYS: Final[Mapping[str, str]] = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_token",
}
"""What of a connection string has an option of its own."""


def hadoop_options(scheme: str, options: Mapping[str, Any], hosts: Iterable[str]) -> dict[str, str] | None:
    """Settings with which Hadoop's file system reaches the same store.

    Args:
        scheme: fsspec's scheme.
        options: as of `fsspec_options`.
        hosts: of the files' paths: buckets, or containers and accounts. A setting of Hadoop's for one of them counts
            more than one for all, so ours are for each.

    Returns:
        The settings, which hold secrets. Empty where nothing was given: then the session's own count. None where an
        option has no equal.
    """
    given = _flat(options)
    found: dict[str, str] | None = {}
    if scheme == "abfs":
        return azure_settings(given, sorted(hosts))
    for key, value in _flat({"config_kwargs": S3_BOUNDS}).items():
        if given.get(key) == value:
            del given[key]
    if given:
        settings = _SETTINGS.get(scheme)
        found = None if settings is None else settings(given, sorted(hosts))
    return found


def file_system_class(scheme: str, settings: Mapping[str, str]) -> str:
    """Hadoop's file system of a store, one that takes paths of any scheme."""
    if scheme == "abfs" and settings.get("fs.azure.always.use.https") == "false":
        return _PLAIN_AZURE
    return _CLASSES[scheme]


def _s3_settings(given: Mapping[str, Any], buckets: list[str]) -> dict[str, str] | None:
    found = dict(_S3_MOST)
    for key, value in given.items():
        match key:
            case _ if key in _S3_NAMES:
                found[_S3_NAMES[key]] = str(value)
            case "anon":
                if value is True:
                    found["aws.credentials.provider"] = f"{_S3_PROVIDERS}AnonymousAWSCredentialsProvider"
            case "use_ssl":
                found["connection.ssl.enabled"] = str(value).lower()
            case "config_kwargs.s3.addressing_style" if value in ("path", "virtual"):
                found["path.style.access"] = str(value == "path").lower()
            case "config_kwargs.connect_timeout":
                found["connection.establish.timeout"] = str(int(value * 1000))
            case "config_kwargs.read_timeout":
                found["connection.timeout"] = str(int(value * 1000))
            case "config_kwargs.retries.total_max_attempts":
                found["attempts.maximum"] = str(value)
            case "config_kwargs.max_pool_connections":
                found["connection.maximum"] = str(value)
            case "config_kwargs.retries.mode":
                pass
            case _:
                return None
    kept = {}
    if "access.key" in found:
        kind = "Temporary" if "session.token" in found else "Simple"
        found["aws.credentials.provider"] = f"{_S3_PROVIDERS}{kind}AWSCredentialsProvider"
        kept = {**_KEPT_ELSEWHERE, "fs.s3a.security.credential.provider.path": "user:///"}
    prefixes = (_S3, *(f"{_S3}bucket.{bucket}." for bucket in buckets))
    return {**kept, **{prefix + key: value for prefix in prefixes for key, value in found.items()}}


def _oss_settings(given: Mapping[str, Any], _: list[str]) -> dict[str, str] | None:
    if not set(given) <= set(_OSS_NAMES):
        return None
    found = {**_OSS_MOST, **{_OSS_NAMES[key]: str(value) for key, value in given.items()}}
    kept = {}
    if "key" in given:
        found.setdefault("securityToken", "")
        found["credentials.provider"] = ""  # a class of the session's, which would not look at these
        kept = dict(_KEPT_ELSEWHERE)
    return {**kept, **{_OSS + key: value for key, value in found.items()}}


def _gs_settings(given: Mapping[str, Any], buckets: list[str]) -> dict[str, str] | None:
    found = {**_GS_MOST, **_views("gs", buckets)}
    for key, value in given.items():
        match key:
            case _ if key in _GS_NAMES:
                found[_GS_NAMES[key]] = str(value)
            case "requests_timeout" if isinstance(value, int | float):
                found["fs.gs.http.read-timeout"] = str(int(value * 1000))
            case "token" if isinstance(value, str) and value in _GS_TOKENS:
                found["fs.gs.auth.type"] = _GS_TOKENS[value]
                found["fs.gs.auth.null.enable"] = str(value == "anon").lower()
                found["fs.gs.auth.service.account.enable"] = str(value == "cloud").lower()
            case "token" if isinstance(value, str) and value.endswith(".json"):
                found["fs.gs.auth.type"] = "SERVICE_ACCOUNT_JSON_KEYFILE"
                found["fs.gs.auth.null.enable"] = "false"
                found["fs.gs.auth.service.account.enable"] = "true"
                found["fs.gs.auth.service.account.json.keyfile"] = value
            case _:
                return None
    return found


def _hdfs_settings(given: Mapping[str, Any], hosts: list[str]) -> dict[str, str] | None:
    if not all(key.startswith("config.") for key in given):
        return None
    own = {key.removeprefix("config."): str(value) for key, value in given.items()}
    return {**_HDFS_MOST, **_views("hdfs", hosts), **own}


def _views(scheme: str, hosts: list[str]) -> dict[str, str]:
    mounts = "fs.viewfs.mounttable"
    return {f"{mounts}.{host.partition(':')[0]}.linkFallback": f"{scheme}://{host}/" for host in hosts}


_SETTINGS: Final[Mapping[str, Callable[[Mapping[str, Any], list[str]], dict[str, str] | None]]] = {
    "s3": _s3_settings,
    "oss": _oss_settings,
    "gs": _gs_settings,
    "hdfs": _hdfs_settings,
}


def _flat(options: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{above}{key}."))
        else:
            found[above + key] = value
    return found


def azure_settings(given: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, str] | None:
    """Settings of Hadoop's file system of Azure; as `hadoop_options`.

    Args:
        given: arguments of adlfs.
        hosts: container and account of the files, ``container@account.dfs.core.windows.net``.
    """
    host = hosts[0].rpartition("@")[2] if hosts else ""
    options, endpoint = _without_connection_string(given)
    if options is None or len(hosts) != 1 or "@" not in hosts[0]:
        return None
    if options.pop("account_name", host.split(".", 1)[0]) != host.split(".", 1)[0]:
        return None
    if dfs_host(options.pop("account_host", host)) != dfs_host(host):
        return None
    if not options and not endpoint:
        return {}
    found = dict(_MOST)
    for name, key in (("connection_timeout", "http.connection.timeout"), ("read_timeout", "http.read.timeout")):
        if name in options:
            found[key] = str(int(options.pop(name) * 1000))
    credentials = _credentials(options)
    service = _of_endpoint(endpoint, host)
    if credentials is None or service is None:
        return None
    kept = _KEPT_ELSEWHERE if credentials else {}
    host = dfs_host(host)
    container = hosts[0].rpartition("@")[0]
    suffixes = ("", f".{host}", f".{container}.{host}")
    own = {f"{_PREFIX}{key}{suffix}": value for suffix in suffixes for key, value in credentials.items()}
    return {**kept, **{_PREFIX + key: value for key, value in {**found, **service}.items()}, **own}


def dfs_host(host: str) -> str:
    """The host of an account at which Hadoop's file system of Azure finds it, where a path has the one of its blobs."""
    account, dot, rest = host.partition(".")
    return f"{account}{dot}{rest.replace('blob.', 'dfs.', 1) if rest.startswith('blob.') else rest}"


def _without_connection_string(given: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The options that a connection string stands for, and the address of the blobs; None where it says more."""
    options = dict(given)
    text = options.pop("connection_string", None)
    if text is None:
        return options, ""
    endpoint = suffix = ""
    scheme = "https"
    for part in filter(None, str(text).split(";")):
        key, _, value = part.partition("=")
        match key.strip().lower():
            case lowered if lowered in _KEYS:
                options[_KEYS[lowered]] = value
            case "blobendpoint":
                endpoint = value
            case "endpointsuffix":
                suffix = value
            case "defaultendpointsprotocol":
                scheme = value
            case _:
                return None, ""
    if not endpoint and suffix:
        endpoint = f"{scheme}://{options.get('account_name', '')}.blob.{suffix}"
    return options, endpoint


def _credentials(options: Mapping[str, Any]) -> dict[str, str] | None:
    names = set(options)
    if not names:
        return {}
    if names == {"account_key"}:
        return {
            "account.auth.type": "SharedKey",
            "account.key": str(options["account_key"]),
            "account.keyprovider": f"{_SERVICES}SimpleKeyProvider",
        }
    if names == {"sas_token"}:
        return {"account.auth.type": "SAS", "sas.fixed.token": str(options["sas_token"])}
    if names == _OAUTH:
        return {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": f"{_TOKENS}ClientCredsTokenProvider",
            "account.oauth2.client.id": str(options["client_id"]),
            "account.oauth2.client.secret": str(options["client_secret"]),
            "account.oauth2.client.endpoint": f"{_AUTHORITY}/{options['tenant_id']}/oauth2/token",
        }
    return None


def _of_endpoint(endpoint: str, host: str) -> dict[str, str] | None:
    """Settings for an address of the blobs: the account's own needs none, that of an emulator names the account."""
    url = urlsplit(endpoint)
    account = host.split(".", 1)[0]
    if not endpoint or (url.scheme == "https" and dfs_host(url.netloc) == dfs_host(host) and url.path in ("", "/")):
        return {}
    if url.scheme != "http" or url.port is None or url.path.strip("/") != account:
        return None
    return {
        "abfs.endpoint": url.netloc,
        "always.use.https": "false",
        "networking.library": "JDK_HTTP_URL_CONNECTION",  # Hadoop's other one speaks TLS only
        "account.hns.enabled": "false",
        "fns.account.service.type": "BLOB",
        "ingress.service.type": "BLOB",
    }
