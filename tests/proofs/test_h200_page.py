"""The page about the H200 says what the recorded results beside it say."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.proofs.table import acceptance

PROOFS = Path(__file__).parents[2] / "docs" / "proofs"
PAGE = (PROOFS / "h200-0.26.0.md").read_text(encoding="utf-8")
FIRST, SECOND = (json.loads((PROOFS / f"h200-0.26.0-{visit}.json").read_text(encoding="utf-8")) for visit in (1, 2))


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    below = PAGE.split(f"## {heading}\n", 1)[1].partition("\n## ")[0]
    table = [line for line in below.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in table[2:]]


def case(visit: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = visit["cases"][name]
    return found


ACCEPTED = {
    "native released": (SECOND, "native-released"),
    "native patched": (SECOND, "native-patched"),
    "hybrid released": (FIRST, "hybrid-released"),
    "hybrid patched": (SECOND, "hybrid-patched"),
    "nvfp4 released": (FIRST, "nvfp4-released"),
    "nvfp4 patched": (SECOND, "nvfp4-patched"),
    "missing released": (FIRST, "missing-released"),
}


def test_tokens_a_step_and_acceptance_are_the_recorded_ones() -> None:
    told = {}
    for row in rows("Expert dispatch and load guards"):
        if len(row) == 5 and row[3] not in ("-", "checkpoint holds"):
            told[f"{row[0]} {row[1]}"] = (row[3], row[4])
    wanted = {}
    for name, (visit, recorded) in ACCEPTED.items():
        length, share = acceptance(case(visit, recorded)["speculation"])
        wanted[name] = (f"{length:.2f}", ", ".join(f"{value:.2f}" for value in share))
    assert {name: told[name] for name in wanted} == wanted


SAME = {
    "released, a second start, DSpark": "native-again",
    "released, a second start, no speculation": "native-plain-again",
    "patched, DSpark": "native-patched",
    "patched, no speculation": "native-patched-plain",
    "both cache-spec arguments put back, DSpark": "both-restored",
    "both cache-spec arguments put back, no speculation": "both-restored-plain",
    "patched, `nvfp4_ds_mla`": "envelope-patched",
    "patched, `fp8_ds_mla`": "fp8-ds-mla-patched",
    "released and patched, draft named by its path": "named-released",
    "patched, agreement counted, 768 tokens each": "agreement-patched",
}


def test_the_same_tokens_and_places_are_the_recorded_ones() -> None:
    told = {row[0]: (row[2], row[3].removesuffix(" equal to the bit")) for row in rows("The same tokens")}
    same = {name: case(SECOND, recorded)["same"] for name, recorded in SAME.items()}
    assert told == {
        name: (f"{found['tokens']} of {found['of']}", f"{found['equal']} of {found['places']}")
        for name, found in same.items()
    }
    assert case(SECOND, "named-patched")["same"] == case(SECOND, "named-released")["same"]


@pytest.mark.parametrize(
    ("line", "name", "part"),
    [(0, "cost-rounds", None), (1, "cost", None), (2, "cost", "fastest_tenth"), (3, "cost-eager", None)],
)
def test_the_cost_is_the_recorded_one(line: int, name: str, part: str | None) -> None:
    recorded = SECOND["cost"][name]
    found = recorded[part] if part else recorded
    low, high = found["interval"]
    assert rows("Decode cost")[line][1:] == [
        str(len(recorded["pairs"])),
        f"{found['ratio']:.3f}",
        f"{low + 1e-9:.3f} to {high:.3f}",
    ]


KV = "kv must have shape (num_blocks, page_block_size, h_kv, bytes_per_token)"
K_CACHE = "Mismatched k_cache.shape[2]"


@pytest.mark.parametrize(
    ("visit", "name", "text"),
    [
        (FIRST, "no-modes", KV),
        (FIRST, "no-modes-plain", K_CACHE),
        (
            FIRST,
            "hybrid-guarded",
            "stage 0: the experts were built with ModelOptNvFp4FusedMoE, but the checkpoint's are MXFP4",
        ),
        (SECOND, "main-restored", KV),
        (SECOND, "main-restored-plain", K_CACHE),
        (
            SECOND,
            "swa-restored",
            "extra_kv must have shape (extra_num_blocks, extra_page_block_size, h_kv, bytes_per_token)",
        ),
        (SECOND, "swa-restored-plain", K_CACHE),
        (SECOND, "missing-patched", "DSpark draft refused: stage 1: no shared expert weights were loaded"),
        (SECOND, "draft-b12x-patched", "it has no SwiGLU clamp and no MXFP4. Leave it out, or write 'marlin'"),
        (SECOND, "envelope-released", "Input should be 'auto', 'float16',"),
    ],
)
def test_an_error_of_the_page_is_the_recorded_one(visit: dict[str, Any], name: str, text: str) -> None:
    error = case(visit, name)["error"]
    assert text in error["message"]
    assert text in PAGE
    assert error["type"] in PAGE


def test_the_experts_of_the_page_are_the_recorded_ones() -> None:
    drafts = [layer for layer in case(FIRST, "hybrid-released")["experts"] if layer["name"].startswith("mtp.")]
    for layer in drafts:
        assert f"| {layer['as_loaded']:.3g} | {layer['wrong']:.1%}".replace("%", " %") in PAGE
    for visit in (FIRST, SECOND):
        for name, found in visit["cases"].items():
            judged = [layer for layer in found.get("experts", ()) if layer["judged"]]
            if name != "hybrid-released":
                assert all(layer["as_loaded"] == 0 and 0.0034 < layer["kernel"] < 0.0041 for layer in judged)
