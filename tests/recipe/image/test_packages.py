"""Which extra packages an image gets, and that they are the ones that were pinned. pip is not asked here."""

import zipfile
from pathlib import Path

import pytest

from recipe.errors import Exit, HallmarkError, Mismatch
from recipe.image import packages
from recipe.image.packages import About, Package, held, label, requirements, resolve

MARKERS = {
    "implementation_name": "cpython",
    "platform_machine": "aarch64",
    "python_full_version": "3.12.3",
    "python_version": "3.12",
    "sys_platform": "linux",
}
REQUIRES = [
    "torch==2.14.0",
    'one>=1; extra == "first"',
    'not-here; extra == "first" and platform_machine == "x86_64"',
    'two[more]; extra == "second"',
    'needs-torch; extra == "third"',
    'one<1; extra == "fourth"',
    'torchvision; extra == "fifth"',
    'base-has-it[more]; extra == "sixth"',
    'broken>=1; extra == "seventh"',
    'elsewhere @ https://user:password@index.example/elsewhere.whl ; extra == "eighth"',
    'asks-for-nonsense; extra == "ninth"',
]
BASES = {"vllm": REQUIRES, "base-has-it": ["never", 'three; extra == "more"', 'base-has-it[more]; extra == "more"']}
EXTRAS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
INDEX = {
    "one": ["torch>=2", "base-has-it", "three"],
    "two": ['three>=5; extra == "more"', 'never; extra == "other"'],
    "three": [],
    "needs-torch": ["torch>=2.15"],
    "asks-for-nonsense": ["pytz (>2011k) @ https://me:password@a"],
    "pip": [],
}


def package(name: str, version: str = "5.0") -> Package:
    return Package(
        name=name, version=version, file=f"{name.replace('-', '_')}-{version}-py3-none-any.whl", sha256="a" * 64
    )


def chosen(*extras: str) -> list[str]:
    # A folder of metadata without metadata has no version.
    there = {"torch": "2.14.0+cu130", "base-has-it": "1", "broken": "None"}
    about = About(MARKERS, "2.39", there, BASES, "vllm", EXTRAS)

    def fetch(requirement: str) -> tuple[Package, list[str]]:
        name = requirement.rstrip("<>=.0123456789")
        return package(name), INDEX[name]

    return [it.name for it in resolve(extras, about, fetch, "mine.yaml:3: extras")]


def test_extras_come_to_what_they_need_and_the_base_lacks_and_to_the_installer() -> None:
    assert chosen("first") == ["pip", "one", "three"]
    assert chosen("second") == ["pip", "three", "two"]
    assert chosen("sixth") == ["pip", "three"]


def test_an_extra_that_needs_nothing_more_adds_nothing() -> None:
    assert chosen() == []


@pytest.mark.parametrize(
    ("extras", "status", "says"),
    [
        (["fist"], Exit.USAGE, "mine.yaml:3: extras: the vLLM of the base has no extra fist — one of first, second,"),
        (["third"], Exit.NOT_DONE, "needs-torch needs torch>=2.15, the base has 2.14.0+cu130, which stays — take"),
        (["fifth"], Exit.NOT_DONE, "mine.yaml:3: extras: vllm needs torchvision, which the base lacks — choose"),
        (["seventh"], Exit.NOT_DONE, "vllm needs broken>=1, the base has None, which stays"),
        (["eighth"], Exit.NOT_DONE, "mine.yaml:3: extras: vllm needs elsewhere from an address, and only pip's index"),
        (["ninth"], Exit.NOT_DONE, "a package asks for 'pytz (>2011k) @ (an address)', which is no requirement"),
        (["first", "fourth"], Exit.NOT_DONE, "vllm needs one<1, chosen was 5.0, which stays"),
    ],
)
def test_b8_what_would_move_a_package_of_the_base_is_refused(extras: list[str], status: Exit, says: str) -> None:
    with pytest.raises(HallmarkError) as refused:
        chosen(*extras)
    assert (refused.value.exit, says in str(refused.value)) == (status, True), str(refused.value)


@pytest.mark.parametrize("what", ["no-zip", "no-metadata"])
def test_what_an_index_calls_a_wheel_and_is_none_is_one_error(tmp_path: Path, what: str) -> None:
    wheel = tmp_path / "one-5.0-py3-none-any.whl"
    wheel.write_text("<html>")
    if what == "no-metadata":
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("one.py", "")
    with pytest.raises(Mismatch, match="pip's index has no wheel under one"):
        packages._requires(wheel)


def test_every_line_that_is_installed_has_its_hash_and_none_has_an_address() -> None:
    text = requirements([package("pip"), package("one")]).decode()
    assert text == f"# pip==5.0 --hash=sha256:{'a' * 64}\none==5.0 --hash=sha256:{'a' * 64}\n"
    assert label([package("pip"), package("one")]) == f'{{"one": "5.0 sha256:{"a" * 64}"}}'


def test_a_wheel_in_the_cache_that_is_another_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path))
    folder = tmp_path / "extras" / ("a" * 64)
    folder.mkdir(parents=True)
    (folder / "one-5.0-py3-none-any.whl").write_bytes(b"another")
    with pytest.raises(Mismatch, match="is not the wheel that was pinned"):
        held([package("one")])
