"""Azure's blobs through `adlfs`: Hadoop's settings of an account as adlfs takes them, requests that end, bulk deletes.

By itself Azure's package waits 60 seconds for an answer, and 15 and more before it asks again, three times.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_spark.errors import OptionError
from paimon_spark.storage import silence, web_pages

_NAMES: Final[Mapping[str, str]] = {
    "fs.azure.account.key": "account_key",
    "fs.azure.account.oauth2.client.id": "client_id",
    "fs.azure.account.oauth2.client.secret": "client_secret",
    "fs.azure.account.oauth2.client.endpoint": "tenant_id",
    "fs.azure.sas.fixed.token": "sas_token",
    "azure.account.key": "account_key",
}
_TYPE: Final = "fs.azure.account.auth.type"
_PROVIDER: Final = "fs.azure.account.oauth.provider.type"
_ADDRESS: Final = "fs.azure.abfs.endpoint"
"""The address and port of an emulator, which has the account in its paths."""
_TLS: Final = "fs.azure.always.use.https"
_OAUTH: Final = ("client_id", "client_secret", "tenant_id")
_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {"SHAREDKEY": ("account_key",), "SAS": ("sas_token",), "OAUTH": _OAUTH}
_CHAINS: Final = ("MsiTokenProvider", "WorkloadIdentityTokenProvider")
"""Classes that do what azure-identity does on a machine or in a pod with an identity of its own."""

_CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"
"""The variable of the environment that adlfs heeds more than an account and its key."""
_OF_PUBLIC_CLOUD: Final = (".dfs.core.windows.net", ".blob.core.windows.net")
_BLOBS_OF_ACCOUNT: Final = re.compile(r"(?:https?://)?([^./]+)\.(?:[^./]+\.)?blob\.(?:core|storage)\.", re.IGNORECASE)

CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 8
RETRIES: Final = 3
_RETRIES_TO_CONNECT: Final = 2
"""Where nobody listens: adlfs asks several times more by itself."""
_FIRST_PAUSE_SECONDS: Final = 1
_LONGER_BY: Final = 2
"""The pauses are 3, 5 and 9 seconds, give or take one: 1 and a power of 2."""
_MOST_IN_BATCH: Final = 256
_GONE: Final = frozenset((202, 404))
_OF_URLS: Final = frozenset("#?")
_ASIDE: Final = {ord("#"): "\ue000", ord("?"): "\ue001"}
_BACK: Final = {0xE000: "#", 0xE001: "?"}


_Any: Any = object


def account_host(path: str) -> str:
    """The host of the account in ``abfs://container@account.dfs.core.windows.net/…``; empty where there is none."""
    authority = path.partition("://")[2].partition("/")[0]
    return authority.rpartition("@")[2].lower() if "@" in authority else ""


def account_options(path: str, options: Mapping[str, str], used: set[str]) -> dict[str, Any]:
    """Arguments of adlfs: the account of the path, and Hadoop's keys for it, which are added to ``used``."""
    host = account_host(path)
    found: dict[str, Any] = {"account_name": host.split(".", 1)[0]} if host else {}
    if "." in host and not host.endswith(_OF_PUBLIC_CLOUD):
        found["account_host"] = host.replace(".dfs.", ".blob.", 1)
    suffixes = ("", "." + host) if host else ("",)
    lowered = {key.lower(): key for key in options}
    for suffix in suffixes:  # what the account has of its own comes last
        for hadoop, name in _NAMES.items():
            key = lowered.get(hadoop + suffix)
            if key is None:
                continue
            used.add(key)
            value = options[key]
            if name == "tenant_id":
                value = "".join(value.split("://", 1)[-1].split("/")[1:2])
            if value:
                found[name] = value
    return found


def check_account(path: str, options: Mapping[str, Any]) -> None:
    """Check that options are of the account that a path names; an address of its own in them may be of any.

    Args:
        path: in the store.
        options: arguments of adlfs.

    Raises:
        OptionError: they are another account's, which would be read and written in its place.
    """
    account = account_host(path).partition(".")[0]
    text = options.get("connection_string") or os.environ.get(_CONNECTION)
    if text:
        named = _account_of(str(text))
        given = "'fs.connection_string'" if options.get("connection_string") else f"{_CONNECTION} in the environment"
        remedy = "give 'fs.connection_string' of the path's account"
    else:
        its_own = options.get("account_host") in (None, account_options(path, {}, set()).get("account_host"))
        named = str(options.get("account_name") or "") if its_own else ""
        given, remedy = "'fs.account_name'", "leave that option out"
    if account and named and named.lower() != account.partition("-")[0]:
        raise OptionError(
            f"The path names the account '{account}' of Azure, and {given} is of the account '{named}': {remedy}, or "
            "change the path."
        )


def _account_of(connection: str) -> str:
    """The account of a connection string; empty where it has an address that is of no account."""
    parts = {key.strip().lower(): value for key, _, value in (part.partition("=") for part in connection.split(";"))}
    if parts.get("blobendpoint"):
        found = _BLOBS_OF_ACCOUNT.match(parts["blobendpoint"].strip())
        return found[1].partition("-")[0] if found else ""
    return parts.get("accountname", "").strip()


def of_account(path: str, settings: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Arguments of adlfs from a session's settings, and what of them has no equal."""
    found = account_options(path, settings, set())
    host = account_host(path)

    def setting(name: str) -> str:
        return (settings.get(f"{name}.{host}") or settings.get(name) or "").strip()

    address, key = setting(_ADDRESS), found.get("account_key")
    if ":" in address and key:
        protocol = "http" if setting(_TLS).lower() == "false" else "https"
        account = found["account_name"]
        found["connection_string"] = (
            f"DefaultEndpointsProtocol={protocol};AccountName={account};AccountKey={key};"
            f"BlobEndpoint={protocol}://{address}/{account};"
        )
    kind, provider = setting(_TYPE).upper(), setting(_PROVIDER).rpartition(".")[2]
    if kind in _OF_TYPE:
        others = {name for names in _OF_TYPE.values() for name in names if name not in _OF_TYPE[kind]}
        found = {key: value for key, value in found.items() if key not in others}
    if kind == "OAUTH" and provider in _CHAINS:
        return {**{key: value for key, value in found.items() if key not in _OAUTH}, "anon": False}, ""
    if (kind == "OAUTH" and provider not in ("", "ClientCredsTokenProvider")) or (kind and kind not in _OF_TYPE):
        return {key: value for key, value in found.items() if key not in _OAUTH}, (
            f"The session's '{_TYPE}' is {kind}{f' with {provider}' if provider else ''}, which only Java has: give "
            "fs.azure.account.key, fs.azure.account.oauth2.client.id, .secret and .endpoint, or set "
            "fs.anon = false to let azure-identity find credentials"
        )
    return found, ""


class AzureFiles(_Any):  # type: ignore[misc]
    """adlfs's file system whose requests end in a bounded time.

    The options `fs.connection_timeout` and `fs.read_timeout` are heeded.
    """

    hurried = False
    """Whether the store is silent: then a request is sent once, and waits shortly."""

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """The container and the name in it; adlfs reads a ``#`` or ``?`` as a URL's, and loses it at a name's end."""
        if not isinstance(path, str) or not _OF_URLS.intersection(path):
            return super()._strip_protocol(path)
        return super()._strip_protocol(path.translate(_ASIDE)).translate(_BACK)

    def do_connect(self) -> None:
        """Make the client, as adlfs does, and bound its waits."""
        super().do_connect()
        policy = self.service_client._config.retry_policy
        policy.initial_backoff, policy.increment_base, policy.random_jitter_range = _FIRST_PAUSE_SECONDS, _LONGER_BY, 1
        policy.connect_retries = _RETRIES_TO_CONNECT
        self.hurry(self.hurried)
        transport = self.service_client._pipeline._transport
        transport.send = web_pages.refused(transport.send, "x-ms-", sessions=lambda: [transport.session])

    def hurry(self, hurried: bool) -> None:
        """Send a request once and wait shortly from now on, or as often and as long as ever."""
        self.hurried = hurried
        client, given = self.service_client, self._timeout_kwargs
        waits = client._pipeline._transport.connection_config
        waits.timeout, waits.read_timeout = silence.CONNECT_SECONDS, silence.ANSWER_SECONDS
        if not hurried:
            waits.timeout = given.get("connection_timeout", CONNECT_SECONDS)
            waits.read_timeout = given.get("read_timeout", ANSWER_SECONDS)
        client._config.retry_policy.total_retries = 0 if hurried else RETRIES

    def delete_blobs(self, keys: Sequence[str]) -> list[int]:
        """Delete blobs of a container, 256 with one request; return the positions of those that may still be there."""
        found: list[int] = asyncio.run_coroutine_threadsafe(self._delete_blobs(keys), self.loop).result()
        return found

    async def _delete_blobs(self, keys: Sequence[str]) -> list[int]:
        left: list[int] = []
        async with self.service_client.get_container_client(self.split_path(keys[0])[0]) as container:
            for start in range(0, len(keys), _MOST_IN_BATCH):
                names = [self.split_path(key)[1] for key in keys[start : start + _MOST_IN_BATCH]]
                answers = await container.delete_blobs(*names, raise_on_any_failure=False)
                statuses = [answer.status_code async for answer in answers]
                if len(statuses) != len(names) or not _GONE.issuperset(statuses):  # which is whose is not certain
                    left += range(start, start + len(names))
        return left

    def entries(self, directory: str) -> list[dict[str, Any]]:
        """What is directly below a directory, with one request for 5000 names; of one that is missing, nothing.

        adlfs's own `ls` lists each directory too whose name begins alike: of ``bucket-1`` also ``bucket-10``.

        Raises:
            FileNotFoundError: there is no such container.
        """
        found: list[dict[str, Any]] = asyncio.run_coroutine_threadsafe(self._entries(directory), self.loop).result()
        return found

    async def _entries(self, directory: str) -> list[dict[str, Any]]:
        from azure.core.exceptions import ResourceNotFoundError

        name, path, _ = self.split_path(directory)
        async with self.service_client.get_container_client(name) as container:
            blobs = container.walk_blobs(include=["metadata"], name_starts_with=f"{path}/")
            try:
                found = await self._details([blob async for blob in blobs])
            except ResourceNotFoundError as missing:
                raise FileNotFoundError(directory) from missing
        return list({(entry["name"].rstrip("/"), entry["type"]): entry for entry in found}.values())
