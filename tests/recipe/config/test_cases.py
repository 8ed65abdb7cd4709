"""Every file of tests/cases/config: the broken ones say what is wrong, the good ones what is worth a warning.

Beside each file lies the expected text, one message a line. HALLMARK_REFRESH=1 writes the texts again; read the
difference before you keep it.
"""

import os
from pathlib import Path

import pytest

from recipe.config.check import check_cluster, check_profile
from recipe.errors import Exit, HallmarkError

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "tests" / "cases" / "config"


def cases(folder: str) -> list[Path]:
    return sorted((CASES / folder).glob("*.yaml"))


def check(path: Path) -> str:
    checked = check_cluster if path.name.startswith("cluster-") else check_profile
    return "\n".join(f"{finding.severity}: {finding}" for finding in checked(ROOT, str(path)).findings)


def expected(path: Path, text: str) -> str:
    file = path.with_suffix(".txt")
    if os.environ.get("HALLMARK_REFRESH"):
        file.write_text(text + "\n" if text else "", encoding="utf-8")
    return file.read_text(encoding="utf-8").strip()


def relative(text: str, folder: Path) -> str:
    return text.replace(f"{folder.relative_to(ROOT)}/", "")


@pytest.mark.parametrize("path", cases("broken"), ids=lambda path: path.stem)
def test_a_broken_file_is_refused_with_every_mistake_and_its_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(HallmarkError) as refused:
        check(path)
    told = relative("\n".join(str(problem) for problem in refused.value.problems), path.parent)
    assert refused.value.exit == Exit.USAGE
    assert told == expected(path, told)


@pytest.mark.parametrize("path", cases("good"), ids=lambda path: path.stem)
def test_a_good_file_is_taken_with_the_warnings_that_it_deserves(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    told = relative(check(path), path.parent)
    assert told == expected(path, told)


def test_every_message_names_a_line_of_its_file() -> None:
    for path in cases("broken"):
        first = path.with_suffix(".txt").read_text(encoding="utf-8").partition("\n")[0]
        assert first.startswith((f"{path.name}:", "there is no")), f"{path.name}: {first}"
