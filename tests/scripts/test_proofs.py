"""The runner of the GPU proofs, with a stand-in for vLLM: what it starts, records, skips, ends and how it judges."""

import base64
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from recipe.applier.cli import main as applier
from scripts.proofs import cost, prepare, run, table, trees

# Answers as the checkpoint's name says, so that a case chooses what its engine does.
STANDIN = """
import os, pathlib, time, types

class SamplingParams:
    def __init__(self, **settings):
        self.count = settings["max_tokens"]
        self.given = settings.get("allowed_token_ids", [None])[0]

class LLM:
    def __init__(self, model, **engine):
        self.kind = pathlib.Path(model).name
        if self.kind == "refused":
            raise ValueError("kv must have shape (num_blocks, page_block_size, h_kv, bytes_per_token)")
        if self.kind == "hangs":
            time.sleep(600)
        config = types.SimpleNamespace(get_vocab_size=lambda: 100)
        self.waiting, self.left = 0, 0
        self.llm_engine = types.SimpleNamespace(
            model_config=config,
            add_request=self.add_request,
            step=self.step,
            has_unfinished_requests=lambda: self.left > 0,
        )

    def add_request(self, name, prompt, sampling):
        self.waiting, self.left = self.waiting + 1, 4

    def step(self):
        # The first step is not the whole batch's, as when prompts are taken in in parts.
        if self.left < 4:
            time.sleep(0.1 if "patched" in os.environ["VLLM_CACHE_ROOT"] else 0)
        self.left -= 1
        ready, self.waiting = (self.waiting, 0) if self.left < 3 else (0, self.waiting)
        return [None] * ready

    def reset_prefix_cache(self): pass

    def generate(self, prompts, sampling, use_tqdm):
        if self.kind == "slow":
            time.sleep(600)
        if self.kind == "tells":
            pathlib.Path(os.environ["OWN_FOLDER"]).mkdir(exist_ok=True)
        best = 7 if self.kind == "other" else 5
        given = sampling if isinstance(sampling, list) else [sampling] * len(prompts)
        return [self.answer(best, one) for one in given]

    def answer(self, best, asked):
        token = asked.given or best
        place = {best: types.SimpleNamespace(logprob=-0.5), token: types.SimpleNamespace(logprob=-best / 10)}
        answer = types.SimpleNamespace(token_ids=[token] * asked.count, logprobs=[place] * asked.count)
        return types.SimpleNamespace(outputs=[answer])
"""
MAIN, SWA = trees.QUANT_MODES["main"], trees.QUANT_MODES["swa"]
SOURCES = {
    "vllm/__init__.py": STANDIN,
    "vllm/third_party/__init__.py": "",
    MAIN[0]: f"""from vllm.v1.kv_cache_interface import (
    MLAAttentionSpec,
    get_kv_quant_mode,
)


class DeepseekV4Attention:
    def get_kv_cache_spec(self, vllm_config):
        return MLAAttentionSpec(
            model_version="deepseek_v4",
            {MAIN[1]}
        )
""",
    SWA[0]: f"""from vllm.v1.kv_cache_interface import (
    SlidingWindowMLASpec,
    get_kv_quant_mode,
)


class DeepseekV4SWACache:
    def get_kv_cache_spec(self, vllm_config):
        return SlidingWindowMLASpec(
            dtype=self.dtype,
            {SWA[1]}
        )
""",
}


@pytest.fixture
def places(tmp_path: Path) -> run.Places:
    site = tmp_path / "site"
    rows = []
    files = SOURCES | {"vllm-0.26.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.26.0\n"}
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(text)}\n")
    (site / "vllm-0.26.0.dist-info" / "RECORD").write_text("".join(rows) + "vllm-0.26.0.dist-info/RECORD,,\n")
    kit = tmp_path / "kit"
    prepare.kit(kit)
    return run.Places(site, tmp_path / "checkpoints", kit, tmp_path / "trees", tmp_path / "out")


def plan(**models: str) -> dict[str, Any]:
    """One case for each name, of the checkpoint that it names."""
    cases = [
        {"name": name, "tree": "released", "model": model, "speculate": False, "expect": "starts"}
        for name, model in models.items()
    ]
    return {"trees": {"released": {}}, "cases": cases}


@pytest.fixture(autouse=True)
def without_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    original = run.engine_case
    monkeypatch.setattr(run, "engine_case", lambda *given: original(*given) | {"experts": False})


def soon() -> float:
    return time.monotonic() + 60


def test_what_an_engine_did_is_recorded_and_not_done_again(places: run.Places) -> None:
    steps = plan(one="native", two="refused")
    run.cases(places, steps, ["one", "two"], 2, 60, soon())
    found = table.collect(places.out, steps)["cases"]
    assert found["one"]["started"]
    assert json.loads((places.out / "one.json").read_text())["outputs"][0]["tokens"] == [5] * 64
    assert found["two"]["error"]["type"] == "ValueError"
    assert "kv must have shape" in found["two"]["error"]["message"]
    before = (places.out / "one.json").stat().st_mtime_ns
    run.cases(places, steps, ["one"], 1, 60, soon())
    assert (places.out / "one.json").stat().st_mtime_ns == before


def test_an_engine_that_takes_too_long_is_ended_and_has_no_result(places: run.Places) -> None:
    steps = plan(slow="hangs")
    run.cases(places, steps, ["slow"], 1, 2, soon())
    found = table.collect(places.out, steps)["cases"]["slow"]
    assert (found["exit"], found["started"], found["verdict"]) == (None, False, "not as expected")


def test_that_an_engine_started_is_known_when_it_is_ended_while_it_generates(places: run.Places) -> None:
    steps = plan(slow="slow")
    run.cases(places, steps, ["slow"], 1, 5, soon())
    found = table.collect(places.out, steps)
    assert found["cases"]["slow"]["started"]
    assert found["cases"]["slow"]["verdict"] == "not as expected"
    assert "ended while it generated" in table.markdown(found)


def test_nothing_is_begun_when_the_time_is_up(places: run.Places, capsys: pytest.CaptureFixture[str]) -> None:
    run.cases(places, plan(late="native"), ["late"], 1, 60, time.monotonic() - 1)
    assert "late: not begun" in capsys.readouterr().out
    assert not (places.out / "late.json").exists()


def test_a_tree_that_cannot_be_made_does_not_stop_the_other_cases(places: run.Places) -> None:
    steps = plan(bad="native", good="native")
    steps["trees"]["wrong"] = {"patchset": "all"}
    steps["cases"][0]["tree"] = "wrong"
    run.cases(places, steps, ["bad", "good"], 1, 60, soon())
    assert list(table.collect(places.out, steps)["cases"]) == ["good"]


def test_a_case_is_judged_by_its_error_and_by_the_tokens_of_another(places: run.Places) -> None:
    steps = plan(base="native", same="native", differs="other", again="native", refused="refused")
    for case in steps["cases"][1:4]:
        case["same-as"] = "base"
    steps["cases"][3]["repeats"] = True
    steps["cases"][4]["expect"] = "bytes_per_token|something else"
    run.cases(places, steps, [case["name"] for case in steps["cases"]], 4, 60, soon())
    found = table.collect(places.out, steps)
    verdicts = {name: case["verdict"] for name, case in found["cases"].items()}
    assert verdicts == {
        "base": "as expected",
        "same": "as expected",
        "differs": "not as expected",
        "again": "as expected",
        "refused": "as expected",
    }
    assert not table.as_expected(found)
    text = table.markdown(found)
    assert "256 of 256 before the first that differs from base; given the same tokens, 512 of 512 best" in text
    assert "0 of 256 before the first that differs from base; given the same tokens, 0 of 512 best" in text


def answered(best: list[int], logprob: float) -> dict[str, Any]:
    """A case that started, with another free token than any other, and these answers at the given places."""
    forced = {"best": best, "logprob": [logprob] * len(best), "best_logprob": [0.0] * len(best)}
    free = [{"tokens": [hash((*best, logprob))], "logprobs": [-1.0]}]
    end = {"started": True, "start_s": 1, "exit": 0, "error": None}
    return {**end, "outputs": free, "forced": [forced, forced]}


@pytest.mark.parametrize(
    ("best", "logprob", "verdict"),
    [
        ([1] * 88 + [2] * 12, -1.1, "as expected"),
        ([1] * 88 + [2] * 12, -1.2, "not as expected"),
        ([1] * 60 + [2] * 40, -1.1, "not as expected"),
    ],
)
def test_other_tokens_are_the_same_when_two_starts_of_one_tree_differ_as_much(
    best: list[int], logprob: float, verdict: str, tmp_path: Path
) -> None:
    steps = plan(base="native", again="native", patched="native")
    steps["cases"][1] |= {"same-as": "base", "repeats": True}
    steps["cases"][2] |= {"same-as": "base"}
    again = answered([1] * 90 + [2] * 10, -1.1)
    for name, result in {"base": answered([1] * 100, -1), "again": again, "patched": answered(best, logprob)}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    assert table.collect(tmp_path, steps)["cases"]["patched"]["verdict"] == verdict


def test_kernels_that_repeat_themselves_leave_no_room_for_another_answer(tmp_path: Path) -> None:
    steps = plan(base="native", again="native", patched="native")
    steps["cases"][1] |= {"same-as": "base", "repeats": True}
    steps["cases"][2] |= {"same-as": "base"}
    base = answered([1] * 100, -1)
    for name, result in {"base": base, "again": base, "patched": answered([1] * 99 + [2], -1)}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    found = table.collect(tmp_path, steps)["cases"]
    assert (found["again"]["verdict"], found["patched"]["verdict"]) == ("as expected", "not as expected")


def test_a_case_s_own_variable_names_a_folder_beside_its_result(places: run.Places) -> None:
    steps = plan(own="tells")
    steps["cases"][0]["folder"] = "OWN_FOLDER"
    run.cases(places, steps, ["own"], 1, 60, soon())
    assert json.loads((places.out / "own.json").read_text())["error"] is None
    assert (places.out / "own.folder").is_dir()


def test_the_patches_put_back_what_was_taken_out_and_the_package_stays_as_it_was(places: run.Places) -> None:
    before = {path: path.read_bytes() for path in places.site.rglob("*") if path.is_file()}
    removed = run.tree(places, "no-modes", {"remove": ["main", "swa"]})
    restored = run.tree(places, "restored", {"remove": ["main", "swa"], "patchset": "both"})
    for file, argument in (MAIN, SWA):
        assert "get_kv_quant_mode" not in (removed / file).read_text()
        assert argument.rstrip(",") in (restored / file).read_text()
    assert applier(["verify", "--target", str(restored)]) == 0
    assert {path: path.read_bytes() for path in places.site.rglob("*") if path.is_file()} == before


def test_an_argument_that_is_not_there_once_is_an_error(places: run.Places) -> None:
    (places.site / SWA[0]).write_text("nothing\n")
    with pytest.raises(ValueError, match=r"sparse_swa.py: .* is there 0 times, not once"):
        run.tree(places, "no-modes", {"remove": ["swa"]})


def test_every_case_names_a_tree_and_a_known_patch_set(places: run.Places) -> None:
    import yaml

    steps = yaml.safe_load((Path(table.__file__).parent / "cases.yaml").read_text())
    kits = {path.stem for path in places.kit.glob("*.json")}
    assert {tree["patchset"] for tree in steps["trees"].values() if "patchset" in tree} == kits
    names = [case["name"] for case in steps["cases"]]
    assert len(set(names)) == len(names)
    for case in steps["cases"]:
        assert case["tree"] in steps["trees"]
        assert case.get("same-as", names[0]) in names


def test_the_cost_is_the_median_of_the_pairs_with_an_interval_around_it() -> None:
    pairs = [[1.0, 1.0 + i / 100] for i in range(-5, 6)]
    found = cost.summary(pairs)
    assert found["ratio"] == 1.0
    low, high = found["interval"]
    assert 0.95 <= low < 1.0 < high <= 1.05


def test_the_cost_compares_decode_steps_of_the_two_trees(places: run.Places) -> None:
    places.out.mkdir()
    trees = {"released": {}, "patched": {"remove": ["swa"]}}
    found = cost.measure(places, {"trees": trees}, 3, soon(), eager=True)
    # Of a round's four steps the first two take the prompts in.
    assert (len(found["pairs"]), found["steps"]) == (3, [2])
    assert found["ratio"] > 1


def test_acceptance_counts_the_target_s_own_token() -> None:
    counts = {"drafts": 10, "accepted_tokens": 15, "accepted_tokens_per_pos": [10, 5, 0]}
    assert table.acceptance(counts) == (2.5, [1.0, 0.5, 0.0])


def test_only_log_lines_that_matter_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"started": True, "start_s": 1, "exit": 0, "error": None}))
    (tmp_path / "a.log").write_text(
        "INFO 12-01 05:00:00 [mxfp4.py:1] Using 'MARLIN' Mxfp4 MoE backend.\nINFO 12-01 05:00:00 [x.py:1] hello\n"
    )
    found = table.collect(tmp_path, plan(a="native"))["cases"]["a"]
    assert found["signals"] == ["Using 'MARLIN' Mxfp4 MoE backend."]
