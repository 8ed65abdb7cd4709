"""Gate files: all that are shipped load, and every mistake is told with its line."""

import shutil
from pathlib import Path

import pytest

from recipe.config.gate import AcceptanceGate, definition, load_gate, parse
from recipe.errors import HallmarkError

ROOT = Path(__file__).parents[3]
BROKEN = ROOT / "tests" / "cases" / "gates" / "broken"
SHIPPED = sorted(path.stem for path in (ROOT / "configs" / "gates").glob("*.yaml") if path.stem != "known-errors")


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_gate_loads_and_survives_being_written_into_a_certificate(name: str) -> None:
    gate = load_gate(ROOT, name)
    assert parse(definition(gate)) == gate


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_gate_says_where_its_bars_come_from(name: str) -> None:
    text = (ROOT / "configs" / "gates" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# ")


def test_the_bars_on_real_hardware_are_those_that_were_agreed() -> None:
    gb10, h200 = load_gate(ROOT, "acceptance-gb10"), load_gate(ROOT, "acceptance-h200")
    assert isinstance(gb10, AcceptanceGate)
    assert isinstance(h200, AcceptanceGate)
    assert (gb10.min_mean_length, gb10.min_per_position) == (3.5, {"1": 0.2, "2": 0.2, "3": 0.2, "4": 0.2})
    assert (h200.min_mean_length, h200.min_rate) == (2.2, 0.25)


@pytest.mark.parametrize("path", sorted(BROKEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_all_mistakes_of_a_gate_file_are_told_at_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = tmp_path / "configs" / "gates"
    gates.mkdir(parents=True)
    shutil.copy(path, gates)
    monkeypatch.chdir(gates)
    with pytest.raises(HallmarkError) as error:
        load_gate(tmp_path, path.stem)
    told = "".join(f"{problem}\n" for problem in error.value.problems)
    assert told == path.with_suffix(".txt").read_text(encoding="utf-8")


def test_an_unknown_gate_is_named_with_the_nearest_one() -> None:
    with pytest.raises(HallmarkError, match=r"there is no gate 'acceptance-gb1' — did you mean acceptance-gb10\?"):
        load_gate(ROOT, "acceptance-gb1")
