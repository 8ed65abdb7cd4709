"""What a base says is installed in it."""

from pathlib import Path

from recipe.image.inside.about import about


def test_what_a_removal_left_behind_hides_nothing(tmp_path: Path) -> None:
    for name, text in (("vllm-0.33.0", "Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n"), ("~orch-2.14.0", "")):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info" / "METADATA").write_text(text)
    assert about(tmp_path)["vllm"] == "vllm"
