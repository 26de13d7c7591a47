"""S3 through `s3fs`: credentials as Hadoop's settings say, and reads that are sent again.

Of `fs.s3a.aws.credentials.provider` a class of Hadoop's or of Amazon's SDK that looks where botocore looks is left to
botocore, which renews what expires. An assumed role is assumed anew before it ends. Classes that only Java has are
named in an error.

botocore sends a request again until an answer begins. What comes after is s3fs's to read, which does not try again: all
of botocore's attempts would be made five times over (`store_opening`).

Secrets that botocore would write into logs at level DEBUG are taken out of its texts. It logs each request with its
headers, a session token among them, and the answers of Amazon's token service with the keys that it gives for a role.
Azure's, Google's and Alibaba's packages log none.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options.option import parse_duration
from paimon_spark.storage import web_pages

_TELLING: Final = ("auth", "endpoint", "parsers", "hooks", "utils", "credentials", "tokens", "httpsession")
"""Modules of botocore that log requests, answers or what these hold."""
_SECRETS: Final = re.compile(
    r"(x-amz-security-token['\"]?\s*[:=]\s*b?['\"]?"
    r"|(?:SecretAccessKey|SessionToken|WebIdentityToken|AccessToken|Token)(?:>|['\"]\s*:\s*b?['\"]))"
    r"[^\s'\"<,&]+",
    re.IGNORECASE,
)
"""The name of a header or a field, and its value."""


def clean_botocore() -> None:
    """Let no log of botocore hold a secret, from now on."""
    for package in ("botocore", "aiobotocore"):
        for name in _TELLING:
            logging.getLogger(f"{package}.{name}").addFilter(_cleaned)  # once: a logger has the same filter only once


def _cleaned(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    cleaned = _SECRETS.sub(r"\1***", text)
    if cleaned != text:
        record.msg, record.args = cleaned, ()
    return True


CREDENTIALS: Final = frozenset({"key", "secret", "token", "anon", "profile", "assumed_role", "session"})
"""Arguments of s3fs that say who asks; `assumed_role` is ours."""
ASSUMED_ROLE: Final = "assumed_role"
_PREFIXES: Final = ("fs.s3a.", "s3a.", "s3.")
_PROVIDERS: Final = "aws.credentials.provider"
_ROLE: Final = "assumed.role."
_BASE: Final = "credentials.provider"
_KEYS: Final = frozenset({"SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"})
_NOBODY: Final = frozenset({"AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider"})
_ROLES: Final = frozenset({"AssumedRoleCredentialProvider"})
_ENVIRONMENT: Final = frozenset({"EnvironmentVariableCredentialsProvider"})
_CHAINS: Final = frozenset(
    {
        "IAMInstanceCredentialsProvider",
        "InstanceProfileCredentialsProvider",
        "ContainerCredentialsProvider",
        "EC2ContainerCredentialsProviderWrapper",
        "DefaultAWSCredentialsProviderChain",
        "DefaultCredentialsProvider",
        "ProfileCredentialsProvider",
        "ProfileAWSCredentialsProvider",
        "WebIdentityTokenCredentialsProvider",
        "WebIdentityTokenFileCredentialsProvider",
        "SystemPropertiesCredentialsProvider",
        "SystemPropertyCredentialsProvider",
    }
)
_ROLE_NAMES: Final[Mapping[str, str]] = {
    "arn": "arn",
    "session.name": "session_name",
    "session.duration": "duration",
    "sts.endpoint": "endpoint",
    "sts.endpoint.region": "region",
    "external.id": "external_id",
    "policy": "policy",
}

_Any: Any = object
_TOO_MANY: Final = 429
_FIRST_PAUSE_SECONDS: Final = 0.5
_STOPPED: Final = frozenset({"ClientPayloadError", "ResponseStreamingError", "IncompleteReadError"})
"""Errors, some with their bases, of an answer that stopped: of aiohttp and botocore.

So is asyncio's `TimeoutError`; one of botocore's alone tells of an answer that never began.
"""


def for_bucket(options: Mapping[str, str], path: str) -> dict[str, str]:
    """Hadoop's settings with those of the path's bucket (``fs.s3a.bucket.<bucket>.``) in the place of those of all."""
    of_buckets = "fs.s3a.bucket."
    bucket = path.partition("://")[2].partition("/")[0]
    own = f"{of_buckets}{bucket}."
    plain = {key: value for key, value in options.items() if not key.lower().startswith(of_buckets)}
    there = {
        f"fs.s3a.{key[len(own) :].lower()}": v for key, v in options.items() if key.lower().startswith(own.lower())
    }
    replaced = {key for key in plain if key.lower() in there}
    return {**{key: value for key, value in plain.items() if key not in replaced}, **there}


def provided(
    options: Mapping[str, str], translated: dict[str, Any], used: set[str], unknown: Callable[[str], None] | None
) -> None:
    """Act on providers of credentials and on an assumed role among the options of a store.

    Args:
        options: as given.
        translated: arguments of s3fs so far, which are changed.
        used: keys that were translated, which are added to.
        unknown: called with the name of a class that only Java has; without it such a class is refused.

    Raises:
        UnsupportedError: a provider exists in Java only.
        OptionError: a role is to be assumed, and nothing says which.
    """
    found = _settings(options)
    key, text = found.get(_PROVIDERS, ("", ""))
    roles = {name: value for name, (_, value) in found.items() if name.startswith(_ROLE)}
    used.update(own for own, _ in found.values())
    classes = [part.strip() for part in text.split(",") if part.strip()]
    if not classes:
        if f"{_ROLE}arn" in roles and unknown is None:
            classes = ["AssumedRoleCredentialProvider"]  # what is given to us is meant
        else:
            return
    keys: dict[str, Any] = {name: translated.pop(name) for name in ("key", "secret", "token") if name in translated}
    chosen = _chosen(classes, keys, roles)
    if chosen is None:
        words = (
            f"'{key}' is {text}, which only Java has: give s3.access-key, s3.secret-key and s3.session.token, or "
            "name a profile of ~/.aws/config (fs.profile) whose credential_process prints the credentials"
        )
        if unknown is None:
            raise UnsupportedError(f"Option {words}")
        unknown(f"The session's {words}")
        chosen = keys
    translated.update(chosen)


def _settings(options: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The settings about providers and roles: name without prefix -> (key, value)."""
    found: dict[str, tuple[str, str]] = {}
    for key, value in options.items():
        prefix = next((each for each in _PREFIXES if key.lower().startswith(each)), None)
        name = key[len(prefix) :].lower() if prefix else ""
        if (name == _PROVIDERS or name.startswith(_ROLE)) and value.strip().lower() not in ("", "none", "false"):
            found.setdefault(name, (key, value.strip()))
    return found


def _chosen(classes: list[str], keys: dict[str, Any], roles: Mapping[str, str]) -> dict[str, Any] | None:
    """What the first provider gives that can give something; None where only Java knows."""
    for name in classes:
        simple = name.rpartition(".")[2]
        if simple in _KEYS:
            if "key" in keys and (not simple.startswith("Temporary") or "token" in keys):
                return keys
        elif simple in _NOBODY:
            return {"anon": True}
        elif simple in _ROLES:
            return {ASSUMED_ROLE: _role(keys, roles)}
        elif simple in _ENVIRONMENT:
            if os.environ.get("AWS_ACCESS_KEY_ID"):
                return {}
        elif simple in _CHAINS:
            return {}
        else:
            return None
    return {}


def _role(keys: Mapping[str, Any], roles: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        _ROLE_NAMES[name.removeprefix(_ROLE)]: value
        for name, value in roles.items()
        if name.removeprefix(_ROLE) in _ROLE_NAMES
    }
    if not found.get("arn"):
        raise OptionError("A role is to be assumed, and 'fs.s3a.assumed.role.arn' does not say which: give its ARN.")
    base = roles.get(_ROLE + _BASE, "")
    if not base or any(part.strip().rpartition(".")[2] in _KEYS for part in base.split(",")):
        found.update(keys)
    if "duration" in found:
        found["duration"] = int(parse_duration(str(found["duration"])).total_seconds())
    return found


def session_for(role: Mapping[str, Any], region: str | None) -> Any:
    """The session of aiobotocore that assumes a role, and again before its credentials end; kept by a process."""
    return _session(json.dumps({**role, "region": role.get("region", region)}, sort_keys=True))


@functools.cache
def _session(text: str) -> Any:
    from aiobotocore.credentials import AioAssumeRoleCredentialFetcher, AioDeferredRefreshableCredentials
    from aiobotocore.session import AioSession

    role: dict[str, Any] = json.loads(text)
    base, session = AioSession(), AioSession()
    if "key" in role:
        base.set_credentials(role["key"], role.get("secret"), role.get("token"))
    endpoint = role.get("endpoint")
    url = endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}"
    extra = {
        "RoleSessionName": role.get("session_name", "paimon-spark"),
        "DurationSeconds": role.get("duration"),
        "ExternalId": role.get("external_id"),
        "Policy": role.get("policy"),
    }

    def client(service: str, **given: Any) -> Any:
        return base.create_client(service, region_name=role.get("region") or "us-east-1", endpoint_url=url, **given)

    async def refresh() -> Any:
        fetcher = AioAssumeRoleCredentialFetcher(
            client, await base.get_credentials(), role["arn"], extra_args={k: v for k, v in extra.items() if v}
        )
        return await fetcher.fetch_credentials()

    session._credentials = AioDeferredRefreshableCredentials(refresh, "assume-role")
    return session


def _again_after_429(client: Any, response: Any = None, attempts: int = 1, **_: Any) -> float | None:
    """Seconds after which a request is sent again, None for never: of a store that answers 429 with a code of its own.

    Botocore knows the codes of Amazon's services, and its standard mode takes no other 429 for a reason to wait.
    """
    most = (client.meta.config.retries or {}).get("total_max_attempts", 1)
    is_throttled = response is not None and getattr(response[0], "status_code", None) == _TOO_MANY
    return _FIRST_PAUSE_SECONDS * 2 ** (attempts - 1) if is_throttled and attempts < most else None


class S3Files(_Any):  # type: ignore[misc]
    """s3fs's file system, which reads once more, and asks again after 429."""

    async def set_session(self, *given: Any, **named: Any) -> Any:
        """The client, made at the first request."""
        clean_botocore()
        client = await super().set_session(*given, **named)
        client.meta.events.register(
            "needs-retry.s3", functools.partial(_again_after_429, client), unique_id="paimon-429"
        )
        session = client._endpoint.http_session
        if not web_pages.are_refused(session.send):  # botocore itself takes them for 500, or for empty answers
            session.send = web_pages.refused(
                session.send, "x-amz", sessions=lambda: [*getattr(session, "_sessions", {}).values()]
            )
        return client

    async def _cat_file(self, path: str, *given: Any, max_concurrency: int | None = None, **named: Any) -> bytes:
        named = {**named, "max_concurrency": max_concurrency} if max_concurrency else named
        try:
            return await super()._cat_file(path, *given, **named)  # type: ignore[no-any-return]
        except Exception as error:
            names = {kind.__name__ for kind in type(error).__mro__}
            if not isinstance(error, TimeoutError) and not _STOPPED & names:
                raise
        return await super()._cat_file(path, *given, **named)  # type: ignore[no-any-return]
