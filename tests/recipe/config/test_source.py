"""The YAML loader: 1.2 core scalars, positions, duplicates, merges, and files that are not what they seem."""

from pathlib import Path
from typing import Any

import pytest

from recipe.config.source import Document, dotted, load
from recipe.errors import ConfigError


def document(tmp_path: Path, text: str | bytes) -> Document:
    path = tmp_path / "file.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path)


def refusal(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as refused:
        document(tmp_path, text)
    return str(refused.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("22:22", "22:22"),
        ("2026-12-01", "2026-12-01"),
        ("012", "012"),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("8_888", "8_888"),
        ("=", "="),
        ("0", 0),
        ("-7", -7),
        ("0.30", 0.3),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000),
        ("1.0e+3", 1000),
        ("1e-3", 0.001),
        (".inf", float("inf")),
        ('"1"', "1"),
        ("!!str 5", "5"),
        ("!!int 5", 5),
    ],
)
def test_a_plain_scalar_is_what_the_core_rules_say(tmp_path: Path, written: str, value: Any) -> None:
    found = document(tmp_path, f"key: {written}\n").data["key"]
    assert found == value
    assert type(found) is type(value)


def test_a_whole_number_in_scientific_form_is_whole_and_a_plain_fraction_is_not(tmp_path: Path) -> None:
    data = document(tmp_path, "a: 1e6\nb: 1.0\n").data
    assert isinstance(data["a"], int)
    assert isinstance(data["b"], float)


def test_every_value_has_the_line_of_its_key(tmp_path: Path) -> None:
    found = document(tmp_path, "a: 1\nb:\n  - x: 1\n    y_z:\n      2\n  - z\n")
    assert [found.line(loc) for loc in [("a",), ("b",), ("b", 0), ("b", 0, "y_z"), ("b", 1)]] == [1, 2, 3, 4, 6]
    assert found.where(("b", 0, "y-z")).endswith("file.yaml:4")
    assert found.where(("b", 0, "nothing", "there")).endswith("file.yaml:3")
    assert found.written(("b", 0, "y_z")) == "2"


def test_a_path_inside_the_working_folder_is_shown_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = document(tmp_path, "a: 1\n")
    assert found.where(("a",)) == f"{tmp_path}/file.yaml:1"
    monkeypatch.chdir(tmp_path)
    assert found.where(("a",)) == "file.yaml:1"


def test_a_byte_order_mark_windows_line_ends_and_a_missing_last_one_change_nothing(tmp_path: Path) -> None:
    """C6: what is given to ssh has no carriage return at its end."""
    plain = "host: ops@10.9.0.12\nlist:\n  - a\n  - b: 8888"
    odd = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()
    assert document(tmp_path, odd).data == document(tmp_path, plain).data
    assert document(tmp_path, odd).line(("list", 1)) == 4


def test_a_merge_key_fills_in_what_is_not_written(tmp_path: Path) -> None:
    text = "one: &one {a: 1, b_c: 2}\ntwo: &two {a: 3, d: 4}\nall:\n  <<: [*one, *two]\n  b-c: 5\n"
    found = document(tmp_path, text)
    assert found.data["all"] == {"b-c": 5, "a": 1, "d": 4}
    assert found.line(("all", "d")) == 2


def test_an_alias_may_be_used_twice(tmp_path: Path) -> None:
    assert document(tmp_path, "a: &x [1]\nb: *x\nc: *x\n").data == {"a": [1], "b": [1], "c": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: 1\nb: \xff\n", "file.yaml:2: byte 0xff is not UTF-8"),
        ("a: 1\nb: \x07\n", "file.yaml:2: U+0007 is not allowed in YAML"),
        ("a: 1\n---\nb: 2\n", "file.yaml:2: not valid YAML: expected a single document"),
        ("a: b: c\n", "file.yaml:1: not valid YAML: mapping values are not allowed in this context"),
        ("a: @x\n", "file.yaml:1: not valid YAML: while scanning for the next token"),
        ("a: *x\n", "file.yaml:1: not valid YAML: found undefined alias"),
        ("? [1]\n: 2\n", "file.yaml:1: a key must be text, not a mapping or a list"),
        ("1: 2\n", "file.yaml:1: 1: a key must be text"),
        ("a: !!int x\n", "file.yaml:1: 'x' is not a int by the YAML 1.2 core rules"),
        ("a: !!timestamp 2026-12-01\n", "file.yaml:1: the tag !!timestamp is not allowed"),
        ("a: !own {b: 1}\n", "file.yaml:1: the tag !own is not allowed"),
        ("text\n", "file.yaml:1: the file is not a mapping"),
    ],
)
def test_a_file_that_is_no_plain_yaml_is_one_clean_error(tmp_path: Path, text: str | bytes, message: str) -> None:
    told = refusal(tmp_path, text)
    assert told.startswith(message)
    assert "\n" not in told


def test_aliases_of_aliases_end_before_they_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too many values" in refusal(tmp_path, "\n".join(lines))


@pytest.mark.parametrize("depth", [900, 5000])
def test_a_deeply_nested_file_is_refused_without_a_traceback(tmp_path: Path, depth: int) -> None:
    assert "nest" in refusal(tmp_path, "a: " + "[" * depth + "]" * depth)


def test_a_missing_file_and_a_folder_are_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_place_is_named_with_dots_and_brackets() -> None:
    assert dotted(("nodes", 1, "env", "A")) == "nodes[1].env.A"
