"""A store's options in Hadoop's spelling, for whatever in the JVM opens the same files; the reverse of `store_options`.

Only what has an equal there: a store that is reached with anything else is left to Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from paimon_spark.storage.store_options import S3_BOUNDS

_PREFIX: Final = "fs.s3a."
_PROVIDERS: Final = "org.apache.hadoop.fs.s3a."
_NAMES: Final[Mapping[str, str]] = {
    "key": "access.key",
    "secret": "secret.key",
    "token": "session.token",
    "endpoint_url": "endpoint",
    "client_kwargs.region_name": "endpoint.region",
}
_BOUNDS: Final[Mapping[str, str]] = {
    "connection.establish.timeout": "5000",
    "connection.timeout": "15000",
    "attempts.maximum": "1",
    "retry.limit": "1",
}
"""A store that does not answer is given up within about a minute: Hadoop's own bounds multiply to an hour and more."""
_KEPT_ELSEWHERE: Final = {
    "hadoop.security.credential.provider.path": "user:///",
    "fs.s3a.security.credential.provider.path": "user:///",
}
"""Hadoop takes keys from there before it looks at its settings; in the memory of the user there are none of S3."""


def hadoop_options(scheme: str, options: Mapping[str, Any], buckets: Iterable[str]) -> dict[str, str] | None:
    """Settings with which Hadoop's file system reaches the same store.

    Args:
        scheme: fsspec's scheme.
        options: as of `fsspec_options`.
        buckets: of the files; a setting of Hadoop's for a bucket counts more than one for all, so ours are for each.

    Returns:
        The settings, which hold secrets. Empty where nothing was given: then the session's own count. None where an
        option has no equal.
    """
    given = _flat(options)
    for key, value in _flat({"config_kwargs": S3_BOUNDS}).items():
        if given.get(key) == value:
            del given[key]
    if not given:
        return {}
    if scheme != "s3":
        return None
    found = dict(_BOUNDS)
    for key, value in given.items():
        match key:
            case _ if key in _NAMES:
                found[_NAMES[key]] = str(value)
            case "anon":
                if value is True:
                    found["aws.credentials.provider"] = f"{_PROVIDERS}AnonymousAWSCredentialsProvider"
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
            case "config_kwargs.retries.mode":
                pass
            case _:
                return None
    kept = {}
    if "access.key" in found:
        kind = "Temporary" if "session.token" in found else "Simple"
        found["aws.credentials.provider"] = f"{_PROVIDERS}{kind}AWSCredentialsProvider"
        kept = dict(_KEPT_ELSEWHERE)
    prefixes = (_PREFIX, *(f"{_PREFIX}bucket.{bucket}." for bucket in sorted(buckets)))
    return {**kept, **{prefix + key: value for prefix in prefixes for key, value in found.items()}}


def _flat(options: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{above}{key}."))
        else:
            found[above + key] = value
    return found
