"""Keeps the secrets of options out of texts of objects and out of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from paimon_spark.errors import PaimonError
from paimon_spark.storage.store_options import secret_values


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
