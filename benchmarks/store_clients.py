"""Clients of object stores compared: fsspec's packages, obstore, pyarrow's own file systems, on what this package does.

`python -m benchmarks.store_clients s3` (or `gcs`, `azure`: these need Go or Node, as the tests do) prints the table of
docs/storage.md: requests, seconds at 30 ms a request, CPU seconds of the client, and by how much its memory grew at the
most. Each client runs in a process of its own, one after the other; obstore is no dependency: `pip install obstore`.
pyarrow's client of HDFS needs `libhdfs.so`, which neither PySpark nor pyarrow bring: `hdfs` compares where it is there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.store_server import BUCKET, Server, running

ROOT = Path(__file__).parent.parent
SMALL = 8 << 10
LARGE = 64 << 20
CHUNKS = [(1_000_000, 1_400_000), (9_000_000, 9_300_000), (17_000_000, 17_500_000)]
"""Column chunks of a file of `LARGE` bytes."""
THREADS = 16
AZURE_ACCOUNT = "devstoreaccount1"


class Client(Protocol):
    """What this package asks of a store; keys lie in the bucket of the benchmark."""

    def get(self, key: str) -> bytes: ...
    def ranges(self, key: str, locations: Sequence[tuple[int, int]]) -> list[bytes]: ...
    def put(self, key: str, data: bytes) -> None: ...
    def create(self, key: str, data: bytes) -> bool: ...
    def names(self, prefix: str) -> int: ...
    def delete(self, keys: Sequence[str]) -> None: ...


class Fsspec:
    """Today's client."""

    def __init__(self, store: Any, whole: dict[str, Any]) -> None:
        self._store = store
        self._whole = whole

    def get(self, key: str) -> bytes:
        return bytes(self._store.cat_file(f"{BUCKET}/{key}", **self._whole))

    def ranges(self, key: str, locations: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, ends = zip(*locations, strict=True)
        return list(self._store.cat_ranges([f"{BUCKET}/{key}"] * len(locations), list(starts), list(ends)))

    def put(self, key: str, data: bytes) -> None:
        self._store.pipe_file(f"{BUCKET}/{key}", data)

    def create(self, key: str, data: bytes) -> bool:
        try:
            with self._store.open(f"{BUCKET}/{key}", "xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        return True

    def names(self, prefix: str) -> int:
        return len(self._store.ls(f"{BUCKET}/{prefix}", detail=True))

    def delete(self, keys: Sequence[str]) -> None:
        self._store.rm([f"{BUCKET}/{key}" for key in keys])


class Obstore:
    """object_store, in Rust."""

    def __init__(self, store: Any) -> None:
        import obstore

        self._api = obstore
        self._store = store

    def get(self, key: str) -> bytes:
        return bytes(self._api.get(self._store, key).bytes())

    def ranges(self, key: str, locations: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, ends = zip(*locations, strict=True)
        found = self._api.get_ranges(self._store, key, starts=list(starts), ends=list(ends))
        return [bytes(part) for part in found]

    def put(self, key: str, data: bytes) -> None:
        self._api.put(self._store, key, data)

    def create(self, key: str, data: bytes) -> bool:
        try:
            self._api.put(self._store, key, data, mode="create", use_multipart=False)
        except self._api.exceptions.AlreadyExistsError:
            return False
        return True

    def names(self, prefix: str) -> int:
        return len(self._api.list_with_delimiter(self._store, prefix)["objects"])

    def delete(self, keys: Sequence[str]) -> None:
        self._api.delete(self._store, list(keys))


class Arrow:
    """pyarrow's own: it has no conditional put."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(THREADS)

    def get(self, key: str) -> bytes:
        with self._store.open_input_file(f"{BUCKET}/{key}") as file:
            return bytes(file.read())

    def ranges(self, key: str, locations: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._store.open_input_file(f"{BUCKET}/{key}") as file:
            return list(
                self._pool.map(lambda location: bytes(file.read_at(location[1] - location[0], location[0])), locations)
            )

    def put(self, key: str, data: bytes) -> None:
        with self._store.open_output_stream(f"{BUCKET}/{key}") as file:
            file.write(data)

    def create(self, key: str, data: bytes) -> bool:
        raise NotImplementedError

    def names(self, prefix: str) -> int:
        from pyarrow.fs import FileSelector

        return len(self._store.get_file_info(FileSelector(f"{BUCKET}/{prefix}")))

    def delete(self, keys: Sequence[str]) -> None:
        list(self._pool.map(lambda key: self._store.delete_file(f"{BUCKET}/{key}"), keys))


def s3_client(name: str, url: str) -> Client:
    """A client of moto."""
    if name == "fsspec":
        import s3fs

        region = {"region_name": "us-east-1"}
        store = s3fs.S3FileSystem(
            key="key", secret="hidden", endpoint_url=url, client_kwargs=region, use_listings_cache=False
        )
        return Fsspec(store, {"max_concurrency": 1})
    if name == "obstore":
        from obstore.store import S3Store

        keys = {"access_key_id": "key", "secret_access_key": "hidden", "region": "us-east-1"}
        return Obstore(S3Store(BUCKET, endpoint=url, client_options={"allow_http": True}, **keys))
    from pyarrow.fs import S3FileSystem

    return Arrow(S3FileSystem(access_key="key", secret_key="hidden", endpoint_override=url, region="us-east-1"))


def gcs_client(name: str, url: str) -> Client:
    """A client of fake-gcs-server."""
    if name == "fsspec":
        from gcsfs.core import GCSFileSystem

        return Fsspec(GCSFileSystem(endpoint_url=url, token="anon", project="p", use_listings_cache=False), {})
    if name == "obstore":
        from obstore.store import GCSStore

        account = dict.fromkeys(("client_email", "private_key_id", "private_key"), "")
        account |= {"gcs_base_url": url, "disable_oauth": True}
        options = {"service_account_key": json.dumps(account), "skip_signature": True}
        return Obstore(GCSStore(BUCKET, config=options, client_options={"allow_http": True}))
    from pyarrow.fs import GcsFileSystem

    return Arrow(GcsFileSystem(anonymous=True, scheme="http", endpoint_override=url.partition("://")[2]))


def azure_client(name: str, url: str) -> Client:
    """A client of azurite."""
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    if name == "fsspec":
        import adlfs

        blob = f"BlobEndpoint={url}/{AZURE_ACCOUNT};"
        text = f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={key};{blob}"
        return Fsspec(adlfs.AzureBlobFileSystem(connection_string=text, use_listings_cache=False), {})
    if name == "obstore":
        from obstore.store import AzureStore

        return Obstore(
            AzureStore(
                BUCKET,
                account_name=AZURE_ACCOUNT,
                account_key=key,
                endpoint=f"{url}/{AZURE_ACCOUNT}",
                client_options={"allow_http": True},
            )
        )
    from pyarrow.fs import AzureFileSystem

    host = url.partition("://")[2]
    return Arrow(
        AzureFileSystem(
            AZURE_ACCOUNT,
            account_key=key,
            blob_storage_authority=host,
            dfs_storage_authority=host,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )
    )


class Hdfs(Fsspec):
    """hdfs-native; paths are those of the NameNode."""

    def __init__(self, url: str) -> None:
        from paimon_spark.storage.hdfs import open_hdfs

        super().__init__(open_hdfs(f"{url}/", {}), {})

    def create(self, key: str, data: bytes) -> bool:
        from paimon_spark.storage.hdfs import create_if_absent

        return create_if_absent(self._store, f"/{BUCKET}/{key}", data)

    def get(self, key: str) -> bytes:
        return bytes(self._store.cat_file(f"/{BUCKET}/{key}"))

    def ranges(self, key: str, locations: Sequence[tuple[int, int]]) -> list[bytes]:
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda location: self._store.cat_file(f"/{BUCKET}/{key}", *location), locations))

    def put(self, key: str, data: bytes) -> None:
        self._store.makedirs(f"/{BUCKET}/{key}".rpartition("/")[0], exist_ok=True)
        self._store.pipe_file(f"/{BUCKET}/{key}", data)

    def names(self, prefix: str) -> int:
        return len(self._store.ls(f"/{BUCKET}/{prefix}", detail=True))

    def delete(self, keys: Sequence[str]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda key: self._store.rm_file(f"/{BUCKET}/{key}"), keys))


def hdfs_client(name: str, url: str) -> Client:
    """A client of a NameNode."""
    if name == "fsspec":
        return Hdfs(url)
    from pyarrow.fs import HadoopFileSystem

    host, _, port = url.partition("://")[2].partition(":")
    return Arrow(HadoopFileSystem(host, int(port)))


CLIENTS: dict[str, tuple[Callable[[str, str], Client], list[str]]] = {
    "s3": (s3_client, ["fsspec", "obstore", "pyarrow"]),
    "gcs": (gcs_client, ["fsspec", "obstore", "pyarrow"]),
    "azure": (azure_client, ["fsspec", "obstore", "pyarrow"]),
    "hdfs": (hdfs_client, ["fsspec", "pyarrow"]),
}


def operations(client: Client) -> dict[str, Callable[[], object]]:
    """What is measured, in this order; each is run once."""
    small, large = os.urandom(SMALL), os.urandom(LARGE)
    pool = ThreadPoolExecutor(THREADS)
    many = [f"many/{n}" for n in range(64)]
    doomed = [f"doomed/{n}" for n in range(200)]
    list(pool.map(lambda key: client.put(key, small), [*many, *doomed, "warm"]))
    client.get("warm")
    list(pool.map(client.get, many[:THREADS]))
    return {
        "put of 64 MB": lambda: client.put("large", large),
        "get of 64 MB": lambda: client.get("large"),
        "get of 8 KB, 20 times": lambda: [client.get("warm") for _ in range(20)],
        "64 gets of 8 KB, 16 threads": lambda: list(pool.map(client.get, many)),
        "3 column chunks of 1.2 MB, 10 times": lambda: [client.ranges("large", CHUNKS) for _ in range(10)],
        "list of 200 names, 10 times": lambda: [client.names("doomed") for _ in range(10)],
        "conditional put, 10 won, 10 lost": lambda: [client.create(f"new/{n // 2}", small) for n in range(20)],
        "delete of 200": lambda: client.delete(doomed),
    }


def measured(store: str, name: str, url: str) -> dict[str, list[float]]:
    """Seconds, CPU seconds and grown memory in MB of each operation, and requests; runs in a process of its own."""
    server = Server(url)
    client = CLIENTS[store][0](name, url)
    found: dict[str, list[float]] = {}
    for what, run in operations(client).items():
        if store != "hdfs":
            server.counted()
        before, cpu, start = _reset_peak(), _cpu_seconds(), time.perf_counter()
        try:
            run()
        except NotImplementedError:
            continue
        seconds, used = time.perf_counter() - start, _cpu_seconds() - cpu
        counted = 0.0 if store == "hdfs" else float(server.counted().number)
        found[what] = [counted, seconds, used, (_status_kb("VmHWM") - before) / 1024]
    return found


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status_kb("VmRSS")


def _status_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@contextmanager
def server_of(store: str) -> Iterator[str]:
    """The URL of a server that counts and delays (HDFS: of a NameNode, which does neither)."""
    with ExitStack() as stack:
        if store == "s3":
            yield stack.enter_context(running()).url
            return
        if store == "gcs":
            from tests.support.gcs_server import _program as program
            from tests.support.store_server import free_port, served

            behind, front = free_port(), free_port()
            listening = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(behind)]
            command = [str(program()), "-backend", "memory", *listening, "-public-host", f"127.0.0.1:{front}"]
            stack.enter_context(served(command, behind))
            server = stack.enter_context(running(front_of=f"http://127.0.0.1:{behind}", port=front))
            import requests

            requests.post(f"{server.url}/storage/v1/b?project=p", json={"name": BUCKET}, timeout=30).raise_for_status()
            yield server.url
        elif store == "azure":
            from tests.support.azure_server import azure_server

            behind_url = stack.enter_context(azure_server()).url
            yield stack.enter_context(running(front_of=behind_url.rpartition("/")[0])).url
        else:
            from tests.support.hdfs_server import hdfs_server

            yield stack.enter_context(hdfs_server()).url


def main() -> None:
    """Print the table of a store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", choices=CLIENTS)
    parser.add_argument("--client", help="measure one client, and print JSON")
    parser.add_argument("--url", help="of a server that is running")
    given = parser.parse_args()
    if given.client:
        print(json.dumps(measured(given.store, given.client, given.url)))
        return
    found: dict[str, dict[str, list[float]]] = {}
    for name in CLIENTS[given.store][1]:
        with server_of(given.store) as url:
            command = [sys.executable, "-m", "benchmarks.store_clients", given.store, "--client", name, "--url", url]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            print(f"{name} cannot be measured: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        found[name] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"| {given.store}: requests / s / CPU s / MB | {' | '.join(found)} |")
    print("|---|" + "---|" * len(found))
    for what in next(iter(found.values())):
        cells = [
            "{:.0f} / {:.2f} / {:.2f} / {:.0f}".format(*rows[what]) if what in rows else "-" for rows in found.values()
        ]
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
