"""A server with the protocol of Azure's blobs on this machine (azurite), for tests of stores."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.oracle.paimon_oracle import cache_dir
from tests.support.store_server import BUCKET, StoreServer, free_port, served

_VERSION = "3.37.0"
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own: its documents name them, and no other server takes them."""


@contextmanager
def azure_server() -> Iterator[StoreServer]:
    """Start a server with an empty container; it ends with the context.

    Raises:
        OSError: there is no Node.
        RuntimeError: its npm cannot fetch the server.
    """
    program, port = _program(), free_port()
    url = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    listening = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    quiet = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    with served(["node", str(program), *listening, *quiet], port):
        connection = f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};BlobEndpoint={url};"
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(connection) as service:
            service.create_container(BUCKET)
        root = f"abfss://{BUCKET}@{_ACCOUNT}.dfs.core.windows.net/wh"
        yield StoreServer(url, root, {"fs.connection_string": connection})


def _program() -> Path:
    folder = Path(cache_dir()) / f"azurite-{_VERSION}"
    program = Path("node_modules/azurite/dist/src/blob/main.js")
    if not (folder / program).exists():
        aside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}")
        aside.mkdir(parents=True)
        command = ["npm", "install", "--prefix", str(aside), "--no-audit", "--no-fund", "--ignore-scripts"]
        try:
            done = subprocess.run([*command, f"azurite@{_VERSION}"], check=False, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"npm cannot fetch azurite: {done.stderr[-200:]}")
            if not folder.exists():
                aside.replace(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return folder / program
