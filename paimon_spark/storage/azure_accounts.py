"""Hadoop's settings of an account of Azure, as adlfs takes them; those of the path's account win."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


def account_host(path: str) -> str:
    """The host of the account in ``abfs://container@account.dfs.core.windows.net/…``; empty where there is none."""
    authority = path.partition("://")[2].partition("/")[0]
    return authority.rpartition("@")[2].lower() if "@" in authority else ""


def account_options(path: str, options: Mapping[str, str], used: set[str]) -> dict[str, Any]:
    """Arguments of adlfs: the account of the path, and Hadoop's keys for it, which are added to ``used``."""
    host = account_host(path)
    found: dict[str, Any] = {"account_name": host.split(".", 1)[0]} if host else {}
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
