"""Reads YAML by the 1.2 core rules and remembers the line of every key and value.

Owns: which plain scalars are numbers or switches, duplicate keys, merge keys, refused tags. Knows no schema.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from recipe.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

Loc = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = {"", "~", "null", "Null", "NULL"}
# A configuration file has a few hundred values; more means that aliases of aliases multiply.
_MOST_VALUES = 50_000


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's parser and composer with our own idea of plain scalars; its constructors are never called."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


def _plain(tag: str, pattern: str) -> None:
    _Loader.add_implicit_resolver(_TAG + tag, re.compile(rf"(?:{pattern})\Z"), None)


_plain("bool", "|".join(_BOOL))
_plain("null", "|".join(re.escape(text) for text in sorted(_NULL)))
_plain("int", _INT.pattern)
_plain("float", _FLOAT.pattern)
_plain("merge", "<<")


@dataclass(frozen=True)
class Document:
    """One YAML file: its values and where each of them is written.

    `loc` is the path of a value: keys of mappings and indices of lists, `("nodes", 0, "fabric")`.
    """

    path: Path
    data: dict[str, Any]
    lines: Mapping[Loc, int] = field(repr=False)
    texts: Mapping[Loc, str] = field(repr=False)
    faults: tuple[tuple[int, Problem], ...] = ()

    def where(self, loc: Loc = ()) -> str:
        """`file:line` of the value at `loc`, or of the nearest thing around it that the file has."""
        return f"{shown(self.path)}:{self.line(loc)}"

    def written(self, loc: Loc) -> str | None:
        """The scalar at `loc` as the file spells it, quotes included; None for a mapping or a list."""
        return self.texts.get(self.locate(loc))

    def locate(self, loc: Loc) -> Loc:
        """The part of `loc` that the file has, in the file's spelling (`a-b` also finds `a_b`)."""
        found: Loc = ()
        for step in loc:
            for spelling in (step, step.replace("-", "_")) if isinstance(step, str) else (step,):
                if (*found, spelling) in self.lines:
                    found = (*found, spelling)
                    break
        return found

    def validate(self, model: "type[Model]") -> "Model":
        """The file as a `model`. Errors: a ConfigError that holds every mistake, each with its line."""
        from recipe.config.explain import validate

        return validate(self, model)

    def line(self, loc: Loc) -> int:
        """The line that `where` names."""
        return self.lines[self.locate(loc)]


def shown(path: Path) -> str:
    """A path as an error message shows it: relative to the working folder when it is inside."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def dotted(loc: Loc) -> str:
    """`nodes[1].fabric`: a place as a message names it."""
    text = ""
    for step in loc:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def load(path: Path) -> Document:
    """Read one YAML file whose top level is a mapping.

    Errors: a ConfigError with every duplicate key, refused tag or broken line; a file that cannot be read.
    """
    document = read(path)
    if document.faults:
        raise ConfigError([problem for _, problem in document.faults])
    return document


def read(path: Path) -> Document:
    """Like `load`, but duplicate keys and refused tags are left in `faults`, to be told with other mistakes.

    Errors: a ConfigError for a file that cannot be read or parsed.
    """
    try:
        return _document(path, _compose(path, _text(path)))
    except RecursionError:
        raise ConfigError([Problem("is nested too deeply", shown(path), "write it flatter")]) from None


def _document(path: Path, root: yaml.Node | None) -> Document:
    if root is None:
        raise ConfigError([Problem("the file is empty", f"{shown(path)}:1", "write `key: value` lines")])
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(
            [Problem("the file is not a mapping", f"{shown(path)}:{_line(root)}", "write `key: value` lines")]
        )
    reader = _Reader(path)
    data = reader.value(root, ())
    reader.lines[()] = 1
    faults = tuple((line, reader.problems[(line, text)]) for line, text in sorted(reader.problems))
    return Document(path, data, reader.lines, reader.texts, faults)


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError([Problem("there is no such file", shown(path))]) from None
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror}", shown(path))]) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        bad = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        raise ConfigError([Problem(bad, f"{shown(path)}:{line}", "save the file as UTF-8")]) from None
    if odd := yaml.reader.Reader.NON_PRINTABLE.search(text):
        where = f"{shown(path)}:{text.count(chr(10), 0, odd.start()) + 1}"
        raise ConfigError([Problem(f"U+{ord(odd[0]):04X} is not allowed in YAML", where, "take it out")])
    return text


def _compose(path: Path, text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        told = ", ".join(part for part in (error.context, error.problem) if part)
        hint = "check the indentation, the quotes and the brackets of this line and the one before it"
        raise ConfigError([Problem(f"not valid YAML: {told}", f"{shown(path)}:{line}", hint)]) from None
    finally:
        loader.dispose()


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Reader:
    """Turns composed nodes into plain values and collects what is wrong on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[Loc, int] = {}
        self.texts: dict[Loc, str] = {}
        self.problems: dict[tuple[int, str], Problem] = {}
        self._open: list[yaml.Node] = []
        self._count = 0

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        self.lines.setdefault(loc, _line(node))
        self._count += 1
        if self._count > _MOST_VALUES:
            self._wrong(node, "the file has too many values", "write them out instead of aliases of aliases")
            raise ConfigError(list(self.problems.values()))
        if isinstance(node, yaml.ScalarNode):
            self.texts[loc] = f"{node.style}{node.value}{node.style}" if node.style in ("'", '"') else node.value
            return self._scalar(node)
        if any(node is outer for outer in self._open):
            return self._wrong(node, "an alias contains itself", "write the value out")
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                self._only(node, "map")
                return self._mapping(node, loc)
            self._only(node, "seq")
            return [self.value(item, (*loc, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        merged: list[tuple[str, yaml.Node, yaml.Node]] = []
        own: list[tuple[str, yaml.Node, yaml.Node]] = []
        first: dict[str, tuple[str, int]] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                merged.extend(self._merged(value_node))
                continue
            key = self._key(key_node)
            if key is None:
                continue
            same = key.replace("-", "_")
            if same in first:
                other, line = first[same]
                alike = "" if other == key else f" as `{other}`"
                name = dotted((*loc, key))
                self._wrong(key_node, f"{name}: is written twice, first{alike} in line {line}", "keep one of them")
                continue
            first[same] = (key, _line(key_node))
            own.append((key, key_node, value_node))
        for key, key_node, value_node in merged:
            if first.setdefault(key.replace("-", "_"), (key, 0)) == (key, 0):
                own.append((key, key_node, value_node))
        result: dict[str, Any] = {}
        for key, key_node, value_node in own:
            if key not in result:
                self.lines[(*loc, key)] = _line(key_node)
                result[key] = self.value(value_node, (*loc, key))
        return result

    def _merged(self, node: yaml.Node) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                yield from self._merged(item)
        elif not isinstance(node, yaml.MappingNode):
            self._wrong(node, "<<: merges something that is not a mapping", "name an anchor of a mapping")
        elif any(node is outer for outer in self._open):
            self._wrong(node, "<<: an alias contains itself", "write the value out")
        else:
            self._open.append(node)
            for key_node, value_node in node.value:
                if key_node.tag == _TAG + "merge":
                    yield from self._merged(value_node)
                elif (key := self._key(key_node)) is not None:
                    yield key, key_node, value_node
            self._open.pop()

    def _key(self, node: yaml.Node) -> str | None:
        if isinstance(node, yaml.ScalarNode):
            key = self._scalar(node)
            if isinstance(key, str):
                return key
            self._wrong(node, f"{node.value or 'null'}: a key must be text", f'quote it: "{node.value}"')
        else:
            self._wrong(node, "a key must be text, not a mapping or a list", "write `key: value`")
        return None

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        kind = node.tag.removeprefix(_TAG)
        if kind in ("str", "merge"):
            return text
        if kind == "bool" and text in _BOOL:
            return _BOOL[text]
        if kind == "null" and text in _NULL:
            return None
        if kind == "int" and _INT.fullmatch(text):
            return int(text)
        if kind == "float" and _FLOAT.fullmatch(text):
            return _float(text)
        if kind in ("bool", "null", "int", "float"):
            return self._wrong(node, f"{text!r} is not a {kind} by the YAML 1.2 core rules", "take the tag off")
        return self._refuse_tag(node)

    def _only(self, node: yaml.Node, kind: str) -> None:
        if node.tag != _TAG + kind:
            self._refuse_tag(node)

    def _refuse_tag(self, node: yaml.Node) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self._wrong(node, f"the tag {tag} is not allowed", "write the value without a tag")

    def _wrong(self, node: yaml.Node, message: str, hint: str) -> None:
        line = _line(node)
        self.problems[(line, message)] = Problem(message, f"{shown(self.path)}:{line}", hint)


def _float(text: str) -> int | float:
    if text[-1] in "fFnN":
        return float(text.replace(".", ""))
    number = float(text)
    # vLLM refuses `--max-model-len 1000000.0`, so 1e6 becomes the whole number that it denotes.
    return int(number) if "e" in text.lower() and number.is_integer() else number
