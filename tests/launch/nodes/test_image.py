"""What is made of a staging that did not bring what was sent; the nodes' answers are typed here."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import IO

import pytest

from launch.nodes import image, layers, reach
from launch.nodes.image import KEPT, Sent, StagedImage, staged
from launch.nodes.staging import silent
from launch.plan.layers import Held
from launch.plan.place import Place
from recipe.errors import HallmarkError, Mismatch, Refused, Unreachable
from recipe.image.engine import explain
from recipe.image.inspect import Image
from recipe.image.reference import Reference

LEFT, RIGHT = Place("left", "user@left"), Place("right", "user@right")
SENT, MANIFEST = "a" * 64, f"sha256:{'c' * 64}"
SOURCE = Reference("127.0.0.1:5", "hallmark")


class Nodes:
    """Notes what is asked of nodes; `got` is the image that a pull brings, `broken` how the next pulls fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.got = f"sha256:{SENT}"
        self.broken: list[HallmarkError] = []
        monkeypatch.setattr(reach, "docker", self.docker)
        monkeypatch.setattr(image, "_seen", self.seen)
        monkeypatch.setattr(layers, "pull", self.pull)

    def docker(self, place: Place, *words: str, seconds: float | None = 120) -> str:
        self.asked.append((place.name, *words))
        return f"{self.got}\n"

    def pull(self, place: Place, name: str, hear: layers.Hear) -> None:
        self.asked.append((place.name, "pull", name))
        if self.broken:
            raise self.broken.pop(0)

    @staticmethod
    @contextmanager
    def seen(source: Reference, place: Place) -> Iterator[Reference]:
        yield source


# Of the first pull, and of the second one, which waited for a layer that the engine still fetched for the first.
LOST = Unreachable("node right cannot be reached: Connection to 127.0.0.2 closed by remote host.")
INHERITED = Refused("docker pull failed: dial tcp 127.0.0.1:46415: connect: connection refused", where="node right")


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    return Nodes(monkeypatch)


def pull() -> None:
    staged("vllm:1", SENT, [LEFT, RIGHT])._pull(RIGHT, SOURCE, MANIFEST, lambda line: None, silent)


def test_b7_what_arrived_gets_a_name_that_keeps_it(nodes: Nodes) -> None:
    pull()
    assert nodes.asked[0] == ("right", "pull", f"127.0.0.1:5/hallmark@{MANIFEST}")
    assert nodes.asked[-1] == ("right", "tag", f"sha256:{SENT}", f"{KEPT}:{SENT[:12]}")


def test_b4_a_node_that_got_another_image_is_named_and_keeps_no_name_of_it(nodes: Nodes) -> None:
    nodes.got = f"sha256:{'b' * 64}"
    with pytest.raises(Mismatch, match=f"node right got {nodes.got}, and sha256:{SENT} was sent"):
        pull()
    assert not any(words[1] == "tag" for words in nodes.asked)


def test_b4_a_transfer_that_broke_is_an_error_that_names_its_node(nodes: Nodes) -> None:
    nodes.broken = [Refused("docker pull failed: unexpected EOF", where="node right")]
    with pytest.raises(Refused, match="node right: docker pull failed: unexpected EOF"):
        pull()
    assert not any(words[1] == "tag" for words in nodes.asked)


def bring() -> list[str]:
    said: list[str] = []
    image = staged("vllm:1", SENT, [RIGHT])
    image._bring(RIGHT, lambda: image._pull(RIGHT, SOURCE, MANIFEST, lambda line: None, silent), said.append)
    return said


def test_a_pull_that_only_inherits_the_failure_of_the_one_before_is_made_once_more(nodes: Nodes) -> None:
    nodes.broken = [LOST, INHERITED]
    assert bring() == [f"  right: once more, because {error}" for error in (LOST, INHERITED)]
    assert nodes.asked[-1] == ("right", "tag", f"sha256:{SENT}", f"{KEPT}:{SENT[:12]}")


def test_a_pull_that_fails_again_and_again_ends_with_its_last_error(nodes: Nodes) -> None:
    nodes.broken = [LOST, INHERITED, Refused("docker pull failed: unexpected EOF", where="node right")]
    with pytest.raises(Refused, match="unexpected EOF"):
        bring()
    assert [words[1] for words in nodes.asked] == ["pull"] * 3


def test_what_another_pull_cannot_mend_is_told_at_once(nodes: Nodes) -> None:
    full = explain(["failed to register layer: write /usr/lib/x: no space left on device"], "docker pull failed")
    for error in (full, Mismatch("node right got another image")):
        nodes.broken = [error]
        nodes.asked.clear()
        with pytest.raises(type(error), match=str(error)):
            bring()
        assert [words[1] for words in nodes.asked] == ["pull"]


class Archives(Nodes):
    """Nodes that have one of two layers; `load` is what docker does with an archive of the other one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.refuses = ""
        self.brought = True
        monkeypatch.setattr(layers, "held", lambda place: [Held(1, ("sha256:one",))])
        monkeypatch.setattr(layers, "archive", lambda *words: BytesIO(b"archive"))
        monkeypatch.setattr(layers, "load", self.load)
        monkeypatch.setattr(StagedImage, "_there", lambda staged, place: self.brought)

    def load(self, place: Place, archive: IO[bytes]) -> None:
        self.asked.append((place.name, "load"))
        if self.refuses:
            raise Refused(f"docker load failed: {self.refuses}", where=f"node {place.name}")


def send() -> list[str]:
    said: list[str] = []
    here = Image(f"sha256:{SENT}", None, "amd64", 0, {}, ("sha256:one", "sha256:two"), {})
    staged("vllm:1", SENT, [LEFT, RIGHT])._send(RIGHT, Sent(SOURCE, MANIFEST, here), said.append, silent)
    return said


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> Archives:
    return Archives(monkeypatch)


def test_b4_layers_that_a_node_does_not_take_come_as_a_whole_image(archives: Archives) -> None:
    archives.refuses = "invalid diffID for layer 0"
    assert "  right takes no single layers: node right: docker load failed: invalid diffID for layer 0" in send()
    assert [words[1] for words in archives.asked] == ["load", "pull", "image", "tag"]


def test_b4_a_load_that_says_it_is_done_and_brought_nothing_is_not_believed(archives: Archives) -> None:
    archives.brought = False
    send()
    assert [words[1] for words in archives.asked] == ["load", "pull", "image", "tag"]
    archives.got = f"sha256:{'b' * 64}"
    with pytest.raises(Mismatch, match="node right got"):
        send()


def test_b4_a_full_disk_of_a_node_is_not_tried_again_with_more_bytes(archives: Archives) -> None:
    archives.refuses = "the disk is full"
    with pytest.raises(Refused, match="node right: docker load failed: the disk is full"):
        send()
    assert [words[1] for words in archives.asked] == ["load"]


def test_b4_what_a_node_took_layer_by_layer_is_not_pulled_too(archives: Archives) -> None:
    assert send() == ["  right has 1 of 2 layers and gets the others of vllm:1"]
    assert [words[1] for words in archives.asked] == ["load"]
