"""Values of configuration files as people can write them, and what must come of each in a rank's arguments."""

import json
import re
from typing import Any

from hypothesis import strategies as st

# What YAML takes for a line's end, or does not take at all, must be written as an escape.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NASTY = [
    "it's", '"', "\\", "$HOME", "`id`", "$(id)", "{a,b}", "[1]", "a b", " a ", "*", "~", "~/x", "~x", " ~/x", "%s",
    "!x", "#",
    "--x", "-", "\n", "\t", "\r\n", "ü€😀", "\u2028", "on", "off", "no", "null", "012", "1e3", "22:22", "0o17", "0.30",
    "2026-12-01", ";", "&&", "|", "<>", "{{ x }}", "${X}", "a\\nb", "'\"'\"'", ",", "=", "@", "file://x", "a=b",
]  # fmt: skip


words = st.one_of(
    st.sampled_from(_NASTY),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.lists(st.sampled_from(_NASTY), min_size=2, max_size=4).map("".join),
)
_flag_words = words.filter(lambda text: text.lower() not in ("true", "false"))
_numbers = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, words, st.just("")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
flag_values = st.one_of(
    st.none(),
    st.booleans(),
    _numbers,
    _flag_words,
    st.dictionaries(words, _json, max_size=3),
    st.lists(st.one_of(_numbers, _flag_words), min_size=1, max_size=3),
)
env_values = st.one_of(words, st.just(""), st.integers(-99, 99)).filter(
    # These are references to secrets, which is another matter.
    lambda value: not re.match("env:|file:", str(value))
)
flags = st.lists(flag_values, min_size=30, max_size=30).map(lambda many: {f"k{n}": it for n, it in enumerate(many)})
variables = st.lists(env_values, min_size=30, max_size=30).map(lambda many: {f"V{n}": it for n, it in enumerate(many)})


def written(document: Any) -> str:
    """The document as YAML, every text in double quotes."""
    text = json.dumps(document, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def unread(argv: list[str], given: dict[str, Any]) -> list[str]:
    """What is left of the arguments once every flag was found with its value; a difference is an AssertionError."""
    rest = list(argv)
    for flag, value in given.items():
        if value is None:
            assert not any(word == f"--{flag}" or word.startswith(f"--{flag}=") for word in rest), flag
        elif isinstance(value, bool):
            assert rest.pop(0) == (f"--{flag}" if value else f"--no-{flag}")
        elif rest[0].startswith(f"--{flag}="):
            # A value that begins with a dash would be taken for a flag.
            assert _same(rest.pop(0).partition("=")[2], value)
        else:
            assert rest.pop(0) == f"--{flag}"
            for item in value if isinstance(value, list) else [value]:
                assert _same(rest.pop(0), item)
    return rest


def _same(word: str, value: Any) -> bool:
    if isinstance(value, str):
        return word == value
    read = json.loads(word)
    # 1e16 is a whole number to YAML; true is none.
    return bool(read == value) and isinstance(read, bool) == isinstance(value, bool)
