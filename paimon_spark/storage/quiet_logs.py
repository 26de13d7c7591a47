"""Secrets that packages of stores would write into logs at level DEBUG: their texts are cleaned.

botocore logs each request with its headers, a session token among them, and the answers of Amazon's token service with
the keys that it gives for a role. Azure's, Google's and Alibaba's packages log none.
"""

from __future__ import annotations

import logging
import re
from typing import Final

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
