"""A proxy in front of a NameNode that fails on purpose: HDFS speaks no HTTP, so `faulty_server` cannot."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.support.store_server import StoreServer

_CHUNK_BYTES = 1 << 16


class NameNodeFaults:
    """What happens to calls of a method: once, or always."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self.parts: tuple[bytes, ...] = ()
        self.forever = False
        self.met = 0
        self.then: tuple[str, ...] = ()

    def set(self, fault: str | None, *parts: str, forever: bool = False, then: tuple[str, ...] = ()) -> None:
        """Let the next call that has these parts (a method, a name) fail, or all of them.

        ``reset``: the connection ends before the deed; ``lost``: it ends after it; ``silent``: neither deed nor answer.
        ``then`` are the parts of a later call that meets the same fault.
        """
        self.parts, self.forever, self.met = tuple(part.encode() for part in parts), forever, 0
        self.then = then
        self.fault = fault

    def of(self, data: bytes) -> str | None:
        """The fault of what a client sends."""
        if self.fault is None or not all(part in data for part in self.parts) or (self.met and not self.forever):
            return None
        self.met += 1
        if self.then:
            self.parts, self.met, self.then = tuple(part.encode() for part in self.then), 0, ()
        return self.fault


@contextmanager
def namenode_behind_faults(server: StoreServer) -> Iterator[tuple[StoreServer, NameNodeFaults]]:
    """The same HDFS, whose NameNode is behind a proxy; DataNodes are not."""
    faults, ended = NameNodeFaults(), threading.Event()
    host, _, port = server.url.removeprefix("hdfs://").partition(":")
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while not ended.is_set():
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(client,), daemon=True).start()

    def talk(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as node, contextlib.suppress(OSError):
            lost = threading.Event()
            threading.Thread(target=back, args=(node, client, lost), daemon=True).start()
            while data := client.recv(_CHUNK_BYTES):
                match faults.of(data):
                    case "reset":
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    case "silent":
                        ended.wait()
                        return
                    case "lost":
                        lost.set()
                node.sendall(data)
            node.shutdown(socket.SHUT_RDWR)

    def back(node: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := node.recv(_CHUNK_BYTES):
                if lost.is_set():
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    try:
        location = f"hdfs://127.0.0.1:{listening.getsockname()[1]}"
        yield replace(server, url=location, root=server.root.replace(server.url, location)), faults
    finally:
        ended.set()
        listening.close()
