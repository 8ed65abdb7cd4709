"""The source trees that proofs run against: the Python files of a release, as released or with the whole catalogue.

Released trees lie in the cache, with the bytecode that their first import leaves there; a patched tree is a
hard-linked copy in a folder of the session.
"""

import os
import shutil
from pathlib import Path

from recipe.applier import commit
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.states import refusal
from recipe.applier.tree import Tree, record_row, replace_rows
from recipe.catalogue import releases
from recipe.catalogue.compile import catalogue, compile_patches
from recipe.catalogue.released import sources
from recipe.config import paths

# The nightlies between 0.23.0 and 0.25.0 had DSpark and lacked both arguments of the cache specs. No wheel of one is
# to be had, so this stands for them: the sources of 0.25.0 with the two arguments taken out and this version.
NIGHTLY = "0.23.1rc1.dev788"
_MADE_FROM = "0.25.0"
_TAKEN_OUT = {
    "vllm/models/deepseek_v4/attention.py": "            kv_quant_mode=get_kv_quant_mode(self.kv_cache_dtype),\n",
    "vllm/v1/attention/backends/mla/sparse_swa.py": (
        "            kv_quant_mode=get_kv_quant_mode(self.cache_config.cache_dtype),\n"
    ),
}
_IMPORTED = "    get_kv_quant_mode,\n"


def released(version: str) -> Path:
    """The unpacked release, made when it is not in the cache. Not to be changed."""
    folder = paths.cache() / "trees" / f"vllm-{version}"
    if not folder.is_dir():
        fresh = folder.with_name(f".{folder.name}.{os.getpid()}")
        _nightly(fresh) if version == NIGHTLY else _unpack(version, fresh)
        fresh.rename(folder)
    return folder


def patched(version: str, folder: Path) -> Path:
    """A copy of the release in `folder` with every patch of the catalogue that applies to it."""
    shutil.copytree(released(version), folder, copy_function=_link)
    tree = Tree(folder)
    with commit.locked(tree):
        planned = plan(tree, everything(version))
        assert not planned.problems(), "\n".join(refusal(planned.problems()))
        commit.apply(tree, planned)
    return folder


def everything(version: str) -> PatchSet:
    """The whole catalogue for one version, every patch optional."""
    return compile_patches([(patch, False) for patch in catalogue()], version)


def _unpack(version: str, folder: Path) -> None:
    release = sources(releases.find(version))
    for file in release.files():
        if file.endswith(".py") or ".dist-info/" in file:
            data = release.read(file)
            assert data is not None
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)


def _nightly(folder: Path) -> None:
    shutil.copytree(released(_MADE_FROM), folder, copy_function=_link, ignore=shutil.ignore_patterns("__pycache__"))
    info = f"vllm-{NIGHTLY}.dist-info"
    (folder / f"vllm-{_MADE_FROM}.dist-info").rename(folder / info)
    files = {f"{info}/METADATA": [(f"Version: {_MADE_FROM}\n", f"Version: {NIGHTLY}\n")]}
    files |= {file: [(line, ""), (_IMPORTED, "")] for file, line in _TAKEN_OUT.items()}
    for file, changes in files.items():
        text = (folder / file).read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, (file, old)
            text = text.replace(old, new)
        _write(folder / file, text.encode())
    record = (
        (folder / info / "RECORD").read_bytes().replace(f"vllm-{_MADE_FROM}.dist-info/".encode(), f"{info}/".encode())
    )
    rows = {file: record_row(record, file, (folder / file).read_bytes()) for file in files}
    _write(folder / info / "RECORD", replace_rows(record, rows)[0])


def _write(path: Path, data: bytes) -> None:
    # Never through a hard link.
    path.unlink()
    path.write_bytes(data)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without links.
        shutil.copy2(source, target)
