"""Compiles the patch sets of a proof and packs the applier: the kit that the machine with the GPU needs of Hallmark.

The applier is standard library only, so that machine needs no more than vLLM and this checkout.
"""

from pathlib import Path

from recipe.catalogue import compile
from recipe.config import load, paths
from recipe.image import pyz

PROFILES = Path(__file__).parent / "profiles"


def kit(folder: Path) -> list[Path]:
    """Write `applier.pyz` and one compiled patch set for each profile beside this module; returns the files.

    Errors: those of a profile or a patch that does not compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / pyz.NAME: pyz.pack()}
    for path in sorted(PROFILES.glob("*.yaml")):
        profile = load.load_profile(paths.CHECKOUT, str(path))
        files[folder / f"{path.stem}.json"] = compile.compile_profile(profile).canonical()
    for file, data in files.items():
        file.write_bytes(data)
    return list(files)
