"""The closed set of operations: each finds its place, says whether it is done, and makes its edit."""

from __future__ import annotations

from typing import Any

from ..errors import USAGE, ApplierError
from . import body, call_keyword, import_, insert, member, overlay, parameter, replace, text
from .base import Edit, Operation, Splice

__all__ = ["OPERATIONS", "Edit", "Operation", "Splice", "operation"]

OPERATIONS: dict[str, type[Operation]] = {
    "call-keyword": call_keyword.CallKeyword,
    "parameter": parameter.Parameter,
    "insert": insert.Insert,
    "replace": replace.Replace,
    "body": body.Body,
    "member": member.Member,
    "import": import_.Import,
    "text": text.Text,
    "overlay": overlay.Overlay,
}


def operation(spec: dict[str, Any]) -> Operation:
    """Build the operation that one edit of a compiled patch set asks for."""
    name = spec.get("op")
    if name not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise ApplierError(USAGE, f"unknown operation {name!r}", hint=f"one of {known}")
    try:
        return OPERATIONS[name](spec)
    except (KeyError, TypeError, AttributeError) as error:
        raise ApplierError(USAGE, f"the edit {name} is not complete: {error!r}", where=spec["file"]) from None
