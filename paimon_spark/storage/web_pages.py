"""Answers that are no store's: the web page of a proxy, of a login, or of another server at the endpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from paimon_spark.storage import unanswered

_REDIRECTS: Final = frozenset((302, 303))
"""Stores send none of these; who asks for a login does."""
_NOT_FOUND: Final = 404
"""Stores say so in XML or JSON; a server that is none, by a page."""


_CHECKED: Final = "_paimon_checked"


class WebPageError(Exception):
    """A web page came in the place of a store's answer; the text says which."""


def check(status: int, headers: Mapping[str, Any], *prefixes: str) -> None:
    """Refuse an answer of success or of a missing object, or a redirection, that is a web page.

    An object may be a web page, and so may what Google says of a missing one: the store adds an ETag, or headers of its
    own.

    Args:
        status: of the answer.
        headers: of the answer.
        prefixes: how the names of the store's own headers begin, in lower case.

    Raises:
        WebPageError: it is none of the store's.
    """
    names = {str(name).lower(): str(value) for name, value in headers.items()}
    kind = names.get("content-type", "").partition(";")[0].strip().lower()
    of_store = 200 <= status < 300 or status == _NOT_FOUND
    is_page = (of_store and kind == "text/html") or (status in _REDIRECTS and "location" in names)
    if is_page and not any(name.startswith(("etag", *prefixes)) for name in names):
        raise WebPageError(f"status {status}, {kind or 'a redirection'}")


def refused(
    send: Callable[..., Awaitable[Any]], *prefixes: str, sessions: Callable[[], Iterable[Any]] = tuple
) -> Callable[..., Awaitable[Any]]:
    """Return what sends a request as ``send`` does, notes unclear answers, and refuses web pages (`check`).

    Args:
        send: of a client.
        prefixes: how the names of the store's own headers begin, in lower case.
        sessions: those of aiohttp that it sends by now.
    """

    async def checked(*given: Any, **more: Any) -> Any:
        for session in sessions():
            unanswered.count_connections(session)
        try:
            answer = await send(*given, **more)
        except Exception:
            unanswered.note()
            raise
        unanswered.note(answer.status_code)
        check(answer.status_code, answer.headers, *prefixes)
        return answer

    setattr(checked, _CHECKED, True)
    return checked


def refuse_in(session: Any, *prefixes: str) -> None:
    """Let a session of aiohttp refuse web pages (`check`)."""
    from aiohttp import TraceConfig

    async def ended(_session: Any, _context: Any, found: Any) -> None:
        try:
            check(found.response.status, found.response.headers, *prefixes)
        except WebPageError:
            found.response.close()
            raise

    checked: Any = TraceConfig()
    checked.on_request_end.append(ended)
    checked.freeze()
    session.trace_configs.append(checked)


def refuse_of_namenode(answer: Any, **_: Any) -> None:
    """Refuse an answer of requests that is a web page: WebHDFS says all in JSON, and gives files without a type."""
    check(answer.status_code, answer.headers)


def are_refused(send: Callable[..., Awaitable[Any]]) -> bool:
    """Whether it is what `refused` returned."""
    return hasattr(send, _CHECKED)


class CheckedSession:
    """A session of oss2 whose answers are checked and, where they are unclear, noted."""

    def __init__(self, session: Any) -> None:
        """Ask by a session."""
        self._session = session

    def do_request(self, request: Any, timeout: Any) -> Any:
        """Send a request.

        Raises:
            WebPageError: OSS did not answer it.
        """
        try:
            answer = self._session.do_request(request, timeout)
        except Exception:
            unanswered.note()
            raise
        unanswered.note(answer.status)
        check(answer.status, answer.headers, "x-oss-")
        return answer
