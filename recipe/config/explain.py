"""Says what pydantic found in the words of a configuration file: line, key, the value as written, what to write."""

import difflib
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from recipe.config.source import Document, Loc, dotted
from recipe.errors import ConfigError, Problem

Model = TypeVar("Model", bound=BaseModel)


def validate(
    document: Document, model: type[Model], also: Callable[[Document], Iterable[tuple[int, Problem]]] | None = None
) -> Model:
    """The document as a `model`; `also` finds more mistakes in the raw document, each with its line.

    Errors: a ConfigError with all mistakes, those of reading included, in the order of their lines.
    """
    faults = {line for line, _ in document.faults}
    found = {*document.faults, *(also(document) if also else ())}
    try:
        value = model.model_validate(document.data)
    except ValidationError as error:
        # Where reading failed there is no value to judge.
        found.update(item for item in _problems(document, model, error) if item[0] not in faults)
    if found:
        raise ConfigError([problem for _, problem in sorted(found, key=lambda item: (item[0], str(item[1])))])
    return value


def _problems(document: Document, model: type[BaseModel], error: ValidationError) -> Iterable[tuple[int, Problem]]:
    for item in error.errors(include_url=False):
        # pydantic counts only the entries that are right, and has told about the others.
        if item["type"] == "too_short" and item["input"]:
            continue
        yield document.line(item["loc"]), _problem(document, model, item)


def wrong(message: str, hint: str) -> PydanticCustomError:
    """What a validator of the models raises: what is wrong with the value, and what to write instead."""
    return PydanticCustomError("hallmark", "{message}", {"message": message, "hint": hint})


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` was probably meant to be."""
    folded = {name.replace("_", "-").lower(): name for name in known}
    close = difflib.get_close_matches(word.replace("_", "-").lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def _problem(document: Document, model: type[BaseModel], item: ErrorDetails) -> Problem:
    loc, kind = item["loc"], item["type"]
    found = document.locate(loc)
    if kind == "missing":
        key = dotted((*found, loc[-1]))
        field = _fields(model, found).get(str(loc[-1]), "")
        return Problem(f"{key}: is missing", document.where(found), f"add it: {field}" if field else "add it")
    key = dotted(found)
    if kind == "extra_forbidden":
        known = list(_fields(model, found[:-1]))
        near = nearest(str(found[-1]), known)
        hint = f"did you mean `{near}`?" if near else f"known keys: {', '.join(known)}"
        return Problem(f"{key}: unknown key", document.where(found), hint)
    message, hint = _explain(item, _spelled(document, found, item["input"]))
    return Problem(f"{key}: {message}" if key else message, document.where(found), hint)


def _spelled(document: Document, loc: Loc, value: object) -> str:
    written = document.written(loc)
    if written is not None:
        return written if written else "(empty)"
    return "a list" if isinstance(value, list) else "a mapping"


def _explain(item: ErrorDetails, written: str) -> tuple[str, str]:
    context = item.get("ctx", {})
    kind = item["type"]
    if kind == "hallmark":
        return str(context["message"]), str(context["hint"])
    if kind == "string_type":
        return _not_text(item["input"], written)
    if kind == "literal_error":
        allowed = str(context["expected"]).replace(" or ", ", ").replace("'", "")
        near = nearest(written.strip("'\""), allowed.split(", "))
        return f"{written} is not a choice", f"write {near}" if near else f"write one of: {allowed}"
    for prefix, (what, hint) in _SHAPES.items():
        if kind.startswith(prefix):
            return f"{written} is not {what}", hint
    if kind in _BOUNDS:
        return f"{written} is out of range", _BOUNDS[kind](context)
    if kind == "too_short":
        return "has too few entries", f"write at least {context['min_length']}"
    message = item["msg"]
    return f"{written}: {message[:1].lower()}{message[1:]}", "correct it"


def _not_text(value: object, written: str) -> tuple[str, str]:
    if isinstance(value, list | dict):
        return f"must be text, not {written}", "write one value"
    if value is None:
        return "has no value", 'write one, or "" for an empty text'
    kind = "a switch" if isinstance(value, bool) else "a number"
    return f"{written} is {kind} here, and this must be text", f'quote it: "{written}"'


_SHAPES = {
    "int": ("a whole number", "write it in plain decimal digits, without quotes"),
    "float": ("a number", "write it in decimal, without quotes"),
    "bool": ("a switch", "write true or false, without quotes"),
    "tuple": ("a list", "write [VALUE, …], or a `- VALUE` line for each"),
    "list": ("a list", "write [VALUE, …], or a `- VALUE` line for each"),
    "dict": ("a mapping", "write `key: value` lines"),
    "model": ("a mapping", "write `key: value` lines"),
}
_BOUNDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "greater_than_equal": lambda context: f"write {context['ge']} or more",
    "greater_than": lambda context: f"write more than {context['gt']}",
    "less_than_equal": lambda context: f"write {context['le']} or less",
    "less_than": lambda context: f"write less than {context['lt']}",
}


def _fields(model: type[BaseModel], loc: Loc) -> dict[str, str]:
    """The keys that the model at `loc` knows, each with its description."""
    at: Any = model
    for step in loc:
        at = _inside(at, step)
    holder = next((choice for choice in _choices(at) if _is_model(choice)), None)
    if holder is None:
        return {}
    return {field.alias or name: field.description or "" for name, field in holder.model_fields.items()}


def _inside(annotation: Any, step: str | int) -> Any:
    for choice in _choices(annotation):
        if _is_model(choice):
            for name, field in choice.model_fields.items():
                if step in (field.alias, name):
                    return field.annotation
        elif get_origin(choice) in (dict, tuple, list):
            arguments = get_args(choice)
            return arguments[1] if get_origin(choice) is dict else arguments[0]
    return None


def _choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [choice for part in get_args(annotation) for choice in _choices(part)]
    if hasattr(annotation, "__metadata__"):
        return _choices(annotation.__origin__)
    return [annotation]


def _is_model(choice: Any) -> bool:
    return isinstance(choice, type) and issubclass(choice, BaseModel)
