"""Turns errors of the operating system and of stores into errors of this package.

Disks raise `OSError`s with numbers; object stores raise the errors of their libraries. Both become a `StorageError`
that says what failed at which path and what to do. It is still the `OSError` of its kind, so that callers distinguish a
missing file from one that must not be read. No text contains a secret, and no library's error is chained. What to do
about the answers with which stores refuse a request is told by their codes, whatever library raised them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from paimon_spark.errors import (
    ExistingFileError,
    MissingFileError,
    OptionError,
    PaimonError,
    StorageDeniedError,
    StorageError,
)
from paimon_spark.storage import silence
from paimon_spark.storage.store_options import FSSPEC_SCHEME, install_command, redact, scheme_of
from paimon_spark.storage.web_pages import WebPageError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LONGEST_PATH: Final = 300
_LONGEST_REASON: Final = 300

FINAL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENAMETOOLONG})
"""Numbers of errors after which nothing was written and an immediate retry does not help."""

_ADVICE: Final = {
    errno.ENOSPC: "No space is left for '{path}'. Free some space, then run it again",
    errno.EDQUOT: "The disk quota does not suffice for '{path}'. Free some space, then run it again",
    errno.EROFS: "'{path}' cannot be written: its file system is read-only. Write elsewhere or mount it writable",
    errno.ENAMETOOLONG: "A name in '{path}' is too long for the file system (most take 255 bytes). Shorten the name of "
    "the database, table, branch or tag, or the partition value",
    errno.ENOTDIR: "'{path}' cannot be used: there is a file where a directory should be. Move it away, or choose "
    "another path",
    errno.EISDIR: "'{path}' cannot be used: there is a directory where a file should be. Move it away, or choose "
    "another path",
    errno.EMFILE: "'{path}' cannot be opened: this process has too many open files. Raise the limit (ulimit -n)",
}
_UNREACHABLE: Final = (
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ConnectionClosedError",
    "HTTPClientError",
    "ClientConnectorError",
    "ClientConnectionError",
    "ServiceRequestError",
    "ServiceResponseError",
    "TransportError",
    "RequestError",  # of oss2
    "FSTimeoutError",
    "TimeoutError",
    "ConnectionError",
)
_NO_KEYS: Final = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "DefaultCredentialsError",
)
_DENIED: Final = (
    "InvalidAccessKeyId",
    "Access Key Id",
    "SignatureDoesNotMatch",
    "AccessDenied",
    "Forbidden",
    "AccessControlException",
)
_FORBIDDEN: Final = re.compile(r"(?<![\w/.-])403(?![\w/-])")
"""The status, and no part of a port or a name."""
_JAVA_STACK: Final = re.compile(r"(\\n|\s)(\\t|\s)at [\w.$]+\(.*", re.DOTALL)
"""Where in Java something was raised: HDFS's client takes it over."""


_DENIED_STATUS: Final = (401, 403)
_ERRNO_IN_TEXT: Final = re.compile(r"\[errno (\d+)\]", re.IGNORECASE)

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
_ADVICE_ON_ANSWERS: Final[tuple[tuple[tuple[str, ...], type[StorageError], str], ...]] = (
    (
        ("RequestTimeTooSkewed", "RequestExpired", "date header too old", "in a reasonable timeframe"),
        StorageDeniedError,
        _CLOCK,
    ),
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
_WITH_BUCKETS: Final = {
    "s3": "s3://<bucket>",
    "gs": "gs://<bucket>",
    "oss": "oss://<bucket>",
    "abfs": "abfs://<container>@<account>.dfs.core.windows.net",
}


class _Store(Protocol):
    def secrets(self) -> tuple[str, ...]: ...


_S = TypeVar("_S", bound=_Store)
_WITHOUT_REQUEST: Final = frozenset({"open_input", "open_output", "fetch"})
"""Methods of a store that may send none."""


def named(method: Callable[Concatenate[_S, str, _P], _R]) -> Callable[Concatenate[_S, str, _P], _R]:
    """A method of a store whose first argument is a path, with its errors translated."""

    @functools.wraps(method)
    def call(self: _S, path: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            found = method(self, path, *args, **kwargs)
        except PaimonError:
            raise
        except Exception as error:  # noqa: BLE001 - libraries of stores raise errors of many kinds
            if silence.says_silence(error):
                silence.noticed(_opened(self, path), error)
            raise translated(error, path, self.secrets(), _hint(self)) from None
        if silence.is_any() and method.__name__ not in _WITHOUT_REQUEST:
            silence.answered(_opened(self, path))
        return found

    return call


def _opened(store: object, path: str) -> Any:
    """The file system of fsspec; None for a local disk."""
    opened = getattr(store, "filesystem", None)
    return None if opened is None else opened(path)


def _hint(store: object) -> str:
    session = getattr(store, "session", None)
    return "" if session is None else str(session.hint)


@contextlib.contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Translate errors of the operating system within a block that works on one file."""
    try:
        yield
    except PaimonError:
        raise
    except OSError as error:
        raise translated(error, path) from None


def translated(error: Exception, path: str, secrets: tuple[str, ...] = (), hint: str = "") -> PaimonError:
    """What to raise in place of an error of the operating system or of a store's library."""
    shown = _cut(redact(path).encode("utf-8", "backslashreplace").decode(), _LONGEST_PATH)
    reason = _reason(error, secrets)
    number = _number(error)
    page = next((each for each in (error, error.__cause__, error.__context__) if isinstance(each, WebPageError)), None)
    if page is not None:
        return StorageError(
            f"A web page ({page}) came in the place of what the store of '{shown}' answers, from a proxy, a login page "
            f"or another server: check the endpoint{_ENDPOINTS.get(_store_of(path), '')}, and that the network lets "
            "requests through as they are"
        )
    if isinstance(error, ValueError) and "nvalid endpoint" in reason:
        return StorageError(f"The store of '{shown}' has no address ({reason}). Give 's3.endpoint' as http://host:port")
    if "AzureSigningError" in {type(each).__name__ for each in (error, error.__cause__, error.__context__)}:
        return StorageError(
            f"The store of '{shown}' cannot be asked: the account's key is no text of base64 ({reason}). Give it as "
            "the store shows it"
        )
    if reason == "endpoint is required":
        return StorageError(f"The store of '{shown}' has no address. Give 'fs.oss.endpoint' as https://host")
    if isinstance(error, UnicodeError) or "null byte" in reason or "null character" in reason:
        return StorageError(f"'{shown}' cannot be a path: it holds a character that no name of a file can have")
    if isinstance(error, FileExistsError):
        return ExistingFileError(f"There is a file '{shown}' already", number)
    if says_no_bucket(error):
        words = f"The bucket of '{shown}' does not exist ({reason}). Create it, or check the path"
        return MissingFileError(words, number)
    answer = refused(error, reason, shown)
    if answer is not None:
        return answer
    if isinstance(error, FileNotFoundError):
        return MissingFileError(f"There is no file '{shown}'", number)
    if number in _ADVICE:
        return StorageError(_ADVICE[number].format(path=shown), number)
    more = f". {hint}" if hint else ""
    if isinstance(error, PermissionError) or _status(error) in _DENIED_STATUS or _says_denied(reason):
        return StorageDeniedError(
            f"'{shown}' may not be read or written ({reason}). Give the user who runs Spark the right to it; of an "
            f"object store check the keys{_keys_of(path)}{more}",
            number,
        )
    kinds = {kind.__name__ for each in (error, error.__cause__) for kind in type(each).__mro__}
    if kinds.intersection(_NO_KEYS):
        return StorageDeniedError(
            f"The store of '{shown}' cannot be asked without keys ({reason}). Give 's3.access-key' and "
            f"'s3.secret-key', or 'fs.anon' = 'true' for public data{more}"
        )
    if kinds.intersection(_UNREACHABLE):
        return StorageError(f"The store of '{shown}' does not answer ({reason}). {_where(path)}", number)
    if "All DataNodes failed" in reason:  # HDFS's client lists all that it knows of them
        return StorageError(
            f"No DataNode of HDFS gives '{shown}'. Check that they run and can be reached from here; a silent one is "
            "waited for 'hadoop.dfs.client.socket-timeout' milliseconds, twice"
        )
    if isinstance(error, TypeError):
        return StorageError(
            f"The store of '{shown}' cannot be asked ({reason}). Check the options that start with 'fs.'"
        )
    return StorageError(
        f"The store failed at '{shown}': {reason}. See that it works and can be reached, then run it again", number
    )


_KEYS: Final = {
    "s3": " ('s3.access-key', 's3.secret-key')",
    "oss": " ('fs.oss.accessKeyId', 'fs.oss.accessKeySecret')",
    "gs": " ('fs.token')",
    "abfs": " ('fs.account_key', 'fs.connection_string')",
}
"""The options of the keys, by fsspec's scheme."""


_ENDPOINTS: Final = {
    "s3": " ('s3.endpoint')",
    "oss": " ('fs.oss.endpoint')",
    "gs": " ('fs.endpoint_url')",
    "abfs": " (BlobEndpoint in 'fs.connection_string')",
    "webhdfs": " (the host and port of the path)",
}
"""The options of the endpoint."""


def _keys_of(path: str) -> str:
    return _KEYS.get(_store_of(path), "")


def _store_of(path: str) -> str:
    scheme = scheme_of(path)
    return FSSPEC_SCHEME.get(scheme, scheme)


def _where(path: str) -> str:
    if path.lower().startswith("s3"):
        return (
            "Check the endpoint ('s3.endpoint', with http:// where the store has no TLS) and the network; "
            "'s3.connection.establish.timeout' and 's3.connection.timeout' say how long is waited"
        )
    if path.lower().startswith("hdfs"):
        return "Check that the NameNode of the path is active, and the network"
    return "Check the endpoint of the store and the network"


def _says_denied(reason: str) -> bool:
    return any(word in reason for word in _DENIED) or _FORBIDDEN.search(reason) is not None


def _status(error: BaseException) -> int | None:
    """The answer of HTTP that an error of a store's library reports, or one that it was raised for."""
    seen: list[BaseException] = []
    while error not in seen:
        seen.append(error)
        for name in ("status_code", "status", "code"):
            found = getattr(error, name, None)
            if isinstance(found, int | str) and str(found).isdecimal():
                return int(found)
        error = error.__cause__ or error.__context__ or error
    return None


def not_opened(error: Exception, scheme: str, path: str, secrets: tuple[str, ...]) -> PaimonError:
    """What to raise where a store cannot even be made."""
    reason = _reason(error, secrets)
    if isinstance(error, ImportError):
        command = install_command(scheme)
        return PaimonError(
            f"Paths that start with '{scheme}:' need a package that is not installed ({reason}). Run: {command}"
        )
    if scheme == "hdfs" and ("libjvm" in str(error) or "libhdfs" in str(error)):
        return StorageError(
            f"'{redact(path)}' needs a client of HDFS on every node, and none is there ({reason}). Run: "
            f"{install_command(scheme)}. Or write webhdfs://<namenode>:9870/…"
        )
    if scheme == "hdfs" and "No NameNode hosts found" in str(error):
        return StorageError(
            f"'{redact(path)}' names a nameservice of which no NameNode is known. Give its settings "
            "(hadoop.dfs.nameservices, hadoop.dfs.ha.namenodes.<name>, hadoop.dfs.namenode.rpc-address.<name>.<node>), "
            "or HADOOP_CONF_DIR in the environment of the driver and the executors"
        )
    if "No fs.defaultFS setting found" in reason:
        return StorageError(
            f"'{redact(path)}' names no NameNode. Write hdfs://host:port/…, or give 'hadoop.fs.defaultFS', or "
            "HADOOP_CONF_DIR in the environment of the driver and the executors"
        )
    if scheme == "dbfs":
        return StorageError(
            f"'{redact(path)}' is a path of Databricks' own file system: write /dbfs/… on a cluster of theirs, "
            "/Volumes/… or the path of the store behind it"
        )
    return StorageError(
        f"The store of '{redact(path)}' cannot be opened: {reason}. Check the path's scheme and the options that start "
        "with 's3.' or 'fs.'."
    )


class NamedErrorsFile:
    """A file of a store's library for pyarrow, whose errors are translated."""

    def __init__(self, file: Any, path: str, secrets: tuple[str, ...]) -> None:
        self._file = file
        self._path = path
        self._secrets = secrets

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except PaimonError:
            raise
        except Exception as error:  # noqa: BLE001 - libraries of stores raise errors of many kinds
            silence.noticed(getattr(self._file, "fs", None), error)
            raise translated(error, self._path, self._secrets) from None

    def read(self, size: int = -1) -> Any:
        """Bytes from where the file stands."""
        return self._call(self._file.read, size)

    def write(self, data: Any) -> Any:
        """Append bytes."""
        return self._call(self._file.write, data)

    def seek(self, offset: int, whence: int = 0) -> Any:
        """Go to a position."""
        return self._call(self._file.seek, offset, whence)

    def tell(self) -> Any:
        """Where the file stands."""
        return self._file.tell()

    def flush(self) -> None:
        """Hand over what waits."""
        self._call(self._file.flush)

    def close(self) -> None:
        """Finish the file."""
        self._call(self._file.close)

    def readable(self) -> bool:
        """Whether it is for reading."""
        return bool(self._file.readable())

    def writable(self) -> bool:
        """Whether it is for writing."""
        return bool(self._file.writable())

    def seekable(self) -> bool:
        """Whether `seek` works."""
        return bool(self._file.seekable())

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._file.closed)


def cleaned(text: str, secrets: tuple[str, ...]) -> str:
    """A text without secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _reason(error: Exception, secrets: tuple[str, ...]) -> str:
    """The first line of an error's text: some texts list all places that were searched."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    details = getattr(error, "details", None) or getattr(error.__cause__, "details", None)
    if isinstance(details, dict):  # of oss2, whose text is a dict
        text = ": ".join(filter(None, map(details.get, ("Code", "Message")))) or f"HTTP {_status(error)}"
    lines = [line.strip() for line in _JAVA_STACK.sub("", str(text)).splitlines() if line.strip()]
    first = cleaned(lines[0] if lines else "", secrets).rstrip(".:")
    return _cut(first, _LONGEST_REASON) or type(error).__name__


def _number(error: Exception) -> int | None:
    """The number of the operating system's error, which pyarrow's formats keep in their text only."""
    if not isinstance(error, OSError):
        return None
    found = _ERRNO_IN_TEXT.search(str(error)) if error.errno is None else None
    return error.errno if found is None else int(found[1])


def says_no_bucket(error: Exception) -> bool:
    """Whether a missing file is a missing bucket, which is no empty directory."""
    text = f"{type(error).__name__} {error}".lower()
    return "nosuchbucket" in text or (("bucket" in text or "container" in text) and "not exist" in text)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-length // 2 :]}"


def refused(error: Exception, reason: str, path: str) -> StorageError | None:
    """What to raise for an answer whose code says what is wrong; None for others.

    Args:
        error: as a store's library raised it.
        reason: its text without secrets.
        path: fit for a message.
    """
    said = f"{' '.join(codes(error))} {reason}".lower()
    for signs, kind, words in _ADVICE_ON_ANSWERS:
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
    if scheme in _WITH_BUCKETS and not path.partition("://")[2].partition("/")[0].partition("@")[0]:
        kind = "container" if scheme == "abfs" else "bucket"
        raise OptionError(f"'{path}' names no {kind}. Write {_WITH_BUCKETS[scheme]}/warehouse/db.db/t")
