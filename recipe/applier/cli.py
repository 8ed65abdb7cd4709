"""The applier's own command line: `python3 applier.pyz plan|apply|unapply|verify --target DIR [--patchset FILE]`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NoReturn

from . import commit, patchset
from .errors import MISMATCH, NOT_DONE, USAGE, ApplierError
from .plan import plan
from .states import refusal
from .tree import Tree

# What a shell calls the end by Ctrl-C.
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Its mistakes have the status of every other mistake in the use of the command."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; prints one JSON document, errors go to standard error. Returns the exit status."""
    parser = _Parser(prog="applier", description=__doc__)
    parser.add_argument("command", choices=["plan", "apply", "unapply", "verify"])
    parser.add_argument("--target", required=True, type=Path, help="a site-packages folder")
    parser.add_argument("--patchset", type=Path, help="a compiled patch set (plan, apply)")
    parser.add_argument("--locked", action="store_true", help="refuse a patch set without a lock (plan, apply)")
    options = parser.parse_args(arguments)
    try:
        return _run(options.command, Tree(options.target.resolve()), options.patchset, options.locked)
    except ApplierError as error:
        return _fail(error)
    except KeyboardInterrupt:
        # What writing had begun is finished or cleared away by now.
        print("applier: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        # Writing tells its own errors, so this was while reading: nothing has changed.
        return _fail(ApplierError(NOT_DONE, f"cannot read: {error.strerror or error}", where=error.filename))


def _run(command: str, tree: Tree, path: Path | None, must_be_locked: bool) -> int:
    if command == "unapply":
        with commit.locked(tree):
            _print({"restored": commit.unapply(tree)})
        return 0
    if command == "verify":
        wrong = commit.verify(tree)
        _print({"valid": not wrong, "reasons": wrong})
        return MISMATCH if wrong else 0
    if path is None:
        raise ApplierError(USAGE, f"{command} needs --patchset FILE")
    if not path.is_file():
        raise ApplierError(USAGE, "there is no such file", where=str(path), hint="name a compiled patch set")
    patches = patchset.loads(path.read_bytes(), str(path))
    if must_be_locked and patches.lock is None:
        message = f"the patch set has no lock for vLLM {patches.vllm}"
        raise ApplierError(NOT_DONE, message, where=str(path), hint="write one with `hallmark relock`")
    if command == "plan":
        _print(plan(tree, patches).to_json())
        return 0
    with commit.locked(tree):
        decided = plan(tree, patches)
        problems = refusal(decided.problems())
        if problems:
            print("\n".join(problems), file=sys.stderr)
            return NOT_DONE
        written = commit.apply(tree, decided)
    _print({**decided.to_json(), "written": written})
    return 0


def _fail(error: ApplierError) -> int:
    where = f"{error.where}: " if error.where else ""
    hint = f" — {error.hint}" if error.hint else ""
    print(f"applier: {where}{error.message}{hint}", file=sys.stderr)
    return error.exit


def _print(document: object) -> None:
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    raise SystemExit(main())
