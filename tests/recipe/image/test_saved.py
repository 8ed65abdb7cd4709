"""What is found in the layers of an image; with a stand-in for docker that hands them out."""

import gzip
import json
import os
import re
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from recipe.errors import Refused
from recipe.image import saved as searching
from recipe.image.client import Client
from recipe.image.inspect import Image
from recipe.image.leaks import forms
from tests.recipe.image.docker import StandInDocker, saved, tar

SECRET = "hf_TESTtoken0123456789"
NEEDLES = {"HF_TOKEN": forms(SECRET)}


def layer(number: int) -> str:
    return f"sha256:{number:064x}"


@pytest.fixture
def docker(tmp_path: Path) -> StandInDocker:
    return StandInDocker(tmp_path / "bin")


def found(docker: StandInDocker, archive: bytes, layers: int = 3) -> list[tuple[str, str]]:
    docker.saves(archive)
    made = Image(layer(99), None, "amd64", 0, {}, tuple(layer(it) for it in range(1, layers + 1)), {})
    return searching.search(Client(str(docker.program), buildx=False), made, NEEDLES, lambda line: None)


def test_b9_a_secret_is_found_in_whichever_layer_although_a_later_one_hides_the_file(docker: StandInDocker) -> None:
    layers = [tar({"etc/a": b""}), tar({"root/token": SECRET.encode()}), tar({"root/.wh.token": b""})]
    assert found(docker, saved(*layers)) == [(f"/root/token, in layer 2 of 3 ({layer(2)})", "HF_TOKEN")]


def test_a_clean_image_runs_through_once_and_one_with_a_hit_twice_for_the_names(docker: StandInDocker) -> None:
    assert found(docker, saved(tar({"a": b"a"}), tar({}), tar({"b": b"b" * 3_000_000}))) == []
    assert docker.calls() == [f"save {layer(99)}"]
    assert len(found(docker, saved(tar({"a": SECRET.encode()}), tar({}), tar({})))) == 1
    assert len(docker.calls()) == 3


def test_b9_a_secret_that_lies_across_two_reads_is_found(docker: StandInDocker) -> None:
    for before in range(2**20 - len(SECRET) - 2048, 2**20 + 64, 97):
        archive = saved(tar({"a": b"x" * before + SECRET.encode()}), tar({}), tar({}))
        assert found(docker, archive), before


def test_b9_a_secret_that_is_a_files_name_is_found_and_not_told(docker: StandInDocker) -> None:
    [(place, _)] = found(docker, saved(tar({f"root/{SECRET}.json": b""}), tar({}), tar({})))
    assert place == f"the name of a file, in layer 1 of 3 ({layer(1)})"


def test_b9_a_layer_that_is_no_archive_or_ends_early_is_searched_all_the_same(docker: StandInDocker) -> None:
    broken = tar({"a": b"a"})[:1024] + b"?" * 2000 + SECRET.encode()
    assert found(docker, saved(tar({}), tar({}), broken)) == [(f"layer 3 of 3 ({layer(3)})", "HF_TOKEN")]


def test_b9_layers_of_newer_engines_are_searched_packed_or_not(docker: StandInDocker) -> None:
    leaky = tar({"root/token": SECRET.encode()})
    for content in (leaky, gzip.compress(leaky), gzip.compress(leaky[:700]) + gzip.compress(leaky[700:])):
        names = ["blobs/sha256/b", "blobs/sha256/a", "blobs/sha256/c"]
        files = dict(zip(names, [tar({}), content, tar({})], strict=True))
        archive = tar({**files, "manifest.json": json.dumps([{"Layers": names}]).encode()})
        assert found(docker, archive) == [(f"/root/token, in layer 2 of 3 ({layer(2)})", "HF_TOKEN")]


def test_b9_a_layer_in_gzip_of_thousands_of_members_is_searched_to_its_end(docker: StandInDocker) -> None:
    leaky = tar({**{f"f{at}": b"x" * 600 for at in range(2000)}, "root/token": SECRET.encode()})
    members = [gzip.compress(leaky[at : at + 512]) for at in range(0, len(leaky), 512)]
    for padding in (b"", b"\0" * 100):
        archive = saved(tar({}), padding.join(members), tar({}))
        assert found(docker, archive) == [(f"/root/token, in layer 2 of 3 ({layer(2)})", "HF_TOKEN")]


@pytest.mark.parametrize(
    "secret", ["pa ss?word+1234", "abc/def+ghi=jkl&mno", 'quote"and\\backslash', "umlaut-ä-in-it", "not-\udce9-text"]
)
def test_b9_a_secret_is_found_however_an_address_or_json_writes_it(secret: str) -> None:
    raw = secret.encode(errors="surrogateescape")
    written = [quote(raw, safe=safe) for safe in ("", "/", "$&+,;=", "!'()*")]
    written += [quote_plus(raw), re.sub("%..", lambda it: it[0].lower(), quote(raw, safe=""))]
    written += [json.dumps(secret, ensure_ascii=False)[1:-1].replace("&", "\\u0026")]
    for text in written:
        assert os.fsencode(text) in forms(secret), text


def test_a_link_to_a_layer_that_comes_twice_is_no_layer_of_its_own(docker: StandInDocker) -> None:
    archive = tar({"1/layer.tar": tar({"a": SECRET.encode()}), "2/layer.tar": None})
    assert found(docker, archive) == [("/a, in 1/layer.tar of the image", "HF_TOKEN")]


@pytest.mark.parametrize(
    ("archive", "says"),
    [
        (tar({"a": b"\x28\xb5\x2f\xfd" + b"x" * 2_000_000}), "hands out layers in zstd, which is not searched"),
        (saved(tar({"a": b"a" * 9000}))[:5000], "cannot be searched: unexpected end of data"),
        (tar({"a": b"\x1f\x8b\x08\x00" + b"x" * 90}), "cannot be searched: Error -3"),
        (b"", "cannot be searched: empty file"),
        (tar({}), "the engine handed out 0 of 3 layers"),
        (saved(tar({"a": b"a"})), "the engine handed out 1 of 3 layers"),
        (tar({"manifest.json": b'[{"Layers": ["1", "2", "3"]}]', "1": b"", "3": b""}), "handed out 2 of 3 layers"),
    ],
    ids=["zstd", "cut-off", "no-gzip", "empty", "no-layers", "too-few", "one-is-missing"],
)
def test_what_cannot_be_searched_is_an_error(docker: StandInDocker, archive: bytes, says: str) -> None:
    with pytest.raises(Refused, match=says):
        found(docker, archive)


def test_what_docker_says_is_told_when_it_hands_out_nothing(docker: StandInDocker) -> None:
    docker.answer("save", 1, err="Error response from daemon: write /data/tmp/x: no space left on device\n")
    made = Image(layer(9), None, "amd64", 0, {}, (layer(1),), {})
    with pytest.raises(Refused, match="the engine's disk is full"):
        searching.search(Client(str(docker.program), buildx=False), made, NEEDLES, lambda line: None)
