"""parameter: give a function one more parameter with a default."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

from ..errors import Drift
from ..snippet import argument, expression
from ..source import Source
from ..walk import FUNCTIONS, same
from .base import Edit, Operation, Splice, add_element, first_element


class Parameter(Operation):
    """`in` (a function), `add` {name: {default, annotation}}: one name, put behind the last parameter."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        if len(spec["add"]) != 1:
            raise Drift("syntax", "a parameter edit adds exactly one parameter")
        ((self.name, details),) = spec["add"].items()
        argument(self.name)
        self.default = expression(details["default"])
        self.annotation = expression(details["annotation"]) if details.get("annotation") else None
        annotated = f": {details['annotation'].strip()} = " if self.annotation else "="
        self.text = f"{self.name}{annotated}{details['default'].strip()}"

    def sought(self) -> str:
        return f"the parameters of {self.where}"

    def done(self, source: Source) -> bool:
        function = self._function(source)
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip((a.arg for a in reversed(positional)), reversed(arguments.defaults), strict=False))
        defaults.update(
            {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
        )
        names = {a.arg for a in [*positional, *arguments.kwonlyargs]}
        names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a}
        if self.name not in names:
            return False
        if not same(defaults.get(self.name), self.default):
            message = f"{self.where} already has a parameter {self.name} with another default"
            raise Drift("conflict", message, source.candidate(function, self.where))
        return True

    def edit(self, source: Source) -> Edit:
        function = self._function(source)
        arguments = function.args
        keyword_only = bool(arguments.vararg or arguments.kwonlyargs)
        if arguments.kwarg:
            start = source.data.rindex(b"**", 0, source.span(arguments.kwarg)[0])
            line = source.line_of(start)
            alone = not source.data[source.line_start(line) : start].strip()
            gap = source.newline + source.indent(line) if alone else b" "
            splice = Splice(start, start, source.encode(self.text) + b"," + gap)
        else:
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            named += [arguments.vararg] if arguments.vararg else []
            closing = self._closing(source, function)
            if not named:
                splice = first_element(source, closing, self.text)
            else:
                final = max(named, key=lambda node: source.span(node)[0])
                ends = [source.span(final)[1]]
                ends += [source.span(d)[1] for d in [*arguments.defaults, *filter(None, arguments.kw_defaults)]]
                if arguments.posonlyargs and final is arguments.posonlyargs[-1]:
                    message = f"{self.where} ends with positional-only parameters"
                    raise Drift("syntax", message, source.candidate(function, self.where))
                splice = add_element(source, source.span(final)[0], max(ends), closing, self.text)

        def mutate() -> None:
            added = ast.arg(arg=self.name, annotation=self.annotation)
            if keyword_only:
                arguments.kwonlyargs.append(added)
                arguments.kw_defaults.append(self.default)
            else:
                arguments.args.append(added)
                arguments.defaults.append(self.default)

        annotations: list[ast.AST] = [self.annotation] if self.annotation else []
        return Edit([splice], mutate, [self.default], self.chain(source)[:-1], annotations)

    def _closing(self, source: Source, function: Any) -> int:
        start = source.offset(function.lineno, function.col_offset)
        end = source.span(function.body[0])[0]
        depth = 0
        # tokenize counts characters, the source bytes: lines are the common measure.
        text = source.data[start:end].decode("utf-8")
        lines = io.StringIO(text).readlines()
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.OP and token.string in "([{":
                    depth += 1
                elif token.type == tokenize.OP and token.string in ")]}":
                    depth -= 1
                    # Type parameters have square brackets.
                    if depth == 0 and token.string == ")":
                        row, column = token.start
                        before = "".join(lines[: row - 1]) + lines[row - 1][:column]
                        return start + len(before.encode())
        except tokenize.TokenError:
            pass
        raise Drift("syntax", f"the parameter list of {self.where} has no closing bracket")

    def _function(self, source: Source) -> Any:
        found = self.scope(source)
        if not isinstance(found, FUNCTIONS):
            raise Drift("scope", f"{self.where} is not a function", source.candidate(found, self.where))
        return found
