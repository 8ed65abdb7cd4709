"""Expectations hold on the released sources, and each notices when its line is another."""

from collections.abc import Iterable

import pytest

from recipe.applier.manifest import Manifest
from recipe.applier.plan import plan
from recipe.catalogue import releases
from recipe.catalogue.compile import PATCHES, compile_patches, load_patch, series
from recipe.catalogue.released import Released, sources

pytestmark = pytest.mark.wheel

DSPARK = "vllm/models/deepseek_v4/nvidia/dspark.py"
RIGHT = 'return f"model.layers.{stage}.{rest}"'
WRONG = 'return f"model.layers.{self.config.num_hidden_layers + stage}.{rest}"'
MAIN = "            kv_quant_mode=get_kv_quant_mode(self.kv_cache_dtype),\n"
WINDOW = "            kv_quant_mode=get_kv_quant_mode(self.cache_config.cache_dtype),\n"
BROKEN = {
    "expect-dspark-stage-remap": (DSPARK, RIGHT, WRONG),
    "expect-dspark-full-vocabulary": (DSPARK, "    draft_id_to_target_id = None\n", ""),
    "expect-dspark-strict-experts": (DSPARK, "params_dict[name_mapped]", "params_dict.get(name_mapped)"),
    "expect-dsv4-main-kv-quant-mode": ("vllm/models/deepseek_v4/attention.py", MAIN, ""),
    "expect-dsv4-swa-kv-quant-mode": ("vllm/v1/attention/backends/mla/sparse_swa.py", WINDOW, ""),
}


class Changed:
    """A release with one text changed."""

    manifest: Manifest | None = None

    def __init__(self, release: Released, file: str, old: str, new: str) -> None:
        self.release, self.file, self.old, self.new = release, file, old.encode(), new.encode()
        self.version = release.version

    def read(self, file: str) -> bytes | None:
        data = self.release.read(file)
        if data is None or file != self.file:
            return data
        assert self.old in data
        return data.replace(self.old, self.new)

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return self.release.pristine_by_release(file, data)

    def files(self) -> Iterable[str]:
        return self.release.files()


def test_every_expectation_of_the_catalogue_is_looked_at() -> None:
    expectations = [id for id in series() if load_patch(PATCHES / f"{id}.yaml").value.class_ == "expectation"]
    assert expectations == list(BROKEN)


@pytest.mark.parametrize("id", BROKEN)
def test_an_expectation_is_met_by_the_release_and_not_by_one_without_its_line(id: str) -> None:
    released = sources(releases.find("0.26.0"))
    patchset = compile_patches([(load_patch(PATCHES / f"{id}.yaml"), True)], released.version)
    assert plan(released, patchset).patches[0].state == "upstreamed"
    planned = plan(Changed(released, *BROKEN[id]), patchset)
    assert planned.patches[0].state == "drift:expectation"
    assert planned.problems()
