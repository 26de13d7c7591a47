"""S3 through `s3fs`, whose reads are sent again where an answer stops in its middle.

botocore sends a request again until an answer begins. What comes after is s3fs's to read, which does not try again: all
of botocore's attempts would be made five times over (`store_opening`).
"""

from __future__ import annotations

from typing import Any, Final

_Any: Any = object
_STOPPED: Final = frozenset({"ClientPayloadError", "ResponseStreamingError", "IncompleteReadError"})
"""Errors, some with their bases, of an answer that stopped: of aiohttp and botocore.

So is asyncio's `TimeoutError`; one of botocore's alone tells of an answer that never began.
"""


class S3Files(_Any):  # type: ignore[misc]
    """s3fs's file system, which reads once more."""

    async def _cat_file(self, path: str, *given: Any, max_concurrency: int | None = None, **named: Any) -> bytes:
        named = {**named, "max_concurrency": max_concurrency} if max_concurrency else named
        try:
            return await super()._cat_file(path, *given, **named)  # type: ignore[no-any-return]
        except Exception as error:
            names = {kind.__name__ for kind in type(error).__mro__}
            if not isinstance(error, TimeoutError) and not _STOPPED & names:
                raise
        return await super()._cat_file(path, *given, **named)  # type: ignore[no-any-return]
