"""A proxy in front of an S3 server that does what networks do: answers 503, resets, hangs, or is not there at all.

Bytes go through as they are, the Host header too, so signatures stay right. What goes wrong can be changed
while connections are open.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType

SLOW_DOWN = b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>SlowDown</Code><Message>Later.</Message></Error>"


class FlakyProxy:
    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("http://").partition(":")
        self._target = (host, int(port))
        self.mode = "pass"  # 503, reset, hang, down
        self.struck = 0
        self._closing = False
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> FlakyProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing = True
        self.mode = "reset"
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    @staticmethod
    def _reset(client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def _strike(self, client: socket.socket) -> bool:
        """Whether the connection is over."""
        mode = self.mode
        if mode == "pass":
            return False
        self.struck += 1
        if mode == "503":
            head = f"HTTP/1.1 503 Slow Down\r\nContent-Length: {len(SLOW_DOWN)}\r\nConnection: close\r\n\r\n"
            client.sendall(head.encode() + SLOW_DOWN)
            client.close()
            return True
        if mode == "hang":
            while self.mode == "hang" and not self._closing:
                client.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if not client.recv(65536):
                        return True
        self._reset(client)
        return True

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            if self.mode == "down":
                self.struck += 1
                return self._reset(client)
            with socket.create_connection(self._target) as server:
                back = threading.Thread(target=self._copy_back, args=(server, client), daemon=True)
                back.start()
                while data := client.recv(65536):
                    if self._strike(client):
                        return None
                    server.sendall(data)
        return None

    def _copy_back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if self.mode in ("reset", "down"):
                    # Whoever reads from it has to notice, too; the answer is cut short.
                    self.struck += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
