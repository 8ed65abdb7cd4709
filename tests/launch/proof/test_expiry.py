"""Certificates and keys count until their date and not a second longer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from launch.proof import dates, keys
from launch.proof.certificate import sign, verify
from launch.proof.statement import build
from recipe.errors import HallmarkError, Refused
from tests.launch.proof.test_certificate import evidence

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
END = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1", NOW + timedelta(days=1)), ("180", NOW + timedelta(days=180)), ("2026-12-31", END)],
)
def test_an_end_is_a_number_of_days_or_a_date(text: str, wanted: datetime) -> None:
    assert dates.until(text, now=NOW) == wanted


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "soon", "2026-13-01", "2026-02-30", "26-12-31", "999999"])
def test_anything_else_is_an_error_that_says_what_to_write(text: str) -> None:
    with pytest.raises(HallmarkError, match="write a number of days, such as 180, or a date, such as 2027-06-30"):
        dates.until(text, now=NOW)


def test_an_end_that_is_past_is_an_error() -> None:
    with pytest.raises(HallmarkError, match="2026-11-30 is past"):
        dates.until("2026-11-30", now=NOW)


@pytest.mark.parametrize(("moment", "valid"), [(END - timedelta(seconds=1), True), (END, False)])
def test_a_certificate_past_its_date_is_refused_by_name(moment: datetime, valid: bool, state: object) -> None:
    keys.new("ops")
    content = sign(build(replace(evidence(), expires=END)), keys.load_private("ops"))
    found = verify(content, trusted=keys.trusted(), now=moment)
    assert (found.valid, found.expires) == (valid, END)
    assert found.reasons == ([] if valid else ["expired: it counted until 2026-12-31 23:59:59 UTC"])
    assert found.document()["expires"] == "2026-12-31T23:59:59+00:00"


def test_a_certificate_without_a_date_counts_for_good(state: object) -> None:
    keys.new("ops")
    content = sign(build(evidence()), keys.load_private("ops"))
    assert verify(content, trusted=keys.trusted(), now=NOW + timedelta(days=36500)).valid


def test_the_word_of_a_key_past_its_date_does_not_count_and_it_signs_no_more(
    state: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = datetime.now(UTC) + timedelta(days=1)
    keyid = keys.new("ops", end)
    content = sign(build(evidence()), keys.signer("ops"))
    assert verify(content, trusted=keys.trusted()).valid
    found = verify(content, trusted=keys.trusted(), now=end + timedelta(seconds=1))
    assert found.reasons == [f"expired key: ops ({keyid[:16]}…), on {dates.text(end)}"]
    monkeypatch.setattr("launch.proof.dates.past", lambda moment, now=None: moment is not None)
    assert keys.own() == []
    with pytest.raises(Refused, match="the key ops expired on"):
        keys.signer("ops")


@pytest.mark.parametrize("text", ["soon", "2027-01-01T00:00:00"])
def test_a_list_whose_dates_were_edited_to_nonsense_is_not_read(state: Path, text: str) -> None:
    keys.new("ops", datetime.now(UTC) + timedelta(days=1))
    path = state / "keys" / "trusted.json"
    [entry] = keys.trusted().values()
    path.write_text(path.read_text().replace(str(entry.expires), text))
    with pytest.raises(HallmarkError, match="is not a list of trusted keys"):
        keys.trusted()


def test_trusting_again_with_another_end_moves_it(state: Path) -> None:
    keyid = keys.new("ops", datetime.now(UTC) + timedelta(days=1))
    public = state / "keys" / "ops.pub"
    later = datetime.now(UTC) + timedelta(days=400)
    assert keys.trust(public, later) == keyid
    assert keys.trusted()[keyid].expires == dates.text(later)
    keys.trust(public)
    assert keys.trusted()[keyid].expires == dates.text(later)
