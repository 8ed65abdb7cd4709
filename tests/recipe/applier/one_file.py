"""Sources that have one file and no installed tree behind it."""

from recipe.applier.manifest import Manifest


class OneFile:
    """The bytes of one `file`, as a release of this version has it."""

    version = "0.33.0"
    manifest: Manifest | None = None

    def __init__(self, file: str, data: bytes) -> None:
        self.file = file
        self.data = data

    def read(self, file: str) -> bytes | None:
        return self.data if file == self.file else None

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return True

    def files(self) -> list[str]:
        return [self.file]
