"""What is the name of an image in a registry, and what is not."""

import pytest

from recipe.errors import HallmarkError
from recipe.image.reference import certified_tag, remote, repository

HEX = "a" * 64


@pytest.mark.parametrize(
    ("text", "host", "path", "name"),
    [
        ("registry.example/vllm", "registry.example", "vllm", None),
        ("registry.example:5000/team/vllm:a-certified", "registry.example:5000", "team/vllm", "a-certified"),
        (f"127.0.0.1:5000/vllm@sha256:{HEX}", "127.0.0.1:5000", "vllm", f"sha256:{HEX}"),
        (f"localhost:5000/vllm:tag@sha256:{HEX}", "localhost:5000", "vllm", f"sha256:{HEX}"),
        ("[::1]:5000/vllm:x", "[::1]:5000", "vllm", "x"),
    ],
)
def test_a_reference_is_read_in_its_parts(text: str, host: str, path: str, name: str | None) -> None:
    found = remote(text)
    assert found is not None
    assert (found.host, found.path, found.name) == (host, path, name)
    assert found.loopback is (host != "registry.example" and not host.startswith("registry"))


@pytest.mark.parametrize(
    "text",
    [
        "vllm",
        "hallmark:a-certified",
        "localhost/vllm:1",
        "./file.json",
        "../x/y:z",
        "/etc/x.y/z:1",
        "a.b/c:d:e",
        "a.b/c@sha256:12",
        "a.b/C:x",
        "-x.y/c:d",
        "sha256:abcdef0123456789",
    ],
)
def test_what_names_no_registry_is_not_looked_for_in_one(text: str) -> None:
    assert remote(text) is None


def test_a_clusters_registry_is_a_whole_repository() -> None:
    assert repository("a.b:5/c", None).port == 5
    for text in ("vllm", "a.b/c:tag"):
        with pytest.raises(HallmarkError, match="no repository of a registry — write HOST/PATH"):
            repository(text, "two.yaml:9")


def test_a_tag_is_written_as_digest_or_tag() -> None:
    found = repository("a.b/c", None)
    assert (found.at("x"), found.at("sha256:1")) == ("a.b/c:x", "a.b/c@sha256:1")
    assert certified_tag("cpu-dev+1") == "cpu-dev_1-certified"
