"""The page in a real browser: it shows its text, logs no error, asks the network for nothing, and has two faces."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.proof.report.page import page
from scripts.engines.packages import program
from tests.conftest import possible
from tests.launch.proof.report.conftest import Certificate

_HEADLESS = ["--headless", "--no-sandbox", "--disable-gpu"]
_DARK = "--blink-settings=preferredColorScheme=0"


@pytest.fixture(scope="module")
def chromium() -> str:
    with possible():
        return program("chromium", "chromium")


def _run(chromium: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [chromium, *_HEADLESS, f"--user-data-dir={folder / 'user'}", *options, (folder / "r.html").as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


def test_a_browser_shows_it_without_an_error_or_a_request(
    chromium: str, certified: Callable[..., Certificate], tmp_path: Path
) -> None:
    before = certified(accepted=(80, 40))
    (tmp_path / "r.html").write_text(page(certified(digest="b" * 64).material(previous=before.found)))
    shown = _run(chromium, tmp_path, "--enable-logging=stderr", f"--log-net-log={tmp_path / 'net'}", "--dump-dom")
    assert "Certified: all 3 gates passed" in shown.stdout
    assert "CONSOLE" not in shown.stderr
    assert _addresses(tmp_path / "net") == set()


def test_a_script_or_picture_that_got_in_would_be_seen_by_these_tests(chromium: str, tmp_path: Path) -> None:
    bad = '<!DOCTYPE html><script>console.error("x")</script><img src="http://127.0.0.1:9/x.png">'
    (tmp_path / "r.html").write_text(bad)
    shown = _run(chromium, tmp_path, "--enable-logging=stderr", f"--log-net-log={tmp_path / 'net'}", "--dump-dom")
    assert "CONSOLE" in shown.stderr
    assert _addresses(tmp_path / "net") == {"http://127.0.0.1:9/x.png"}


def test_it_is_dark_where_people_want_it_dark_and_prints(
    chromium: str, certified: Callable[..., Certificate], tmp_path: Path
) -> None:
    from matplotlib.image import imread

    (tmp_path / "r.html").write_text(page(certified().material()))
    faces = {}
    for face, options in (("light", ()), ("dark", (_DARK,))):
        _run(chromium, tmp_path, *options, f"--screenshot={tmp_path / face}.png", "--window-size=900,2000")
        # The paper in the corner, red, green and blue from 0 to 1.
        faces[face] = imread(tmp_path / f"{face}.png")[2, 2, :3].mean()
    assert faces["light"] > 0.9
    assert faces["dark"] < 0.2
    _run(chromium, tmp_path, _DARK, f"--print-to-pdf={tmp_path / 'r.pdf'}")
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF-")


def _addresses(log: Path) -> set[str]:
    """Every address that the browser's network stack was asked for by the page; what the browser wants for itself,
    such as dictionaries, has no origin as its initiator."""
    asked = (event.get("params", {}) for event in json.loads(log.read_text())["events"])
    return {one["url"] for one in asked if one.get("initiator", "not an origin") != "not an origin"}
