"""Writes the build context of an image: a folder with what the Dockerfile uses, kept so a build can be repeated."""

import hashlib
from pathlib import Path

from recipe.applier.patchset import PatchSet
from recipe.catalogue import known
from recipe.config import paths
from recipe.errors import HallmarkError
from recipe.image import pyz
from recipe.image.plan import Build

_FIND_PYTHON = paths.CHECKOUT / "dockerfiles" / "find-python.sh"


def write(build: Build, patchset: PatchSet) -> Path:
    """Write the context below the cache folder; the same build always has the same one. Returns the folder.

    Errors: HallmarkError when it cannot be written; Refused for a patch set that patches.lock does not have.
    """
    known.require_lock(patchset)
    files = {
        pyz.NAME: pyz.pack(),
        "patchset.json": patchset.canonical(),
        "find-python.sh": _FIND_PYTHON.read_bytes(),
        "Dockerfile": build.dockerfile.encode(),
    }
    # Of its content, so that builds of one profile on two bases at the same time do not share it.
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()[:8]
    folder = paths.cache() / "builds" / f"{build.profile}-{patchset.vllm}-{patchset.sha256[:8]}-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            path = folder / name
            # What is there may be in use by the same build.
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)
            # BuildKit's cache looks at the mode too, so it must not depend on the umask.
            path.chmod(0o644)
    except OSError as error:
        raise HallmarkError(
            f"cannot be written: {error.strerror}", where=str(folder), hint="set HALLMARK_CACHE elsewhere"
        ) from None
    return folder
