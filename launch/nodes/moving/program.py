"""Runs one action, as a program of its own on a node: standard library only.

Actions: `list REPOSITORY REVISION` (of the model hub), `scan FOLDER`, `look FOLDER` (free bytes and what is there
already of a manifest), `get FOLDER` (a manifest's files), `serve FOLDER ADDRESS`. A manifest comes and goes as one line
of JSON: `repository`, `revision`, `files` (`path`, `size` in bytes, `sha256`, or `sha1` of a git blob); for `get` also
`base`, the address in front of each path.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

from launch.nodes.moving.fetch import get
from launch.nodes.moving.hub import listing
from launch.nodes.moving.look import look, scan
from launch.nodes.moving.serve import serve
from launch.nodes.moving.told import Failed, tell


def _run(action: str, words: list[str]) -> None:
    if action == "list":
        tell({"manifest": listing(*words)})
        return
    folder = Path(words[0]).expanduser()
    if action == "scan":
        tell({"manifest": scan(folder)})
    elif action == "serve":
        serve(folder, words[1])
    elif action == "look":
        tell({"look": look(folder, json.loads(sys.stdin.readline()))})
    else:
        get(folder, json.loads(sys.stdin.readline()))
        tell({"ok": True})


def main() -> int:
    """Run one action; what ends it is told as `error` with its kind."""
    try:
        _run(sys.argv[1], sys.argv[2:])
    except BrokenPipeError:
        # Nobody listens: whoever asked is gone. What is here stays for the next attempt.
        os._exit(1)
    except Failed as error:
        tell({"error": {"kind": error.kind, "message": str(error), "hint": error.hint}})
        return 1
    except OSError as error:
        _out_of_order(error)
        return 1
    return 0


def _out_of_order(error: OSError) -> None:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "make room and run it again, it goes on there" if full else "see what is there, and who owns that folder"
    # Of a file that was to get its name, what stands there under that is in the way.
    message = f"{error.filename2 or error.filename or 'the folder'}: {error.strerror or error}"
    tell({"error": {"kind": "refused", "message": message, "hint": hint}})
