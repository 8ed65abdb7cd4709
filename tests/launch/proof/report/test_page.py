"""The page says what the certificate says, whatever that is, and needs nothing but itself."""

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from launch.proof import keys
from launch.proof.certificate import sign, verify
from launch.proof.report.material import Past
from launch.proof.report.page import page
from tests.launch.proof.report.conftest import Certificate


class _Read(HTMLParser):
    """The text of a page, the cells of its tables, and every address that a browser would fetch by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self._cell = False
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._cell = self._cell or tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        for name, value in attrs:
            if name == "href" and tag == "a":
                self.links.append(str(value))
            elif name in ("src", "srcset", "href", "xlink:href", "action", "data", "poster"):
                self.fetched.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._cell:
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())


def test_it_tells_verdict_subject_patches_gates_and_log_lines(certified: Callable[..., Certificate]) -> None:
    read = _Read(page(certified().material()))
    assert "Certified: all 3 gates passed, and the signature holds." in read.text
    assert f"sha256:{'a' * 64}" in read.text
    assert ["experts", "applied", "Dispatch <experts> by layer", "47716"] in read.rows
    [acceptance] = [row for row in read.rows if row[0] == "acceptance drafts are accepted"]
    assert acceptance[1:3] == ["pass", "2.5"]
    assert "min-mean-length 2" in acceptance[3]
    assert ["required", "INFO: startup complete", "spark-a 1", "it serves"] in read.rows
    assert ["forbidden", "Traceback", "spark-a 0", "an exception"] in read.rows


def test_it_charts_the_runs_every_draft_position_and_every_kind_of_text_with_their_bars(
    certified: Callable[..., Certificate],
) -> None:
    text = page(certified(accepted=(91, 57)).material())
    [throughput, positions, speeds] = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert "tok/s: median, and every run as a mark" in throughput
    assert re.findall(r">(0\.\d\d)</text>", positions) == ["0.91", "0.57"]
    assert "var(--bad)" in positions, "the bar of position 1 is not drawn"
    assert re.findall(r">(45|count|sql)</text>", speeds) == ["count", "sql", "45", "45"]


def test_nothing_is_fetched_and_there_is_no_script(certified: Callable[..., Certificate]) -> None:
    text = page(certified().material())
    read = _Read(text)
    assert [address for address in read.fetched if not address.startswith(("data:", "#"))] == []
    assert "<script" not in text
    assert not re.search(r"url\((?!#)", text)
    assert [link for link in read.links if link.startswith("https://github.com/vllm-project/vllm/pull/")]


def test_what_a_certificate_says_is_text_and_never_markup(certified: Callable[..., Certificate]) -> None:
    made = certified(line="<script>alert(1)</script>", patches={"<b>": "applied"}, cluster="'\"><img src=x>")
    text = page(made.material(past=Past("<i>c</i>", 3, "now", "<u>me</u>", "</title>")))
    assert "<script" not in text
    assert "<img" not in text
    assert not re.search(r"<(b|i|u)>", text)
    assert "<script>alert(1)</script>" in _Read(text).text


def test_one_that_does_not_hold_is_shown_as_that_with_every_reason(certified: Callable[..., Certificate]) -> None:
    made = certified()
    [keyid] = keys.trusted()
    keys.revoke(keyid)
    found = verify(made.envelope, trusted=keys.trusted(), profile="other")
    read = _Read(page(Certificate(made.envelope, found).material()))
    assert "Not valid. What follows is only what it claims." in read.text
    assert "revoked key: ops" in read.text
    assert "wrong profile: it is about gb10-nvfp4, not other" in read.text
    assert "The signer's key is not trusted where this page was made" in read.text


def test_the_certificate_before_is_compared_value_by_value(certified: Callable[..., Certificate]) -> None:
    before = certified(accepted=(80, 40), patches={"experts": "applied", "old": "applied"}, vllm="0.32.0")
    now = certified(patches={"experts": "upstreamed"}, digest="b" * 64)
    read = _Read(page(now.material(previous=before.found)))
    assert ["vLLM", "0.32.0", "0.33.0"] in read.rows
    assert ["patch experts", "applied", "upstreamed"] in read.rows
    assert ["patch old", "applied", "–"] in read.rows
    assert ["gate acceptance", "pass 2.2", "pass 2.5"] in read.rows
    assert not any(row[0] == "gate log" for row in read.rows)


@pytest.mark.parametrize(
    ("patches", "said"), [(None, "does not name the states of patches"), ({}, "Not patched by Hallmark")]
)
def test_states_of_patches_that_were_not_recorded_are_not_made_up(
    patches: dict[str, str] | None, said: str, certified: Callable[..., Certificate]
) -> None:
    read = _Read(page(certified(patches=patches).material()))
    assert said in read.text
    assert "applied" not in [cell for row in read.rows for cell in row]


def test_what_is_no_certificate_is_refused(certified: Callable[..., Certificate]) -> None:
    made = certified()
    nothing = verify(b"{}", trusted=keys.trusted())
    with pytest.raises(ValueError, match="bad JSON"):
        page(Certificate(b"{}", nothing).material())
    assert made.found.valid


def test_until_when_it_counts_and_everybody_who_signed_is_told(certified: Callable[..., Certificate]) -> None:
    until = datetime(2030, 6, 30, 23, 59, tzinfo=UTC)
    made = certified(expires=until)
    keys.new("second")
    envelope = json.loads(made.envelope)
    second = json.loads(sign(build_again(envelope), keys.load_private("second")))
    envelope["signatures"] += second["signatures"]
    found = verify(json.dumps(envelope).encode(), trusted=keys.trusted())
    read = _Read(page(Certificate(made.envelope, found).material()))
    assert ["counts", "until 2030-06-30 23:59 UTC"] in read.rows
    [signed] = [row[1] for row in read.rows if row[0] == "signed by"]
    assert (signed.count("ops ("), signed.count("second (")) == (1, 1)
    assert all(f"-inkey {keyid}.pem" in read.text for keyid in keys.trusted())
    assert ["counts", "for good"] in _Read(page(certified().material())).rows


def build_again(envelope: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return found


@pytest.mark.parametrize(
    "part",
    [
        {"figures": {"single_stream": {"runs": [{"tok_s": "fast"}]}}},
        {"figures": {"single_stream": 1}},
        {"patches": []},
    ],
    ids=["a text as a figure", "no runs", "a list of patches"],
)
def test_free_parts_that_hold_something_else_are_one_error(
    part: dict[str, Any], certified: Callable[..., Certificate]
) -> None:
    made = certified()
    statement = build_again(json.loads(made.envelope))
    statement["predicate"]["hallmark"] |= part
    envelope = sign(statement, keys.load_private("ops"))
    found = verify(envelope, trusted=keys.trusted())
    with pytest.raises(ValueError, match="it holds what no certificate of Hallmark does"):
        page(Certificate(envelope, found).material())


def test_a_certificate_before_that_cannot_be_read_is_left_out(certified: Callable[..., Certificate]) -> None:
    before = verify(b'{"payload": "e30=", "payloadType": "x", "signatures": []}', trusted=keys.trusted())
    read = _Read(page(certified().material(previous=before)))
    assert "Since the certificate before" not in read.text
