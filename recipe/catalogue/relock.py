"""Harvests baselines: the sha256 of every file that a patch touches, from the released wheels themselves."""

import json
from collections.abc import Callable
from pathlib import Path

from recipe.applier.manifest import sha256
from recipe.catalogue.compile import PATCHES, load_patch, series
from recipe.catalogue.wheels import wheel
from recipe.config.load import list_profiles, load_hardware


def relock(home: Path, say: Callable[[str], None]) -> list[str]:
    """Write `baselines/DISTRIBUTION-VERSION.json` for the release of every profile; returns the files that changed.

    Errors: Unreachable when a wheel cannot be fetched.
    """
    files = sorted({edit.file for id in series() for edit in load_patch(PATCHES / f"{id}.yaml").value.edits})
    releases = set()
    for profile in list_profiles(home):
        if isinstance(profile.value.vllm, str):
            hardware = load_hardware(home, profile.value.hardware).value
            releases.add((hardware.distribution, profile.value.vllm))
    changed = []
    for distribution, version in sorted(releases):
        say(f"harvesting {distribution} {version}")
        found = wheel(version, distribution)
        digests = {file: sha256(data) for file in files if (data := found.read(file)) is not None}
        path = PATCHES / "baselines" / f"{distribution}-{version}.json"
        text = json.dumps(digests, indent=1, sort_keys=True) + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(f"recipe/patches/baselines/{path.name}")
    return changed
