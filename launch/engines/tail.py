"""Following a log that a rank of this machine writes itself."""

from pathlib import Path

from launch.plan.place import Place


def ending(name: str, logs: Path, lines: int, pid: int | None) -> tuple[Place, tuple[str, ...]]:
    """As `tail`, of a rank whose main process is known: it ends with that, and at once where there is none."""
    until = ("-F", f"--pid={pid}") if pid is not None else ()
    return Place(name, "local"), ("tail", "-n", str(lines), *until, "--", str(logs / f"{name}.log"))


def tail(name: str, logs: Path, lines: int) -> tuple[Place, tuple[str, ...]]:
    """Where and how it is read, as Engine.follow says; a file that is begun anew, or not there yet, is followed too."""
    script = 'exec tail -n "$1" -F -- "$2" 2>/dev/null'
    return Place(name, "local"), ("sh", "-c", script, "sh", str(lines), str(logs / f"{name}.log"))
