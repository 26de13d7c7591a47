"""What to do about the answers with which stores refuse a request: by their codes, whatever library raised them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paimon_spark.errors import OptionError, StorageDeniedError, StorageError

_CLOCK: Final = (
    "The clock of this machine differs from that of the store of '{path}' ({reason}). Set the clock right, by NTP for "
    "instance, then run it again"
)
_REGION: Final = (
    "The bucket of '{path}' lies in another region or at another endpoint ({reason}). Give the region of the bucket "
    "('s3.region') and no endpoint of another one ('s3.endpoint')"
)
_TOKEN: Final = (
    "The store of '{path}' takes the token no more, or takes none ({reason}). Give a new one with its keys, or "
    "credentials that are renewed: a role, or a profile (docs/storage.md, Credentials)"
)
_ADVICE: Final[tuple[tuple[tuple[str, ...], type[StorageError], str], ...]] = (
    (("RequestTimeTooSkewed", "RequestExpired", "date header too old"), StorageDeniedError, _CLOCK),
    (
        (
            "PermanentRedirect",
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraint",
            "' is wrong; expecting '",
            "must be addressed using the specified endpoint",
        ),
        StorageError,
        _REGION,
    ),
    (
        (
            "ExpiredToken",
            "TokenRefreshRequired",
            "InvalidToken",
            "InvalidSecurityToken",
            "token has expired",
            "SecurityTokenExpired",
        ),
        StorageDeniedError,
        _TOKEN,
    ),
)
"""Codes of answers and parts of their texts."""
_WITH_BUCKETS: Final = {"s3": "s3://<bucket>", "gs": "gs://<bucket>", "oss": "oss://<bucket>"}


def refused(error: Exception, reason: str, path: str) -> StorageError | None:
    """What to raise for an answer whose code says what is wrong; None for others.

    Args:
        error: as a store's library raised it.
        reason: its text without secrets.
        path: fit for a message.
    """
    said = f"{' '.join(codes(error))} {reason}".lower()
    for signs, kind, words in _ADVICE:
        if any(sign.lower() in said for sign in signs):
            return kind(words.format(path=path, reason=reason))
    return None


def codes(error: BaseException) -> Iterator[str]:
    """The codes that an error tells, or those that it was raised for, such as ``NoSuchBucket``."""
    seen: list[BaseException] = []
    while error not in seen:
        seen.append(error)
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            yield str(response.get("Error", {}).get("Code", ""))
        for name in ("error_code", "code"):
            found = getattr(error, name, None)
            if isinstance(found, str):
                yield found
        error = error.__cause__ or error.__context__ or error


def check_bucket(scheme: str, path: str) -> None:
    """Refuse a path of a store with buckets that names none.

    Raises:
        OptionError: the message shows what such a path looks like.
    """
    if scheme in _WITH_BUCKETS and not path.partition("://")[2].partition("/")[0]:
        raise OptionError(f"'{path}' names no bucket. Write {_WITH_BUCKETS[scheme]}/warehouse/db.db/t")
