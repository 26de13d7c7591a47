"""Clients of stores compared: fsspec's packages, obstore, pyarrow's own file systems, on what this package does.

`python -m benchmarks.store_clients` prints the tables of docs/storage.md for S3, Google Cloud Storage, Azure and HDFS,
or for those that are named: requests, seconds at 30 ms a request, CPU seconds of the client, and by how much its memory
grew at the most. Each client runs in a process of its own against one server, one after the other, in turns
(`--rounds`); the best of each is told. The servers are those of the tests, and need Go, Node, and Java with Maven.

obstore is no dependency: `pip install obstore`. pyarrow's client of HDFS needs `libhdfs.so`, which no package brings:
where neither ARROW_LIBHDFS_DIR nor HADOOP_HOME leads to one, it is compiled from the sources of Hadoop 3.3 that the
crate `hdfs-sys` carries, which needs cargo, gcc and a JDK.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import uuid
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
_CRATE = """[package]
name = "libhdfs"
version = "0.0.0"
[lib]
path = "lib.rs"
[dependencies]
hdfs-sys = "=0.3.1"
"""


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
        from paimon_spark.storage.exclusive_creation import put_if_absent

        return put_if_absent(self._store, f"{BUCKET}/{key}", data, key)

    def names(self, prefix: str) -> int:
        from paimon_spark.storage.store_requests import listed

        return len(listed(self._store, self._store.protocol[0], f"{BUCKET}/{prefix}"))

    def delete(self, keys: Sequence[str]) -> None:
        from paimon_spark.storage.tree_changes import delete_in_bulk

        assert not delete_in_bulk(self._store, [f"{BUCKET}/{key}" for key in keys])


class Obstore:
    """object_store, in Rust."""

    def __init__(self, store: Any, **of_put: Any) -> None:
        import obstore

        self._api = obstore
        self._store = store
        self._of_put = of_put

    def get(self, key: str) -> bytes:
        return bytes(self._api.get(self._store, key).bytes())

    def ranges(self, key: str, locations: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, ends = zip(*locations, strict=True)
        found = self._api.get_ranges(self._store, key, starts=list(starts), ends=list(ends))
        return [bytes(part) for part in found]

    def put(self, key: str, data: bytes) -> None:
        self._api.put(self._store, key, data, **self._of_put)

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
    if name == "s3fs":
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
    if name == "gcsfs":
        from gcsfs.core import GCSFileSystem

        return Fsspec(GCSFileSystem(endpoint_url=url, token="anon", project="p", use_listings_cache=False), {})
    if name == "obstore":
        from obstore.store import GCSStore

        account = dict.fromkeys(("client_email", "private_key_id", "private_key"), "")
        account |= {"gcs_base_url": url, "disable_oauth": True}
        options = {"service_account_key": json.dumps(account), "skip_signature": True}
        store = GCSStore(BUCKET, config=options, client_options={"allow_http": True})
        return Obstore(store, use_multipart=False)  # the server has no uploads in parts by this protocol
    from pyarrow.fs import GcsFileSystem

    return Arrow(GcsFileSystem(anonymous=True, scheme="http", endpoint_override=url.partition("://")[2]))


def azure_client(name: str, url: str) -> Client:
    """A client of azurite."""
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    if name == "adlfs":
        from paimon_spark.storage.store_opening import open_store

        blob = f"BlobEndpoint={url}/{AZURE_ACCOUNT};"
        text = f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={key};{blob}"
        return Fsspec(open_store("abfs", f"abfs://{BUCKET}/", {"connection_string": text}), {})
    if name == "obstore":
        from obstore.store import AzureStore

        os.environ["AZURITE_BLOB_STORAGE_URL"] = url
        return Obstore(AzureStore(BUCKET, config={"use_emulator": True}, client_options={"allow_http": True}))
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


class ArrowHdfs(Arrow):
    """pyarrow's client of HDFS, Hadoop's own in a JVM: its rename fails on an existing target."""

    def create(self, key: str, data: bytes) -> bool:
        aside = f"{key}.{uuid.uuid4()}"
        self.put(aside, data)
        try:
            self._store.move(f"{BUCKET}/{aside}", f"{BUCKET}/{key}")
        except OSError:
            self.delete([aside])
            return False
        return True


def hdfs_client(name: str, url: str) -> Client:
    """A client of a NameNode."""
    if name == "hdfs-native":
        return Hdfs(url)
    from pyarrow.fs import HadoopFileSystem

    from tests.support.maven_jars import spark_jars

    os.environ.setdefault("LIBHDFS_OPTS", "-Xmx256m")
    os.environ["CLASSPATH"] = os.pathsep.join(spark_jars())
    if not {"ARROW_LIBHDFS_DIR", "HADOOP_HOME"} & os.environ.keys():
        os.environ["ARROW_LIBHDFS_DIR"] = libhdfs()
    host, _, port = url.partition("://")[2].partition(":")
    return ArrowHdfs(HadoopFileSystem(host, int(port)))


def libhdfs() -> str:
    """The directory of a `libhdfs.so`, compiled once; sets JAVA_HOME, by which it is found that the JVM is loaded."""
    from tests.oracle.paimon_oracle import cache_dir

    java = os.environ.setdefault("JAVA_HOME", str(Path(shutil.which("javac") or "").resolve().parent.parent))
    folder = Path(cache_dir()) / "libhdfs-3.3"
    if not (folder / "libhdfs.so").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lib.rs").touch()
        (folder / "Cargo.toml").write_text(_CRATE)
        subprocess.run(["cargo", "vendor", "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        sources = folder / "vendor/hdfs-sys/libhdfs"
        newest = sources / "hdfs_3_3"
        headers = [sources, *(newest / name for name in ("", "os", "os/posix", "include"))]
        headers += [Path(java, "include"), Path(java, "include/linux")]
        library = f"{java}/lib/server"
        command = ["gcc", "-w", "-O2", "-fPIC", "-shared", "-fcommon", *(f"-I{header}" for header in headers)]
        command += [*map(str, newest.glob("*.c")), *map(str, newest.glob("os/posix/*.c"))]
        command += [f"-L{library}", "-ljvm", f"-Wl,-rpath,{library}", "-o", str(folder / "libhdfs.so")]
        subprocess.run(command, check=True)
    return str(folder)


CLIENTS: dict[str, tuple[Callable[[str, str], Client], list[str]]] = {
    "s3": (s3_client, ["s3fs", "obstore", "pyarrow"]),
    "gcs": (gcs_client, ["gcsfs", "obstore", "pyarrow"]),
    "azure": (azure_client, ["adlfs", "obstore", "pyarrow"]),
    "hdfs": (hdfs_client, ["hdfs-native", "pyarrow"]),
}


def operations(client: Client, root: str) -> dict[str, Callable[[], object]]:
    """What is measured, in this order, below a prefix; each is run once."""
    small, large = os.urandom(SMALL), os.urandom(LARGE)
    pool = ThreadPoolExecutor(THREADS)
    many = [f"{root}/many/{n}" for n in range(64)]
    doomed = [f"{root}/doomed/{n}" for n in range(200)]
    list(pool.map(lambda key: client.put(key, small), [*many, *doomed]))
    list(pool.map(client.get, many[:THREADS]))
    return {
        "put of 64 MB": lambda: client.put(f"{root}/large", large),
        "get of 64 MB": lambda: client.get(f"{root}/large"),
        "get of 8 KB, 20 times": lambda: [client.get("warm") for _ in range(20)],
        "64 gets of 8 KB, 16 threads": lambda: list(pool.map(client.get, many)),
        "3 column chunks of 1.2 MB, 10 times": lambda: [client.ranges(f"{root}/large", CHUNKS) for _ in range(10)],
        "list of 200 names, 10 times": lambda: [client.names(f"{root}/doomed") for _ in range(10)],
        "exclusive create, 10 won, 10 lost": lambda: [client.create(f"{root}/new/{n // 2}", small) for n in range(20)],
        "delete of 200": lambda: client.delete(doomed),
    }


def measured(store: str, name: str, url: str) -> dict[str, list[float]]:
    """Requests, seconds, CPU seconds and grown memory in MB of each operation; runs in a process of its own."""
    server = Server(url.replace("hdfs://", "http://"))
    found: dict[str, list[float]] = {}

    def measure(what: str, run: Callable[[], object]) -> None:
        server.counted()
        before, cpu, start = _reset_peak(), _cpu_seconds(), time.perf_counter()
        with contextlib.suppress(NotImplementedError):
            run()
            seconds, used = time.perf_counter() - start, _cpu_seconds() - cpu
            found[what] = [server.counted().number, seconds, used, (_status_kb("VmHWM") - before) / 1024]

    clients: list[Client] = []

    def begin() -> None:
        clients.append(CLIENTS[store][0](name, url))
        clients[0].put("warm", bytes(SMALL))
        clients[0].get("warm")

    measure("import, open, first put and get", begin)
    for what, run in operations(clients[0], uuid.uuid4().hex).items():
        measure(what, run)
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
    """The URL of a server that counts and delays."""
    with ExitStack() as stack:
        if store == "s3":
            yield stack.enter_context(running()).url
        elif store == "gcs":
            from tests.support.gcs_server import _program as program
            from tests.support.store_server import free_port, served

            behind, front = free_port(), free_port()
            listening = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(behind)]
            command = [str(program()), "-backend", "memory", *listening, "-public-host", f"127.0.0.1:{front}"]
            stack.enter_context(served(command, behind))
            server = stack.enter_context(running(front_of=f"http://127.0.0.1:{behind}", port=front, google_xml=True))
            import requests

            requests.post(f"{server.url}/storage/v1/b?project=p", json={"name": BUCKET}, timeout=30).raise_for_status()
            yield server.url
        elif store == "azure":
            from tests.support.azure_server import azure_server

            behind_url = stack.enter_context(azure_server()).url
            yield stack.enter_context(running(front_of=behind_url.rpartition("/")[0])).url
        else:
            from tests.support.hdfs_server import hdfs_server

            behind_url = stack.enter_context(hdfs_server()).url
            yield stack.enter_context(running(front_of=behind_url)).url.replace("http://", "hdfs://")


def best(store: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    """By client and operation the least of each figure, but the most of memory."""
    found: dict[str, dict[str, list[float]]] = {}
    with server_of(store) as url:
        for name in CLIENTS[store][1] * rounds:
            command = [sys.executable, "-m", "benchmarks.store_clients", store, "--client", name, "--url", url]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
            if done.returncode:
                print(f"{name} cannot be measured: {done.stderr.strip()[-300:]}", file=sys.stderr)
                continue
            rows = json.loads(done.stdout.strip().splitlines()[-1])
            before = found.setdefault(name, rows)
            for what, figures in rows.items():
                least = list(map(min, before[what], figures))
                before[what] = [*least[:3], max(before[what][3], figures[3])]
    return found


def main() -> None:
    """Print the tables of stores."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", nargs="*", help=f"of {', '.join(CLIENTS)}; all, when none is named")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--client", help="measure one client, and print JSON")
    parser.add_argument("--url", help="of a server that is running")
    given = parser.parse_args()
    if given.client:
        print(json.dumps(measured(given.store[0], given.client, given.url)))
        return
    for store in given.store or CLIENTS:
        found = best(store, given.rounds)
        print(f"| {store}: requests / s / CPU s / MB | {' | '.join(found)} |")
        print("|---|" + "---|" * len(found))
        for what in next(iter(found.values())):
            cells = [
                "{:.0f} / {:.2f} / {:.2f} / {:.0f}".format(*rows[what]) if what in rows else "-"
                for rows in found.values()
            ]
            print(f"| {what} | {' | '.join(cells)} |", flush=True)
        print(f"load {os.getloadavg()[0]:.1f}\n", flush=True)


if __name__ == "__main__":
    main()
