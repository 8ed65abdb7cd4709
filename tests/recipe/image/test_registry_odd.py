"""What stands in a registry's place, or was pushed there by anybody: a StandIn that answers anything."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from launch.proof import attached
from recipe.errors import HallmarkError, Refused, Unreachable
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


@pytest.fixture
def hostile() -> Iterator[tuple[Callable[..., None], Repository, list[int]]]:
    """What is answered under the end of a path, with which status and headers; `...` is a body without an end. Beside
    it the repository, and how many bytes without an end were sent."""
    told: dict[str, tuple[int, object, dict[str, str]]] = {}
    sent = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = next(it for end, it in told.items() if self.path.partition("?")[0].endswith(end))
            self.send_response(status)
            for name, value in {"Content-Type": OCI_MANIFEST, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                if isinstance(body, bytes):
                    self.wfile.write(body)
                while body is ... and sent[0] < 1 << 27:
                    self.wfile.write(bytes(1 << 16))
                    sent[0] += 1 << 16

        do_POST = do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    address = f"127.0.0.1:{server.server_address[1]}"

    def answer(end: str, status: int, body: object, **headers: str) -> None:
        values = {name.replace("_", "-"): value.replace("HOST", address) for name, value in headers.items()}
        told[end] = (status, body, values)

    with Repository(Reference(address, "h")) as repository:
        yield answer, repository, sent
    server.shutdown()
    server.server_close()


LOGIN = 'Bearer realm="http://HOST/tokens"'
Hostile = tuple[Callable[..., None], Repository, list[int]]


@pytest.mark.parametrize("end", ["manifests/one", "tokens"])
@pytest.mark.parametrize("status", [200, 401, 500])
def test_an_answer_without_an_end_is_read_no_further_than_what_is_ever_used(
    status: int, end: str, hostile: Hostile
) -> None:
    answer, repository, sent = hostile
    answer("manifests/one", 401, b"", WWW_Authenticate=LOGIN)
    answer(end, status, ...)
    if (end, status) == ("tokens", 500):
        # Nothing of it is of use.
        with pytest.raises(Unreachable, match="HTTP 500"):
            repository.manifest("one")
    else:
        with pytest.raises(Refused, match=f"http://127.0.0.1:[0-9]+/.*{end} has more than 4194304 bytes"):
            repository.manifest("one")
    assert sent[0] < 1 << 26


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, PAGE),
        (200, b"[]"),
        (200, b"{}"),
        (200, b"[" * 100_000),
        (200, b'{"token": {}}'),
        (200, '{"token": "ä"}'.encode()),
        (200, b'{"token": "a\\nb"}'),
        (302, b""),
        (404, b""),
        (503, b""),
    ],
    ids=["a-page", "list", "nothing", "deep", "object", "umlaut", "two-lines", "elsewhere", "none", "busy"],
)
def test_who_gives_no_token_is_named_and_nothing_else_is_said_of_the_image(
    status: int, body: bytes, hostile: Hostile
) -> None:
    answer, repository, _ = hostile
    answer("manifests/one", 401, b"", WWW_Authenticate=LOGIN)
    answer("tokens", status, body)
    with pytest.raises(Unreachable, match=f"/tokens: answers without a token for .*: HTTP {status}$"):
        repository.manifest("one")


@pytest.mark.parametrize("realm", ["", "/tokens", "https://[", "https://a\x01b/"])
def test_a_login_at_no_address_is_one_error(realm: str, hostile: Hostile) -> None:
    answer, repository, _ = hostile
    answer("manifests/one", 401, b"", WWW_Authenticate=f'Bearer realm="{realm}"')
    with pytest.raises(HallmarkError):
        repository.manifest("one")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("\x01", r"points to '\\x01', which is no address"),
        ("http://127.0.0.1:1/v2/h/tags/list", "goes on at another address"),
        ("/v2/h/tags/list", "has no end: 3 pages were read"),
    ],
)
def test_a_list_of_tags_that_goes_on_nowhere_elsewhere_or_for_ever_is_one_error(
    target: str, says: str, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, repository, _ = hostile
    monkeypatch.setattr("recipe.image.registry._PAGES", 3)
    answer("tags/list", 200, b'{"tags": ["a"]}', Link=f'<{target}>; rel="next"')
    with pytest.raises(Refused, match=says):
        repository.tags()


def test_where_nothing_can_be_stored_and_what_is_no_error_message_are_told(hostile: Hostile) -> None:
    answer, repository, _ = hostile
    answer("uploads/", 202, b"", Location="\x01")
    answer("", 400, b"[" * 100_000)
    with pytest.raises(Refused, match="which is no address"):
        repository.put_blob("text/plain", b"a")
    with pytest.raises(Refused, match="cannot be read: HTTP 400"):
        repository.manifest("one")
