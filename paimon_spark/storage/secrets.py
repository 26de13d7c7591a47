"""Keeps the secrets among options out of what is shown: texts of objects, and messages that tell a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from paimon_spark.errors import PaimonError
from paimon_spark.storage.store_options import secret_values


class QuietOptions(dict[str, str]):
    """Options whose text has no secrets."""

    def __repr__(self) -> str:
        """As of a dict, with stars for the values of secret keys."""
        return repr({key: "***" if secret_values([(key, value)]) else value for key, value in self.items()})


@contextmanager
def without_secrets(options: Mapping[str, Any]) -> Iterator[None]:
    """Take the secrets of options out of the message of an error, whichever option it is about."""
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
