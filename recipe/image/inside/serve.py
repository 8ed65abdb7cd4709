"""The profile's `vllm serve` line, read by the vLLM in this image without a device and without a model.

Its argument parser knows flags, choices and types. Settings that it lets through are given to the configuration
classes that stand alone; the whole engine configuration would need the model and the device.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import importlib
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from . import platform
from .request import Flag, Request
from .result import Result, judged, skipped

CHECK = "serve"
# Where releases keep the serve command's parser: 0.33, 0.29 to 0.32, and before.
_PARSERS = ("vllm.entrypoints.common", "vllm.entrypoints.launchers", "vllm.entrypoints.openai")
_CLASSES = ("CacheConfig", "KernelConfig", "ParallelConfig", "LoadConfig")
# Flags whose setting has another name in its class.
_NAMES = {"kv_cache_dtype": "cache_dtype"}
_REGISTRIES = {
    "tool_call_parser": ("vllm.tool_parsers", "ToolParserManager"),
    "reasoning_parser": ("vllm.reasoning", "ReasoningParserManager"),
}
_DRAFT = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}
_LONGEST = 400


def check(request: Request) -> Result:
    reason = platform.missing()
    if reason:
        return skipped(CHECK, reason)
    module = parser_module()
    if module is None:
        return skipped(CHECK, "this vLLM keeps the parser of `vllm serve` in another place than any known release")
    line = _Line(module, request)
    problems = [problem for flag in request.flags for problem in line.flag(flag)]
    problems = problems or list(line.whole())
    return judged(CHECK, f"{len(request.flags)} settings", list(dict.fromkeys(problems)))


class _Refused(Exception):
    pass


class _Line:
    """The parser of this vLLM, and the profile's flags."""

    def __init__(self, module: Any, request: Request) -> None:
        self.module, self.request = module, request
        parser_class: Any = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
        self.parser = module.make_arg_parser(parser_class(prog="vllm serve"))
        self.parser.error = _refuse
        self.actions: dict[str, argparse.Action] = self.parser._option_string_actions

    def flag(self, flag: Flag) -> Iterable[str]:
        """What the parser says against one flag alone."""
        unknown = [option for option in _options(flag.words) if option not in self.actions]
        for option in unknown:
            near = difflib.get_close_matches(option, self.actions, 1)
            yield f"{flag.where}: this vLLM has no {option} — " + (
                f"did you mean {near[0]}?" if near else "take it out"
            )
        if not unknown:
            try:
                self._parse(flag.words)
            except _Refused as error:
                yield f"{flag.where}: {self._explained(str(error), flag)}"

    def whole(self) -> Iterable[str]:
        """What is said against the whole line, each of its flags being right by itself."""
        try:
            parsed = self._parse([word for flag in self.request.flags for word in flag.words])
            getattr(self.module, "validate_parsed_serve_args", lambda _: None)(parsed)
        except (_Refused, TypeError, ValueError, KeyError) as error:
            where = next((flag for flag in self.request.flags if f"--{flag.name}" in str(error)), None)
            yield f"{where.where if where else self.request.model}: {_short(error)} — correct it"
            return
        given = {self.actions[option].dest: flag for flag in self.request.flags for option in _options(flag.words)}
        values = {name: (getattr(parsed, name), flag) for name, flag in given.items() if hasattr(parsed, name)}
        for name in _CLASSES:
            yield from _construct(name, values)
        yield from _draft(values)
        for setting, (place, registry) in _REGISTRIES.items():
            yield from _registered(values.get(setting), place, registry)

    def _parse(self, words: list[str]) -> argparse.Namespace:
        try:
            parsed: argparse.Namespace = self.parser.parse_args([self.request.model, *words])
        except (SystemExit, ValueError, TypeError) as error:
            raise _Refused(str(error)) from None
        return parsed

    def _explained(self, message: str, flag: Flag) -> str:
        text = message.partition(": ")[2] if message.startswith("argument ") else message
        text = _short(text.partition(" (choose from")[0])
        option = next(iter(_options(flag.words)), "")
        choices = [str(choice) for choice in self.actions[option].choices or ()] if option in self.actions else []
        return f"{text} — {_choose(flag.words[-1], choices)}"


def parser_module() -> Any:
    """The module with the parser of `vllm serve`; None where no known place has it."""
    for package in _PARSERS:
        try:
            return importlib.import_module(f"{package}.cli_args")
        except ModuleNotFoundError as error:
            if error.name and not f"{package}.cli_args".startswith(error.name):
                raise
    return None


def _refuse(message: str) -> NoReturn:
    raise _Refused(message)


def _options(words: list[str]) -> list[str]:
    return [word.partition("=")[0].partition(".")[0] for word in words if word.startswith("--")]


def _construct(name: str, values: dict[str, tuple[Any, Flag]]) -> Iterable[str]:
    """What one configuration class says to the settings that are its own."""
    kind = getattr(importlib.import_module("vllm.config"), name)
    own = {field.name for field in dataclasses.fields(kind) if field.init}
    mine = {_NAMES.get(dest, dest): value for dest, value in values.items() if _NAMES.get(dest, dest) in own}
    if not mine:
        return
    try:
        kind(**{field: value for field, (value, _) in mine.items()})
    except ValueError as error:
        details = error.errors() if hasattr(error, "errors") else []  # type: ignore[attr-defined, unused-ignore]
        first = next(iter(mine.values()))[1]
        for detail in details or [{"loc": (), "msg": str(error)}]:
            value, place = mine.get(str(detail["loc"][0]), (None, first)) if detail["loc"] else (None, first)
            said, _, choices = str(detail["msg"]).removeprefix("Value error, ").partition(". Valid values are: ")
            yield f"{place.where}: {_short(said)} — {_choose(str(value), _quoted(choices))}"


def _draft(values: dict[str, tuple[Any, Flag]]) -> Iterable[str]:
    """What is wrong with single settings of the speculative configuration, which as a whole needs the model."""
    from pydantic import TypeAdapter, ValidationError  # type: ignore[import-not-found, unused-ignore]

    kind: Any = importlib.import_module("vllm.config").SpeculativeConfig
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    # A setting with a validator of its own may be written in other ways than its type says.
    special = {name for one in kind.__pydantic_decorators__.field_validators.values() for name in one.info.fields}
    found = {key: values[dest] for dest, key in _DRAFT.items() if dest in values}
    if "speculative_config" in values:
        whole, flag = values["speculative_config"]
        found.update({key.replace("-", "_"): (value, flag) for key, value in (whole or {}).items()})
    for key, (value, flag) in found.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"did you mean {near[0]}?" if near else "take it out"
            yield f"{flag.where}: {key}: this vLLM has no such speculative setting — {hint}"
        elif key not in special:
            annotation = kind.__pydantic_fields__[key].rebuild_annotation()
            try:
                TypeAdapter(annotation).validate_python(value)
            except ValidationError as error:
                said = error.errors()[0]
                text = f"{value!r} is not a choice" if said["type"] == "literal_error" else said["msg"]
                choices = _quoted(str(said.get("ctx", {}).get("expected", "")))
                yield f"{flag.where}: {key}: {_short(text)} — {_choose(str(value), choices)}"
            except Exception:
                # A type that stands for nothing alone cannot be judged alone.
                continue


def _registered(value: tuple[Any, Flag] | None, place: str, registry: str) -> Iterable[str]:
    if value is None:
        return
    known = list(getattr(importlib.import_module(place), registry).list_registered())
    if value[0] not in known:
        yield f"{value[1].where}: {value[0]!r} is not a choice — {_choose(str(value[0]), known)}"


def _quoted(text: str) -> list[str]:
    """The choices that a message lists: `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']+)'", text)


def _choose(word: str, choices: list[str]) -> str:
    near = difflib.get_close_matches(word, choices, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"write one of {', '.join(choices)}" if choices else "correct it"


def _short(text: object) -> str:
    joined = " ".join(str(text).split())
    return joined if len(joined) <= _LONGEST else f"{joined[:_LONGEST]}…"
