"""What stands in a registry's place, or was pushed there by anybody: a StandIn that answers anything."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from launch.proof import attached
from recipe.errors import Refused
from recipe.image.reference import Reference
from recipe.image.registry import OCI_MANIFEST, Repository

Answers = Callable[[dict[str, bytes]], Repository]
PAGE = b"<html>log in to the network first</html>"


@pytest.fixture
def answers() -> Iterator[Answers]:
    """By the end of the path what is answered."""
    told: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = next((body for end, body in told.items() if self.path.partition("?")[0].endswith(end)), None)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", OCI_MANIFEST)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def answer(bodies: dict[str, bytes]) -> Repository:
        told.update(bodies)
        return Repository(Reference(f"127.0.0.1:{server.server_address[1]}", "h"))

    yield answer
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (PAGE, "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"[]", "no JSON object"),
        (b'{"config": 1}', "not readable at config"),
        (b'{"config": {"digest": 7}}', "not readable at config.digest"),
        (b'{"layers": ["x"]}', "not readable at layers.0"),
        (b'{"layers": [{"digest": "sha256:%s", "size": "9"}]}' % (b"0" * 64), "not readable at layers.0.size"),
        (b'{"layers": [{"digest": "../../x"}]}', "not readable at layers.0.digest"),
        (b'{"manifests": [{}]}', "not readable at manifests.0.digest"),
    ],
    ids=["a page", "deep", "a list", "config", "digest", "layers", "size", "climbs", "manifests"],
)
def test_a_manifest_that_is_none_is_one_error(manifest: bytes, says: str, answers: Answers) -> None:
    digest = f"sha256:{'a' * 64}"
    with answers({"one": manifest, attached.tag(digest): manifest}) as repository:
        with pytest.raises(Refused, match=says):
            repository.image("one")
        with pytest.raises(Refused, match="the registry that was meant"):
            attached.read(repository, digest)


@pytest.mark.parametrize(
    "body", [PAGE, b"[]", b'{"config": []}', b'{"rootfs": {"diff_ids": 1}}', b'{"architecture": 1}']
)
def test_a_configuration_that_is_none_is_one_error(body: bytes, answers: Answers) -> None:
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    told = {"one": f'{{"config": {{"digest": "{digest}"}}}}'.encode(), digest: body}
    with answers(told) as repository, pytest.raises(Refused, match="the configuration of "):
        repository.image("one")


@pytest.mark.parametrize("body", [PAGE, b"[]", b'{"tags": "x"}', b'{"tags": [1]}'])
def test_a_list_of_tags_that_is_none_is_one_error(body: bytes, answers: Answers) -> None:
    with answers({"tags/list": body}) as repository, pytest.raises(Refused, match="the list of tags of "):
        repository.tags()
