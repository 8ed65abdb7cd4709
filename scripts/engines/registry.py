"""A registry on loopback, for tests of pushing: plain HTTP, no users, its data in a folder of its own."""

from dataclasses import dataclass
from pathlib import Path

from launch.nodes.registry import answers
from scripts.engines.packages import program
from scripts.engines.process import Background


@dataclass(frozen=True)
class Registry:
    """A running registry. `address`: host and port, as in front of a repository's name."""

    address: str
    daemon: Background

    def end(self) -> None:
        """End it; its data stays in its folder."""
        self.daemon.end()


def start(folder: Path, port: int) -> Registry:
    """Start a registry with its data below `folder`. Errors: Refused with the last lines of its log."""
    binary = program("docker-registry", "docker-registry")
    folder.mkdir(parents=True, exist_ok=True)
    # Debian's own file asks for a password; nothing of it is read.
    settings = folder / "registry.yml"
    settings.write_text(
        "version: 0.1\n"
        "log: {level: warn}\n"
        f"storage:\n  filesystem: {{rootdirectory: {folder / 'data'}}}\n  delete: {{enabled: true}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    daemon = Background([binary, "serve", str(settings)], folder / "registry.log")
    daemon.wait(lambda: answers(port), 20)
    return Registry(f"127.0.0.1:{port}", daemon)
