"""A stand-in for Alibaba's OSS on this machine: no server of theirs is to be had.

It answers the requests that `oss2` sends as OSS documents them, ``x-oss-forbid-overwrite`` among them, which it ignores
where a bucket has versions, as OSS does. Signatures are not checked, and nothing but the newest version is kept.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.support.faulty_server import body_of
from tests.support.store_server import BUCKET, StoreServer


@dataclass
class Bucket:
    """What a bucket holds."""

    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    versioning: str = ""


class OssError(Exception):
    """An answer that is an error: its status and code."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    buckets: dict[str, Bucket]
    lock: threading.Lock

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self) -> None:
        body = body_of(self)
        url = urlsplit(self.path)
        name, _, key = unquote(url.path).lstrip("/").partition("/")
        asked = {of: values[0] for of, values in parse_qs(url.query, keep_blank_values=True).items()}
        try:
            with self.lock:
                status, headers, data = self._done(name, key, asked, body)
        except OssError as error:
            status, code = error.args
            text = f"<Error><Code>{code}</Code><Message>{code}</Message><RequestId>1</RequestId></Error>"
            headers, data = {"Content-Type": "application/xml"}, text.encode()
        self.send_response(status)
        for of, value in headers.items():
            self.send_header(of, value)
        self.send_header("x-oss-request-id", "1")
        if "Content-Length" not in headers and status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    def _done(self, name: str, key: str, asked: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        bucket = self.buckets.get(name)
        if bucket is None:
            raise OssError(404, "NoSuchBucket")
        if key:
            return self._of_object(bucket, key, asked, body)
        if "versioning" in asked:
            if self.command == "PUT":
                bucket.versioning = ElementTree.fromstring(body).findtext("Status") or ""
                return 200, {}, b""
            status = f"<Status>{bucket.versioning}</Status>" if bucket.versioning else ""
            return _xml(f"<VersioningConfiguration>{status}</VersioningConfiguration>")
        if "delete" in asked:
            return _xml(_deleted(bucket, asked, ElementTree.fromstring(body)))
        return _xml(_listing(name, bucket, asked))

    def _of_object(
        self, bucket: Bucket, key: str, asked: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        match self.command:
            case "DELETE":
                bucket.objects.pop(key, None)
                return 204, {}, b""
            case "POST" if "uploads" in asked:
                number = uuid.uuid4().hex
                bucket.uploads[number] = {}
                return _xml(
                    "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key>"
                    f"<UploadId>{number}</UploadId></InitiateMultipartUploadResult>"
                )
            case "POST":
                parts = bucket.uploads.pop(asked["uploadId"])
                return self._put(bucket, key, b"".join(parts[at] for at in sorted(parts)), whole=True)
            case "PUT" if "partNumber" in asked:
                bucket.uploads[asked["uploadId"]][int(asked["partNumber"])] = body
                return 200, {"ETag": _tag(body)}, b""
            case "PUT":
                source = self.headers.get("x-oss-copy-source")
                if source is None:
                    return self._put(bucket, key, body)
                of, _, other = unquote(source).lstrip("/").partition("/")
                if other not in self.buckets[of].objects:
                    raise OssError(404, "NoSuchKey")
                return self._put(bucket, key, self.buckets[of].objects[other][0], whole=True)
        if key not in bucket.objects:
            raise OssError(404, "NoSuchKey")
        data, changed = bucket.objects[key]
        headers = {"ETag": _tag(data), "Last-Modified": formatdate(changed, usegmt=True)}
        if self.command == "HEAD":
            return 200, {**headers, "Content-Length": str(len(data))}, b""
        part = self.headers.get("Range", "").removeprefix("bytes=")
        if not part:
            return 200, headers, data
        first, _, last = part.partition("-")
        start = int(first) if first else max(len(data) - int(last), 0)
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        if start >= len(data):
            if self.headers.get("x-oss-range-behavior") == "standard":
                raise OssError(416, "InvalidRange")
            return 200, headers, data  # as OSS does
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        return 206, headers, data[start:end]

    def _put(self, bucket: Bucket, key: str, data: bytes, *, whole: bool = False) -> tuple[int, dict[str, str], bytes]:
        forbidden = self.headers.get("x-oss-forbid-overwrite") == "true" and not bucket.versioning
        if forbidden and key in bucket.objects:
            raise OssError(409, "FileAlreadyExists")
        bucket.objects[key] = (data, time.time())
        if not whole:
            return 200, {"ETag": _tag(data)}, b""
        tag = escape(_tag(data))
        result = f"<ETag>{tag}</ETag><LastModified>2024-01-31T00:00:00.000Z</LastModified>"
        return _xml(f"<Result><Bucket>b</Bucket><Key>k</Key>{result}</Result>")


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest().upper()}"'


def _xml(text: str) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/xml"}, f'<?xml version="1.0"?>{text}'.encode()


def _deleted(bucket: Bucket, asked: dict[str, str], wanted: ElementTree.Element) -> str:
    url = asked.get("encoding-type") == "url"
    keys = [each.text or "" for each in wanted.iter("Key")]
    for key in keys:
        bucket.objects.pop(key, None)
    told = [] if wanted.findtext("Quiet") == "true" else keys
    entries = "".join(f"<Deleted><Key>{quote(key) if url else escape(key)}</Key></Deleted>" for key in told)
    return f"<DeleteResult>{'<EncodingType>url</EncodingType>' if url else ''}{entries}</DeleteResult>"


def _listing(name: str, bucket: Bucket, asked: dict[str, str]) -> str:
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    most, after = int(asked.get("max-keys") or 100), asked.get("continuation-token") or asked.get("start-after") or ""
    found: dict[str, bool] = {}  # key or common prefix -> whether it is a prefix
    for key in sorted(bucket.objects):
        if not key.startswith(prefix):
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        entry = key if cut < 0 else key[: cut + 1]
        if entry > after:
            found[entry] = cut >= 0
    shown, more = list(found)[:most], len(found) > most
    url = asked.get("encoding-type") == "url"
    spelled: Callable[[str], str] = quote if url else escape
    text = ""
    for entry in shown:
        if found[entry]:
            text += f"<CommonPrefixes><Prefix>{spelled(entry)}</Prefix></CommonPrefixes>"
            continue
        data, changed = bucket.objects[entry]
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(changed))
        text += (
            f"<Contents><Key>{spelled(entry)}</Key><LastModified>{when}</LastModified><ETag>{escape(_tag(data))}</ETag>"
            f"<Type>Normal</Type><Size>{len(data)}</Size><StorageClass>Standard</StorageClass></Contents>"
        )
    token = f"<NextContinuationToken>{spelled(shown[-1])}</NextContinuationToken>" if more else ""
    return (
        f"<ListBucketResult><Name>{name}</Name><Prefix>{spelled(prefix)}</Prefix><MaxKeys>{most}</MaxKeys>"
        f"{'<EncodingType>url</EncodingType>' if url else ''}<KeyCount>{len(shown)}</KeyCount>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{text}</ListBucketResult>"
    )


@contextmanager
def oss_server() -> Iterator[StoreServer]:
    """Start the stand-in with an empty bucket, and one with versions, `versioned`; it ends with the context."""
    handler = type("Handler", (_Handler,), {
        "buckets": {BUCKET: Bucket(), "versioned": Bucket(versioning="Suspended")}, "lock": threading.Lock(),
    })  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        options = {"fs.oss.endpoint": url, "fs.oss.accessKeyId": "id", "fs.oss.accessKeySecret": "hidden"}
        yield StoreServer(url, f"oss://{BUCKET}/wh", options)
    finally:
        server.shutdown()
        server.server_close()
