"""Where a rank runs: a node and the engine on it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A node's `name`, for messages; its `address`, `local` or what is given to ssh; its engine's socket when it is
    not the default one."""

    name: str
    address: str
    docker_host: str | None = None

    @property
    def local(self) -> bool:
        return self.address == "local"

    def docker(self, *words: str) -> tuple[str, ...]:
        """The docker command with these words, as it is run on the node."""
        return ("docker", *(("--host", self.docker_host) if self.docker_host else ()), *words)
