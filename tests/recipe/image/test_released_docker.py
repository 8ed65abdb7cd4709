"""Builds on all that a release's wheel has, with real dependencies: what is wrong is refused with the profile's lines.

The base differs from a release's own image in what `scripts.bases.vllm.released` says.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from recipe.catalogue.wheels import wheel
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit
from scripts.bases import archive
from scripts.engines.engine import Engine
from tests.recipe.image.building import build, tags

pytestmark = pytest.mark.docker
_SITE = "/usr/local/lib/python3.11/dist-packages"
_HELPER = "get_safetensors_params_metadata"
# The files of 0.33.0 that name the helper.
_USERS = (
    "vllm/model_executor/layers/quantization/auto_awq.py",
    "vllm/model_executor/layers/quantization/auto_gptq.py",
    "vllm/transformers_utils/config.py",
    "vllm/transformers_utils/model_arch_config_convertor.py",
)


def changed(folder: Path, **lines: str) -> tuple[str, dict[str, int]]:
    """A copy of the profile for H200 with other lines for these keys, and the number of each of them."""
    text = (CHECKOUT / "configs/profiles/h200-fp8-dspark.yaml").read_text().splitlines()
    numbers = {}
    for key, line in lines.items():
        [at] = [at for at, old in enumerate(text) if old.strip().startswith(f"{key.replace('_', '-')}: ")]
        text[at] = line
        numbers[key] = at + 1
    (folder / "wrong.yaml").write_text("\n".join(text) + "\n")
    return str(folder / "wrong.yaml"), numbers


def test_a_flag_that_the_release_lacks_and_a_value_of_another_type_end_the_build_with_their_lines(
    engine: Engine, released_base: archive.Base, without_pins: Path, tmp_path: Path
) -> None:
    profile, lines = changed(tmp_path, block_size="  blocksize: 256", max_model_len="  max-model-len: many")
    before = tags(engine)
    result = build(engine, profile, "--base", released_base.reference, home=without_pins)
    assert result.status == Exit.USAGE, result.told
    said = result.document["error"]["message"].splitlines()
    assert [line.partition("wrong.yaml:")[2] for line in said[:-1]] == [
        f"{lines['block_size']}: serve.blocksize: this vLLM has no --blocksize — did you mean --block-size?",
        f"{lines['max_model_len']}: serve.max-model-len: invalid human_readable_int_or_auto value: 'many' — correct it",
    ]
    assert tags(engine) == before


@pytest.fixture
def worse(engine: Engine, released_base: archive.Base, tmp_path: Path) -> Iterator[str]:
    """The base as a later release could be: a helper has another name, and one library has no code for any GPU."""
    released = wheel("0.33.0")
    files = {file: released.read(file) or b"" for file in _USERS}
    assert all(_HELPER.encode() in data for data in files.values())
    files = {file: data.replace(_HELPER.encode(), b"safetensors_metadata") for file, data in files.items()}
    files["vllm/_moe_C_stable_libtorch.abi3.so"] = released.read("vllm/spinloop.abi3.so") or b""
    reference = "localhost/worse:1"
    made = engine.docker("create", "--network=none", released_base.reference, "true").stdout.strip()
    for file, data in files.items():
        (tmp_path / "file").write_bytes(data)
        engine.docker("cp", str(tmp_path / "file"), f"{made}:{_SITE}/{file}")
    engine.docker("commit", made, reference)
    engine.docker("rm", made)
    yield reference
    engine.docker("image", "rm", "--force", reference)


def test_all_that_is_wrong_with_an_image_is_told_at_once_with_the_lines_of_the_profile(
    engine: Engine, worse: str, tmp_path: Path
) -> None:
    profile, lines = changed(
        tmp_path,
        kv_cache_dtype="  kv-cache-dtype: nvfp5",
        required="  required: [dspark-load-guards, dsv4-expert-dispatch]",
    )
    before = tags(engine)
    result = build(engine, profile, "--base", worse)
    assert result.status == Exit.NOT_DONE, result.told
    said = result.document["error"]["message"]
    assert "check versions: torch: 2.13.0+cpu, vLLM needs 2.14.0 — use the base image of this release" in said
    assert (
        "check extensions: vllm/_moe_C_stable_libtorch.abi3.so: has code for no GPU only, the hardware is 9.0" in said
    )
    assert f"wrong.yaml:{lines['kv_cache_dtype']}: serve.kv-cache-dtype: " in said
    assert "did you mean nvfp4?" in said
    imports = [line for line in said.splitlines() if line.startswith("check imports: ")]
    assert len(imports) == 1, said
    place = f"wrong.yaml:{lines['required']}: patches.required: dsv4-expert-dispatch, vllm/hallmark_dsv4_experts.py: "
    assert f"{place}does not import: ImportError: cannot import name '{_HELPER}'" in imports[0]
    assert tags(engine) == before
