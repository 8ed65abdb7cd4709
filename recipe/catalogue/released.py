"""The sources of a listed release: from the store, or fetched, compared with the pinned sha256, and harvested."""

import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recipe.applier.manifest import Manifest
from recipe.applier.tree import record_hash, record_rows
from recipe.catalogue import wheels
from recipe.catalogue.releases import Release
from recipe.catalogue.store import Store
from recipe.config import paths
from recipe.errors import Mismatch


class Released:
    """The files of one release as `Sources` of a plan; all its bytes are those of the pinned wheel."""

    manifest: Manifest | None = None

    def __init__(self, release: Release, store: Store, files: dict[str, str]) -> None:
        self.release = release
        self.version = release.version
        self.distribution = release.distribution
        self._store = store
        self._kept = files
        record = next(digest for path, digest in files.items() if path.endswith(".dist-info/RECORD"))
        self._rows = record_rows(store.get(record))

    def read(self, file: str) -> bytes | None:
        if file not in self._rows:
            return None
        if file not in self._kept:
            # Of a kind that is not kept unasked: from now on it is.
            _harvest(self.release, self._store, extra=file)
            self._kept = self._store.files(self.release.sha256)
        return self._store.get(self._kept[file])

    def files(self) -> Iterable[str]:
        return self._rows

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return self._rows.get(file) == (record_hash(data), str(len(data)))


def sources(release: Release, *, keep_wheel: bool = False) -> Released:
    """The sources of a release; fetches its wheel when they are not in the cache, and deletes it unless it is to stay.

    Errors: Unreachable when pip cannot fetch it; Mismatch when a wheel is not the pinned one.
    """
    store = Store(paths.cache() / "sources.sqlite")
    files = store.files(release.sha256)
    if not files:
        _harvest(release, store, keep_wheel=keep_wheel)
        files = store.files(release.sha256)
    return Released(release, store, files)


def _harvest(release: Release, store: Store, *, extra: str | None = None, keep_wheel: bool = False) -> None:
    with _wheel(release, keep_wheel) as path, zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py") or ".dist-info/" in name or name == extra]
        store.put(release.sha256, archive, names)


@contextmanager
def _wheel(release: Release, keep: bool) -> Iterator[Path]:
    """The pinned wheel as a file; one that was not in the cache is deleted behind unless `keep`."""
    kept = paths.cache() / "wheels"
    found = wheels.cached(kept, release.version, release.distribution)
    if found is not None:
        _verify(found, release)
        yield found
        return
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        print(f"fetching {release.distribution} {release.version}", file=sys.stderr)
        fetched = wheels.fetch(Path(folder), release.version, release.distribution, release.sha256)
        _verify(fetched, release)
        if keep:
            fetched = fetched.rename(kept / fetched.name)
        yield fetched


def _verify(path: Path, release: Release) -> None:
    found = wheels.digest(path)
    if found != release.sha256:
        raise Mismatch(
            f"is not the released wheel of {release.name}: sha256 {found[:12]}, pinned {release.sha256[:12]}",
            where=str(path),
            hint="delete the file, or correct configs/releases.yaml",
        )
