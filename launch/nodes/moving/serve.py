"""Serves a model's folder to who knows the token."""

from __future__ import annotations

import hmac
import http.server
import os
import socket
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import Any

from launch.nodes.moving.folder import inside, size_of
from launch.nodes.moving.told import tell


def serve(folder: Path, address: str) -> None:
    """Serve the folder to who knows the token until standard input ends."""
    token = f"Bearer {os.environ['HALLMARK_TOKEN']}"

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = folder / urllib.parse.unquote(self.path.lstrip("/"))
            given = self.headers.get("Authorization", "")
            size = size_of(path)
            if not hmac.compare_digest(given.encode(), token.encode()):
                self.send_error(401)
            elif size is None or not inside(folder, path):
                self.send_error(404)
            else:
                self._send(path, size)

        def _send(self, path: Path, size: int) -> None:
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(size - start))
            self.end_headers()
            with path.open("rb") as file:
                if size > start:
                    self.connection.sendfile(file, start)

        def log_message(self, format: str, *args: Any) -> None: ...

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

    with Server((address, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        tell({"port": server.server_address[1]})
        sys.stdin.read()
        server.shutdown()
