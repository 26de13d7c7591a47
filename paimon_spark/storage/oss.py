"""Alibaba's OSS through `ossfs`, whose requests are those of Alibaba's own client (`oss2`).

What it writes is put whole, or in parts that appear together: ossfs itself appends to an object that readers see half.
An object is created exclusively by ``x-oss-forbid-overwrite``, which OSS ignores where a bucket has, or had, versions.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from paimon_spark.errors import UnsupportedError
from paimon_spark.storage import silence, web_pages

_FORBID: Final = {"x-oss-forbid-overwrite": "true"}
_STANDARD_RANGES: Final = {"x-oss-range-behavior": "standard"}
"""Without it OSS answers a range that begins behind the end with the whole object."""
_PART_BYTES: Final = 16 * 1024 * 1024
_WAITS_SECONDS: Final = (5, 8)
"""After so long without a connection, or without an answer, a request is given up, and sent again."""
_ATTEMPTS: Final = 3
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
"""Answers after which a request is sent again, which Alibaba's client leaves to its caller."""
_PAUSE_SECONDS: Final = 0.5
_EXISTS: Final = "FileAlreadyExists"
_PLAIN_BUCKETS: Final[set[tuple[str, str]]] = set()
_LOCK: Final = threading.Lock()


_Any: Any = object


class OssFiles(_Any):  # type: ignore[misc]
    """ossfs's file system with files that appear whole."""

    protocol = "oss"
    reads_in_threads = True
    """Its client can only wait (`read_ahead.fetch`)."""
    serves_all_threads = True
    """Its client keeps a pool of connections, which threads may share."""
    hurried = False
    """Whether the store is silent: then a request is sent once, and waits shortly."""

    def hurry(self, hurried: bool) -> None:
        """Wait shortly from now on, or as long as ever."""
        self.hurried = hurried

    def _call_oss(self, method_name: str, *given: Any, **more: Any) -> Any:
        for attempt in range(1, self._attempts()):
            try:
                return super()._call_oss(method_name, *given, retry=self._attempts(), **more)
            except OSError as error:
                if getattr(error.__cause__, "status", None) not in _BUSY:
                    raise
            time.sleep(_PAUSE_SECONDS * attempt)
        return super()._call_oss(method_name, *given, retry=self._attempts(), **more)

    def _attempts(self) -> int:
        return 1 if self.hurried else _ATTEMPTS

    def _read(self, deed: Callable[[], Any]) -> Any:
        """What is read by several requests, or as it comes; where a connection ends meanwhile, all of it anew."""
        from oss2.exceptions import InconsistentError, OssError, RequestError
        from requests import RequestException

        for attempt in range(1, self._attempts()):
            try:
                return deed()
            except RequestException:
                continue
            except OssError as error:
                if error.status in _BUSY:
                    time.sleep(_PAUSE_SECONDS * attempt)
                elif not isinstance(error, RequestError | InconsistentError):
                    raise _translated(error) from error
        try:
            return deed()
        except OssError as error:
            raise _translated(error) from error

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        found = super()._strip_protocol(path)
        return found.lstrip("/") if isinstance(found, str) else found

    def _get_bucket(self, bucket_name: str, connect_timeout: Any = None) -> Any:
        try:
            wait = silence.ANSWER_SECONDS if self.hurried else _WAITS_SECONDS
            bucket = super()._get_bucket(bucket_name, connect_timeout or wait)
        except FileNotFoundError:
            raise FileNotFoundError(f"The bucket {bucket_name} does not exist: no bucket has such a name") from None
        bucket.session = web_pages.CheckedSession(bucket.session)
        return bucket

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Put an object whole; with the mode ``create`` only where there is none."""
        bucket, key = self.split_path(path)
        try:
            self._call_oss("put_object", key, value, bucket=bucket, headers=_FORBID if mode == "create" else None)
        except OSError as error:
            if getattr(error.__cause__, "code", "") == _EXISTS:
                raise FileExistsError(path) from None
            raise

    def _open(self, path: str, mode: str = "rb", **given: Any) -> Any:
        if mode != "wb":
            return super()._open(path, mode, **given)
        return _parts()(self, path, mode, block_size=_PART_BYTES, cache_type="none")

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        """The entries below a directory, with their ETags; a file's own where the path is one."""
        bucket, key = self.split_path(path)
        prefix = f"{key.strip('/')}/" if key.strip("/") else ""
        found = self._listed(bucket, prefix)
        if not found and prefix:
            found = [entry for entry in self._listed(bucket, prefix[:-1]) if entry["name"] == f"{bucket}/{prefix[:-1]}"]
        if not found:
            raise FileNotFoundError(path)
        return found if detail else [entry["name"] for entry in found]

    def _listed(self, bucket: str, prefix: str, delimiter: str = "/") -> list[dict[str, Any]]:
        asked = {"bucket": bucket, "prefix": prefix, "delimiter": delimiter, "max_keys": 1000}
        return self._read(lambda: [_entry(bucket, each) for each in self._call_oss("ObjectIteratorV2", **asked)])  # type: ignore[no-any-return]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """The entry of an object, or of a directory."""
        bucket, key = self.split_path(path)
        if key.strip("/") and not key.endswith("/"):
            try:
                head = self._call_oss("head_object", key, bucket=bucket)
                return {
                    "name": f"{bucket}/{key}", "size": head.content_length, "type": "file",
                    "LastModified": head.last_modified, "ETag": (head.etag or "").lower(),
                }  # fmt: skip
            except FileNotFoundError:
                pass
        prefix = f"{key.strip('/')}/" if key.strip("/") else ""
        if not self._some(bucket, prefix):
            raise FileNotFoundError(path)
        return {"name": f"{bucket}/{key}".rstrip("/"), "size": 0, "type": "directory"}

    def _some(self, bucket: str, prefix: str) -> bool:
        found = self._call_oss("list_objects_v2", bucket=bucket, prefix=prefix, max_keys=1)
        return bool(found.object_list) or not prefix

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is an object or a directory."""
        try:
            self.info(path)
        except FileNotFoundError as missing:
            if "NoSuchBucket" in str(missing) or "no bucket has such a name" in str(missing):
                raise
            return False
        return True

    def find(self, path: str, maxdepth: Any = None, withdirs: bool = False, detail: bool = False, **_: Any) -> Any:
        """All objects below a directory, by one listing."""
        bucket, key = self.split_path(path)
        prefix = f"{key.strip('/')}/" if key.strip("/") else ""
        found = {entry["name"]: entry for entry in self._listed(bucket, prefix, "")}
        return found if detail else sorted(found)

    def rm_file(self, path: str) -> None:
        """Delete an object."""
        bucket, key = self.split_path(path)
        self._call_oss("delete_object", key, bucket=bucket)

    def rm(self, path: Any, recursive: bool = False, maxdepth: Any = None) -> None:
        """Delete objects, a thousand with one request."""
        names = list(path) if isinstance(path, list) else [path]
        if recursive:
            names = [*(below for name in names for below in self.find(name)), *names]
        for start in range(0, len(names), 1000):
            self._bulk_delete(names[start : start + 1000])

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> Any:
        """The bytes of an object, or of a part of it; ``end`` is not among them."""
        bucket, key = self.split_path(path)
        part = None if start is None and end is None else (start or 0, None if end is None else end - 1)
        asked = {"bucket": bucket, "byte_range": part, "headers": None if part is None else _STANDARD_RANGES}
        return self._read(lambda: self._call_oss("get_object", key, **asked).read())

    def get_object(self, path: str, start: int, end: int) -> Any:
        """What an open file asks for."""
        return self.cat_file(path, start, end)

    def check_exclusive(self, path: str) -> None:
        """Refuse a bucket that has or had versions, once for each in a process.

        Raises:
            UnsupportedError: OSS would let several writers win.
        """
        bucket, _ = self.split_path(path)
        with _LOCK:
            if (str(self._endpoint), bucket) in _PLAIN_BUCKETS:
                return
        status = self._call_oss("get_bucket_versioning", bucket=bucket).status
        if status:
            raise UnsupportedError(
                f"The bucket '{bucket}' of OSS has versions ({status}): there OSS does not heed "
                "x-oss-forbid-overwrite, and commits could be lost. Use a bucket whose versioning was never enabled"
            )
        with _LOCK:
            _PLAIN_BUCKETS.add((str(self._endpoint), bucket))


def _entry(bucket: str, found: Any) -> dict[str, Any]:
    name = f"{bucket}/{found.key}"
    if found.is_prefix():
        return {"name": name.rstrip("/"), "size": 0, "type": "directory"}
    tag = (found.etag or "").lower()  # the MD5 of an object that was put whole, which OSS spells in capitals
    return {"name": name, "size": found.size, "type": "file", "LastModified": found.last_modified, "ETag": tag}


@functools.cache
def _parts() -> type[Any]:
    import oss2
    from ossfs.file import OSSFile

    class Parts(OSSFile):  # type: ignore[misc]
        """A new object, put whole when it is small, else in parts."""

        _upload: str | None = None

        def _initiate_upload(self) -> None:
            self._numbered: list[Any] = []

        def _upload_chunk(self, final: bool = False) -> bool:
            bucket, key = self.fs.split_path(self.path)
            data = self.buffer.getvalue()
            if final and self._upload is None:
                self.fs.pipe_file(self.path, data)
                return True
            if self._upload is None:
                self._upload = self.fs._call_oss("init_multipart_upload", key, bucket=bucket).upload_id
            if data:
                number = len(self._numbered) + 1
                part = self.fs._call_oss("upload_part", key, self._upload, number, data, bucket=bucket)
                self._numbered.append(oss2.models.PartInfo(number, part.etag, size=len(data), part_crc=part.crc))
            if final:
                self.fs._call_oss("complete_multipart_upload", key, self._upload, self._numbered, bucket=bucket)
            return True

    return Parts


def _translated(error: Any) -> BaseException:
    from ossfs.exceptions import translate_oss_error

    return translate_oss_error(error)  # type: ignore[no-any-return]
