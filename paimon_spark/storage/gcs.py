"""Google Cloud Storage through `gcsfs`, which by itself waits for an answer as long as the connection stands."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import Any, Final

from paimon_spark.storage import silence, unanswered, web_pages

CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 15
"""After so long without a byte a request is given up, and sent again."""
ATTEMPTS: Final = 6
LAST_ATTEMPT_SECONDS: Final = 35
"""No attempt begins later than this after the first one: a store that is silent is given up within a minute."""
_LONGEST_PAUSE_SECONDS: Final = 16
_ATTEMPTS_TO_CONNECT: Final = 3
"""Where nobody listens, or no such host is to be reached: an error after 4 seconds, or about 20."""
_NOT_CONNECTED: Final = frozenset({"ClientConnectorError", "ConnectionTimeoutError"})
"""Errors of aiohttp before a request is sent."""
_NO_TOKEN: Final = 401
_ATTEMPTS_OF_TOKENS: Final = 3
"""A token that ended is renewed before the next attempt, where it can be; another denial stays one."""


_Any: Any = object


class GcsFiles(_Any):  # type: ignore[misc]
    """gcsfs's file system whose requests end in a bounded time; the option `fs.requests_timeout` is heeded."""

    requests_timeout: Any
    hurried = False
    """Whether the store is silent: then a request is sent once, and waits shortly."""
    _given_timeout: Any = None

    def hurry(self, hurried: bool) -> None:
        """Wait shortly from now on, or as long as ever."""
        if hurried:
            self._given_timeout, self.requests_timeout = self.requests_timeout, _timeout(silence.ANSWER_SECONDS)
        else:
            self.requests_timeout = self._given_timeout
        self.hurried = hurried

    async def _request(self, *given: Any, **more: Any) -> Any:
        from gcsfs.core import GCSFileSystem
        from gcsfs.retry import is_retriable

        once, begun = GCSFileSystem._request.__wrapped__, time.monotonic()
        self._bound()
        for attempt in itertools.count(1):
            try:
                answer = await once(self, *given, **more)
            except Exception as error:
                unanswered.note(_status(error))
                most = _ATTEMPTS_OF_TOKENS if getattr(error, "code", None) == _NO_TOKEN else ATTEMPTS
                if any(kind.__name__ in _NOT_CONNECTED for kind in type(error).__mro__):
                    most = min(most, _ATTEMPTS_TO_CONNECT)
                late = attempt >= most or time.monotonic() - begun > LAST_ATTEMPT_SECONDS
                silent = isinstance(error, TimeoutError)
                if late or (silent and self.hurried) or not (silent or is_retriable(error)):
                    raise
            else:
                return answer
            await asyncio.sleep(min(random.random() + 2 ** (attempt - 1), _LONGEST_PAUSE_SECONDS))

    async def _set_session(self) -> Any:
        """The session, made at the first request; it refuses web pages, of which gcsfs tells the status alone."""
        before = self._session
        session = await super()._set_session()
        if session is not None and session is not before:
            web_pages.refuse_in(session, "x-goog-", "x-guploader-")
        return session

    async def _rm_file(self, path: str, **more: Any) -> Any:
        """Delete an object; gcsfs asks for many, five at once, at an endpoint that is not Google's own."""
        silent = silence.at_deletes(self)
        if silent is not None and silence.rests(self):
            raise silent
        try:
            return await super()._rm_file(path, **more)
        except Exception as error:
            silence.noticed(self, error, deleting=True)
            raise

    def _bound(self) -> None:
        if self.requests_timeout is None:
            self.requests_timeout = _timeout(ANSWER_SECONDS)


def _status(error: Exception) -> int:
    code = str(getattr(error, "code", ""))
    return int(code) if code.isdecimal() else 0


def _timeout(answer_seconds: float) -> Any:
    from aiohttp import ClientTimeout

    return ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, answer_seconds), sock_read=answer_seconds)
