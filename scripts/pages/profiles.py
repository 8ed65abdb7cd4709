"""docs/profiles.md: what each profile runs on which hardware."""

from recipe.config.load import list_profiles
from recipe.config.paths import CHECKOUT
from scripts.pages.text import generated, table

_INTRO = "Every value and its reason is in the file itself, `configs/profiles/NAME.yaml`."


def page() -> str:
    """The page as text."""
    rows = []
    for found in list_profiles(CHECKOUT):
        profile = found.value
        vllm = profile.vllm if isinstance(profile.vllm, str) else f"fork {profile.vllm.fork}"
        patches = ", ".join([*profile.patches.required, *(f"{id} (optional)" for id in profile.patches.optional)])
        hardware = f"{profile.nodes} × {profile.gpus} {profile.hardware}"
        rows.append((f"`{found.name}`", profile.summary, hardware, vllm, f"`{profile.model}`", patches or "none"))
    head = ("profile", "what", "nodes × devices", "vLLM", "model", "patches")
    return generated("Profiles", "configs/profiles", _INTRO) + "\n" + table(head, rows)
