"""Options of adlfs in Hadoop's spelling, for its file system of Azure; the reverse of `azure_accounts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from paimon_spark.storage.azure import ANSWER_SECONDS, CONNECT_SECONDS

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


def azure_settings(given: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, str] | None:
    """Settings of Hadoop's file system of Azure; as `hadoop_options.hadoop_options`.

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
    kept = {"hadoop.security.credential.provider.path": "user:///"} if credentials else {}
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
