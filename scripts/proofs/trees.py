"""Source trees to run a proof with: hard-linked copies of an installed vLLM, changed, to be put first on PYTHONPATH.

A copy holds vLLM alone; all else comes from where vLLM came from. Files are only ever replaced, so the installed
package stays as it is.
"""

import base64
import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

NIGHTLY = "0.23.1rc1.dev788"
"""The nightly of the report: what a tree with the arguments taken out is labelled, so that the patches for it plan."""
QUANT_MODES = {
    "main": ("vllm/models/deepseek_v4/attention.py", "kv_quant_mode=get_kv_quant_mode(self.kv_cache_dtype),"),
    "swa": (
        "vllm/v1/attention/backends/mla/sparse_swa.py",
        "kv_quant_mode=get_kv_quant_mode(self.cache_config.cache_dtype),",
    ),
}
"""Where the two cache specs are given their quantisation mode, and with what text, in 0.26.0."""
_IMPORTED = "get_kv_quant_mode"


def copy(site: Path, tree: Path) -> None:
    """Hard-link the vLLM that is installed in `site` to `tree`, compiled modules included."""
    for top in [site / "vllm", *site.glob("vllm-*.dist-info")]:
        for folder, _, files in os.walk(top):
            target = tree / Path(folder).relative_to(site)
            target.mkdir(parents=True, exist_ok=True)
            for name in files:
                os.link(Path(folder) / name, target / name)


def remove_quant_modes(tree: Path, which: list[str]) -> None:
    """Take the arguments `which` out of `tree`, with their import where it is then unused, as the nightly was.

    RECORD and the version follow, so the tree is one that was installed so. Errors: ValueError when a text is not
    there exactly once.
    """
    dist_info = next(tree.glob("vllm-*.dist-info"))
    changed = {}
    for name in which:
        file, argument = QUANT_MODES[name]
        source = (tree / file).read_text(encoding="utf-8")
        if source.count(argument) != 1:
            raise ValueError(f"{file}: {argument!r} is there {source.count(argument)} times, not once")
        lines = [line for line in source.splitlines(keepends=True) if line.strip() != argument]
        if "".join(lines).count(_IMPORTED) == 1:
            lines = [line for line in lines if line.strip() != f"{_IMPORTED},"]
        changed[file] = "".join(lines).encode()
    metadata = f"{dist_info.name}/METADATA"
    text = (tree / metadata).read_text(encoding="utf-8")
    version = next(line for line in text.splitlines() if line.startswith("Version: "))
    changed[metadata] = text.replace(version, f"Version: {NIGHTLY}", 1).encode()
    for file, data in changed.items():
        _replace(tree / file, data)
    _record(dist_info / "RECORD", changed)


def apply(tree: Path, applier: Path, patchset: Path) -> str:
    """Apply a compiled patch set with the packed applier; returns its report. Errors: RuntimeError with its refusal."""
    command = [sys.executable, str(applier), "apply", "--target", str(tree), "--patchset", str(patchset)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"applier: exit status {done.returncode}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    return f"patch set {report['patchset'][:8]}: {', '.join(report['patches'])}"


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.rename(path)


def _record(path: Path, changed: dict[str, bytes]) -> None:
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    for row in rows:
        if row[0] in changed:
            data = changed[row[0]]
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            row[1:] = [f"sha256={digest}", str(len(data))]
    part = path.with_name(".RECORD.part")
    with part.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(rows)
    part.rename(path)
