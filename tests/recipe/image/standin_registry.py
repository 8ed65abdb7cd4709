"""A stand-in for a registry: manifests and configurations over HTTP on loopback, and what it was asked for."""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


class StandInRegistry:
    """Repository `h` of a registry at `address`; a token is wanted when `token` is set.

    It is a model hub too: `commits` by the path under which they are asked for."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.manifests: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.commits: dict[str, str] = {}
        self.asked: list[str] = []
        # Names of manifests that are called manifests, whatever is in them.
        self.malformed: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "StandInRegistry":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def has_from_now(
        self,
        name: str,
        created: str,
        layers: Sequence[str],
        labels: Mapping[str, str],
        architecture: str = "amd64",
    ) -> str:
        """Put an image under a tag, or under its digest when `name` is one; `created` only makes images differ."""
        configuration = json.dumps(
            {
                "architecture": architecture,
                "created": "2026-01-01T00:00:00Z",
                "comment": created,
                "config": {"Labels": dict(labels)},
                "rootfs": {"type": "layers", "diff_ids": list(layers)},
            }
        ).encode()
        manifest = json.dumps({"mediaType": _MANIFEST, "config": {"digest": self._blob(configuration)}}).encode()
        return self._manifest(name, manifest)

    def has_list(self, name: str, images: Mapping[str, str]) -> str:
        """Put a list under a tag: the digest of an image for each architecture."""
        entries = [{"digest": it, "platform": {"os": "linux", "architecture": arch}} for arch, it in images.items()]
        return self._manifest(name, json.dumps({"mediaType": _INDEX, "manifests": entries}).encode())

    def configuration(self, digest: str) -> str:
        """The config digest of the image with this manifest digest."""
        return str(json.loads(self.manifests[digest])["config"]["digest"])

    def _manifest(self, name: str, document: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(document).hexdigest()}"
        self.manifests |= {name: document, digest: document}
        return digest

    def _blob(self, data: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return digest

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        if path == "/token":
            self._send(request, 200, json.dumps({"token": self.token}).encode())
            return
        self.asked.append(path)
        if path.startswith("/api/models/"):
            commit = self.commits.get(path)
            self._send(request, 200 if commit else 404, json.dumps({"sha": commit}).encode())
            return
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            realm = f'Bearer realm="http://{self.address}/token",service="s",scope="repository:h:pull"'
            self._send(request, 401, b"{}", {"WWW-Authenticate": realm})
            return
        kind, _, name = path.removeprefix("/v2/h/").partition("/")
        found = {"manifests": self.manifests, "blobs": self.blobs}.get(kind, {}).get(name)
        media = _MANIFEST if name in self.malformed else _media(found or b"{}")
        self._send(request, 200 if found is not None else 404, found or b"{}", {"Content-Type": media})

    @staticmethod
    def _send(
        request: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)


def _media(content: bytes) -> str:
    try:
        return str(json.loads(content)["mediaType"])
    except (ValueError, KeyError, TypeError):
        return "application/octet-stream"
