"""`hallmark report` on a cluster with two certificates: the page of what runs, beside the one before it."""

import base64
import html
import re
import shutil
import subprocess
from pathlib import Path

from tests.standin.world import World


def test_the_report_of_a_cluster_compares_with_the_certificate_before_and_is_verified_by_hand(
    world: World, tmp_path: Path
) -> None:
    world.done("key", "new", "ops")
    none = world.run("report", "pair", "--out", str(tmp_path / "r.html"))
    assert (none.exit, "no revision of pair is certified" in none.err) == (2, True)
    for profile in ("a", "c"):
        world.done("launch", "pair", "--profile", profile)
        world.done("certify", "pair")
    out = tmp_path / "r.html"
    made = world.done("report", "pair", "--out", str(out))
    assert made["valid"]
    text = out.read_text()
    assert "<h1>c</h1>" in text
    assert re.search(r"patch greets</th><td[^>]*>–</td><td[^>]*>applied</td>", text), text
    assert "2 of pair" in text
    assert "revision 1 → 2" in text, "what history --diff says"
    assert _by_hand(text, tmp_path / "hand").returncode == 0
    # The same of one certificate alone, over the file that is there.
    [file] = world.store().certificates.glob(f"{made['digest'][7:]}*.json")
    world.done("report", str(file), "--out", str(out))
    assert "Since the certificate before" not in out.read_text()

    # One that lost the certificate before, and one whose own was replaced by another that holds.
    world.done("certify", "pair", "--expires", "30")
    [other] = world.store().certificates.glob(f"{made['digest'][7:]}-r*.json")
    [before] = [it for it in world.store().certificates.glob("*.json") if it not in (file, other)]
    before.unlink()
    less = world.run("report", "pair", "--out", str(out), "--json")
    assert (less.exit, less.document["valid"]) == (0, True)
    assert "warning: what runs is shown without the certificate before it" in less.err
    other.write_bytes(file.read_bytes())
    replaced = world.done("report", "pair", "--out", str(out))
    assert not replaced["valid"]
    assert f"edited: {other.name} is not what the history says was written" in out.read_text()
    other.write_bytes(file.read_bytes()[:-20])
    damaged = world.run("report", "pair", "--out", str(out))
    assert (damaged.exit, "the certificate of revision 2 was damaged: bad JSON" in damaged.err) == (4, True)

    # What lies beside certificates hides none of them.
    other.unlink()
    other.mkdir()
    listed = world.run("certificate", "list", "pair", "--json")
    assert (listed.exit, len(listed.document["certificates"])) == (0, 1)
    assert f"warning: {other} cannot be read: Is a directory" in listed.err
    assert "is certified" in world.run("launch", "pair", "--profile", "c", "--dry-run").err
    both = world.run("history", "pair", "--diff", "1", "2", "--journal", "1")
    assert (both.exit, "--journal: one at a time, with --diff" in both.err) == (1, True)


def test_the_commands_on_the_page_tell_a_changed_certificate(world: World, tmp_path: Path) -> None:
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    world.done("certify", "pair")
    world.done("report", "pair", "--out", str(tmp_path / "r.html"))
    changed = (tmp_path / "r.html").read_text()
    envelope = base64.b64decode(_embedded(changed))
    payload = re.search(rb'"payload": "([^"]+)"', envelope)
    assert payload is not None
    other = base64.b64encode(base64.b64decode(payload[1]).replace(b'"a"', b'"b"'))
    tampered = base64.b64encode(envelope.replace(payload[1], other)).decode()
    done = _by_hand(changed.replace(_embedded(changed), tampered), tmp_path / "hand")
    assert done.returncode != 0
    assert "Signature Verified Successfully" not in done.stdout


def test_a_file_that_is_no_report_is_not_written_over(world: World, tmp_path: Path) -> None:
    precious = tmp_path / "notes.html"
    precious.write_text("mine")
    found = world.run("report", "pair", "--out", str(precious))
    assert (found.exit, precious.read_text()) == (2, "mine")
    assert "is there already, and is no report" in found.err
    missing = world.run("report", "pair", "--out", str(tmp_path / "none" / "r.html"))
    assert (missing.exit, "name a file in a folder that exists" in missing.err) == (1, True)
    nothing = world.run("report", "nowhere.json", "--out", str(tmp_path / "r.html"))
    assert nothing.exit == 1
    assert not (tmp_path / "r.html").exists()


def _embedded(text: str) -> str:
    found = re.search(r"data:application/json;base64,([^\"]+)", text)
    assert found is not None
    return found[1]


def _by_hand(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Type what the page says, in a folder with the certificate that the page offers."""
    folder.mkdir()
    (folder / "certificate.json").write_bytes(base64.b64decode(_embedded(text)))
    typed = [re.search(rf'<pre id="{id}">(.*?)</pre>', text, re.DOTALL) for id in ("key", "by-hand")]
    script = "\n".join(html.unescape(block[1]) for block in typed if block)
    assert len(typed) == 2
    assert shutil.which("openssl")
    return subprocess.run(["bash", "-e", "-c", script], check=False, capture_output=True, text=True, cwd=folder)
