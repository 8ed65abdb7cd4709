"""A StandIn of the model hub: the two addresses that files are fetched from, and what can go wrong behind them.

Its API has the shape of huggingface.co's: `/api/models/REPO/revision/REV?blobs=true`, and `/REPO/resolve/REV/PATH`,
which sends callers on to a storage on another host.
"""

import hashlib
import http.server
import json
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
REPOSITORY = "someone/tiny"


@dataclass
class Hub:
    """What it has, and what goes wrong with it.

    `files`: bytes by path; `token`: who knows it may read; `cut`: a file's connections end behind so many bytes each;
    `wrong`: a file whose bytes are other ones than announced; `sizes`: what is announced instead; `ranges`: file and
    first byte of every request; `strangers`: paths for which the storage was told the hub's token; `listed`: what is
    answered instead of the list.
    """

    files: dict[str, bytes]
    token: str | None = None
    cut: dict[str, list[int]] = field(default_factory=dict)
    wrong: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    ranges: list[tuple[str, int]] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    listed: Any = None
    # Set to let a download go on that waits in its middle.
    gate: threading.Event | None = None
    waiting: threading.Event = field(default_factory=threading.Event)
    servers: list[http.server.ThreadingHTTPServer] = field(default_factory=list)

    def start(self) -> str:
        """Serve on a free port; returns the address."""
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self)

            def log_message(self, format: str, *args: Any) -> None: ...

        for address in ("127.0.0.1", "127.0.0.3"):
            server = http.server.ThreadingHTTPServer((address, 0), Handler)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self.servers.append(server)
        return self._url(0)

    def end(self) -> None:
        if self.gate is not None:
            self.gate.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def answer(self, request: Any) -> None:
        path = urlsplit(request.path).path
        given = request.headers.get("Authorization")
        here = request.server is self.servers[0]
        if not here and given:
            self.strangers.append(path)
        if here and self.token is not None and given != f"Bearer {self.token}":
            request.send_error(401)
        elif here and path.startswith(f"/api/models/{REPOSITORY}/revision/"):
            self._list(request)
        elif here and path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/"):
            request.send_response(302)
            request.send_header("Location", f"{self._url(1)}/{path.split(COMMIT + '/')[1]}")
            request.send_header("Content-Length", "0")
            request.end_headers()
        elif not here and unquote(path.lstrip("/")) in self.files:
            self._send(request, unquote(path.lstrip("/")))
        else:
            request.send_error(404)

    def _url(self, number: int) -> str:
        host, port = self.servers[number].server_address[:2]
        return f"http://{host!s}:{port}"

    def _list(self, request: Any) -> None:
        siblings = []
        for path, content in self.files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
            one: dict[str, Any] = {"rfilename": path, "size": self.sizes.get(path, len(content)), "blobId": blob}
            if path.endswith(".safetensors"):
                one["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            siblings.append(one)
        answer = {"sha": COMMIT, "siblings": siblings} if self.listed is None else self.listed
        body = json.dumps(answer).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _send(self, request: Any, path: str) -> None:
        start = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.ranges.append((path, start))
        content = self.files[path]
        if path == self.wrong:
            content = b"\0" * len(content)
        rest = content[start:]
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
        cuts = self.cut.get(path, [])
        if cuts:
            request.wfile.write(rest[: cuts.pop(0)])
            request.close_connection = True
            return
        if self.gate is not None and not self.gate.is_set():
            half = len(rest) // 2
            request.wfile.write(rest[:half])
            request.wfile.flush()
            self.waiting.set()
            self.gate.wait()
            rest = rest[half:]
        try:
            request.wfile.write(rest)
        except OSError:
            request.close_connection = True
