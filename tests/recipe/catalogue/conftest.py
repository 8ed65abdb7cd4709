"""Unpacked releases of vLLM: each once a session, and hard-linked copies of it for the tests."""

import os
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from recipe.catalogue.wheels import wheel


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """`unpacked(distribution, version)`: the Python files and the dist-info of a wheel. Not to be changed."""

    @cache
    def unpack(distribution: str, version: str) -> Path:
        folder = tmp_path_factory.mktemp(distribution)
        with zipfile.ZipFile(wheel(version, distribution).path) as archive:
            archive.extractall(
                folder, [name for name in archive.namelist() if name.endswith(".py") or ".dist-info/" in name]
            )
        return folder

    return unpack


@pytest.fixture
def installed(unpacked: Callable[[str, str], Path], tmp_path: Path) -> Callable[[str, str], Path]:
    """`installed(distribution, version)`: a copy to patch, of hard links as package managers make them."""

    def link(distribution: str, version: str) -> Path:
        target = tmp_path / "site-packages"
        # Folders first, so that their times can be set when nothing is put into them any more.
        source = unpacked(distribution, version)
        for folder, _, names in os.walk(source):
            here = target / Path(folder).relative_to(source)
            here.mkdir()
            for name in names:
                os.link(Path(folder) / name, here / name)
        return target

    return link
