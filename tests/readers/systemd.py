"""Reads a unit as systemd.syntax(7), systemd.exec(5) and systemd.service(5) say: quotes, escapes, specifiers, `$`."""

import re

from tests.readers.seen import HOME, SECRETS, Seen

_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_WORD = re.compile(r'\s*(@?)"((?:[^"\\]|\\.)*)"|\s*(\S+)', re.DOTALL)


def read(text: str) -> Seen:
    lines = re.sub(r"\\\n", " ", text).splitlines()
    env: dict[str, str] = {}
    argv: list[str] = []
    for line in lines:
        key, _, value = line.partition("=")
        if line.startswith("#"):
            continue
        if key == "Environment":
            [word] = _words(value)
            name, _, content = word.partition("=")
            env[name] = _specifiers(content)
        elif key == "EnvironmentFile":
            assert value.startswith("%h/")
            env |= {"HF_TOKEN": SECRETS["MY_TOKEN"]}
        elif key == "ExecStart":
            assert value.startswith("@"), "its name would be its path"
            argv = [_dollars(_specifiers(word)) for word in _words(value[1:])]
    return Seen(tuple(argv[1:]), env, frozenset())


def program(text: str) -> str:
    """The file that is run."""
    [value] = re.findall(r"^ExecStart=@(.*?) \\$", text, re.MULTILINE)
    [word] = _words(value)
    return _dollars(_specifiers(word))


def _words(value: str) -> list[str]:
    found = []
    for match in _WORD.finditer(value):
        assert match[3] is None, f"a word without quotes: {match[3]!r}"
        found.append(_ESCAPE.sub(lambda it: chr(int(it[1], 16)) if it[1] else it[2], match[2]))
    return found


def _specifiers(text: str) -> str:
    return re.sub("%(.)", lambda it: {"%": "%", "h": HOME}[it[1]], text)


def _dollars(text: str) -> str:
    assert not re.search(r"(?<!\$)\$(?:\$\$)*(?!\$)", text), "systemd would look for a variable"
    return text.replace("$$", "$")
