"""`hallmark certificate`, as it is typed, on certificates in files."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launch.cli.certificate import certificate
from launch.cli.context import Context
from launch.proof import keys
from launch.proof.certificate import sign
from launch.proof.gates import GateResult
from launch.proof.judge import judge
from launch.proof.statement import Evidence, build
from recipe.config.gate import definition, parse
from recipe.errors import Exit, HallmarkError

DIGEST = "a" * 64


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "state"))
    gate = parse({"kind": "metric", "summary": "s", "metric": "vllm:x"})
    raw = {"samples": [{"labels": {}, "value": 1.0}]}
    found = judge(gate, raw, None)
    result = GateResult(
        "x", gate.kind, found.verdict, found.value, found.bar, found.summary, definition(gate), raw, 0.1
    )
    moment = datetime(2026, 12, 1, tzinfo=UTC)
    evidence = Evidence(
        subjects={"env": DIGEST},
        configuration={"profile": "b" * 64},
        profile="cpu-dev",
        cluster="demo",
        hardware={"kind": "cpu"},
        vllm="0.32.0",
        required=["x"],
        gates=[result],
        figures={},
        started=moment,
        finished=moment,
    )
    keys.new("ops")
    path = tmp_path / "certificate.json"
    path.write_bytes(sign(build(evidence), keys.load_private("ops")))
    return path


def run(*words: str, as_json: bool = False) -> Result:
    return CliRunner().invoke(
        certificate, words, obj=Context(Path(), as_json), catch_exceptions=False, standalone_mode=False
    )


def test_a_valid_certificate_is_exit_0_and_has_the_stable_keys(signed: Path) -> None:
    result = run("verify", str(signed), "--digest", f"sha256:{DIGEST}", "--profile", "cpu-dev", as_json=True)
    assert result.return_value == Exit.OK
    document = json.loads(result.stdout)
    assert set(document) == {"valid", "reasons", "digest", "profile", "gates", "signers", "expires"}
    assert [it["name"] for it in document["signers"]] == ["ops"]
    assert document["valid"] is True
    assert set(document["gates"]["x"]) == {"verdict", "value", "bar"}
    assert run("verify", str(signed)).stdout.startswith("valid: cpu-dev, sha256:aaa")


def test_another_digest_or_profile_is_exit_4_and_says_both_names(signed: Path) -> None:
    result = run("verify", str(signed), "--digest", "b" * 64, "--profile", "other")
    assert result.return_value == Exit.MISMATCH
    assert "wrong digest" in result.stdout
    assert "wrong profile: it is about cpu-dev, not other" in result.stdout


def test_a_revoked_key_is_exit_4(signed: Path) -> None:
    [keyid] = keys.trusted()
    keys.revoke(keyid)
    result = run("verify", str(signed))
    assert result.return_value == Exit.MISMATCH
    assert "revoked key: ops" in result.stdout


def test_show_gives_the_statement_and_what_it_is_worth(signed: Path) -> None:
    document = json.loads(run("show", str(signed), as_json=True).stdout)
    assert document["verification"]["valid"] is True
    assert document["statement"]["subject"] == [{"name": "env", "digest": {"sha256": DIGEST}}]
    text = run("show", str(signed)).stdout
    assert "cpu-dev on cpu, cluster demo" in text
    assert "vllm:x is 1.0" in text


def test_show_of_something_else_says_that_it_is_no_certificate(tmp_path: Path, signed: Path) -> None:
    (tmp_path / "x").write_text("{}")
    assert "bad JSON" in run("show", str(tmp_path / "x")).stdout


@pytest.mark.parametrize("which", ["nowhere.json", "."])
def test_a_file_that_cannot_be_read_is_a_plain_error(which: str, signed: Path) -> None:
    with pytest.raises(HallmarkError, match="cannot be read"):
        run("verify", which)


def test_a_digest_that_is_none_is_an_error_and_not_a_mismatch(signed: Path) -> None:
    with pytest.raises(HallmarkError, match="is no digest"):
        run("verify", str(signed), "--digest", "sha256:abc")


@pytest.fixture
def history(signed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Certificates of a cluster's history: an older one that was damaged, and a newer one of the same digest."""
    folder = signed.parent / "certificates"
    folder.mkdir()
    (folder / f"{DIGEST}.json").write_text("{}")
    signed.rename(folder / f"{DIGEST}-r2.json")
    monkeypatch.setattr(
        "launch.ledger.store.find_certificates", lambda home, cluster, say: sorted(folder.glob("*.json"), reverse=True)
    )
    return folder


def test_a_digest_is_looked_up_in_history_and_one_certificate_that_holds_is_enough(history: Path) -> None:
    result = run("verify", f"sha256:{DIGEST}", as_json=True)
    assert result.return_value == Exit.OK
    assert json.loads(result.stdout)["digest"] == f"sha256:{DIGEST}"


def test_a_digest_without_a_certificate_says_where_to_look(history: Path) -> None:
    with pytest.raises(HallmarkError, match="no certificate about"):
        run("verify", "b" * 64)


def test_what_somebody_wrote_into_a_certificate_moves_no_terminal(
    signed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    envelope = json.loads(signed.read_text())
    envelope["signatures"][0]["keyid"] = "\x1b[2K\r\x9bvalid\x07"
    signed.write_text(json.dumps(envelope))
    told = run("verify", str(signed)).stdout
    assert "unknown key: \\x1b[2K\\x0d\\x9bvalid\\x07 is not trusted here" in told
    context = Context(Path(), False)
    context.say("a\x1b[8mb\tc")
    context.fail(HallmarkError("\x1b]0;title"))
    assert capsys.readouterr().err == "a\\x1b[8mb\tc\nhallmark: \\x1b]0;title\n"
