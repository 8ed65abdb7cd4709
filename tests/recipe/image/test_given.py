"""Which secrets a build looks for: those of the shell, of the profile, and of the files that pip and docker read."""

import base64
import json
from pathlib import Path

import pytest

from recipe.image import given
from recipe.image.leaks import forms

TOKEN = "hf_TESTtoken0123456789"
LOGIN = base64.b64encode(f"user:{TOKEN}".encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{TOKEN}@index.example/simple",
        f"https://{TOKEN}@index.example/simple",
        f"https://{TOKEN}:@index.example/simple",
        f"https://{TOKEN}:x-oauth-basic@github.example/team/wheels",
        f"https://{TOKEN}:x@index.example/simple",
        f"git+https://x-access-token:{TOKEN}@github.example/team/wheels.git",
        f"https://one.example/simple https://{TOKEN}@two.example/simple",
        f"https://blobs.example/wheels?private_token={TOKEN}&page=2",
        f"https://blobs.example/wheels?X-Amz-Expires=60&X-Amz-Signature={TOKEN}",
        f"https://blobs.example/wheels?sv=2024-11-04&sig={TOKEN}",
        f"Authorization: Bearer {TOKEN}",
        f"http.extraheader=AUTHORIZATION: bearer {TOKEN}",
        f"authorization: token {TOKEN}",
    ],
)
def test_b9_a_secret_in_an_address_or_a_header_is_found_whatever_the_variable_is_called(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SETTING", text)
    assert given.known({})["SOME_SETTING"] == TOKEN


@pytest.mark.parametrize(
    "text",
    [
        "https://index.example/simple/with-a-long-path",
        "ssh://deployment-user@host.example",
        "git+ssh://deployment-user@host.example/team/wheels.git",
        "https://x-access-token@github.example",
        "https://x-token-auth@bitbucket.example",
        '["https://index.example/simple","somebody@index.example"]',
        "https://oauth2accesstoken:short@registry.example",
        "https://blobs.example/wheels?sort_key=creation-date&page=1234567890123",
        "user@long-name.example:a-long-password-like-path",
        "bearer of bad news",
        "https://[bad",
        '{"auths": {"registry.example": 3}}',
    ],
)
def test_what_everybody_may_know_is_no_secret(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SETTING", text)
    assert [name for name in given.known({}) if name.startswith("SOME_SETTING")] == []


def test_b9_a_login_in_base64_counts_as_it_is_written_and_as_the_password_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = json.dumps({"auths": {"registry.example": {"auth": LOGIN}}})
    for text in (f"Authorization: Basic {LOGIN}", document):
        monkeypatch.setenv("SOME_SETTING", text)
        assert {LOGIN, TOKEN} <= set(given.known({}).values()), text


def test_b9_what_pip_docker_and_the_model_hub_read_by_themselves_counts_with_the_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "config.json": json.dumps({"auths": {"registry.example": {"auth": LOGIN}}}),
        "pip.conf": f"[global]\nextra-index-url =\n    https://{TOKEN}-pip@index.example/simple\n",
        "token": f"{TOKEN}-hub\n",
        "netrc": f"machine index.example\nlogin me\npassword {TOKEN}-netrc\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for variable, file in (("DOCKER_CONFIG", ""), ("PIP_CONFIG_FILE", "pip.conf"), ("HF_HOME", ""), ("NETRC", "netrc")):
        monkeypatch.setenv(variable, str(tmp_path / file))
    found = given.known({})
    assert (found[str(tmp_path / "config.json")], found[f"{tmp_path}/config.json (2)"]) == (LOGIN, TOKEN)
    for name, end in (("pip.conf", "pip"), ("token", "hub"), ("netrc", "netrc")):
        assert found[str(tmp_path / name)] == f"{TOKEN}-{end}"


@pytest.mark.parametrize("password", [f"with,comma;{TOKEN}", f"it's-{TOKEN}"])
def test_b9_a_password_may_have_marks_that_else_end_an_address(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SETTING", f"https://one.example/simple,https://user:{password}@two.example/simple")
    assert given.known({})["SOME_SETTING"] == password


def test_b9_a_file_of_another_encoding_or_with_a_mistake_hides_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip, logins, key = (tmp_path / name for name in ("pip.conf", "netrc", "key"))
    pip.write_bytes(f"# Müller\nindex-url = https://user:{TOKEN}@index.example\n".encode("latin-1"))
    logins.write_text(f"machine a.example login me password {TOKEN}-netrc\nmachine\nsomething else\n")
    key.write_bytes(b"\xff\xfe-is-no-UTF-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(pip))
    monkeypatch.setenv("NETRC", str(logins))
    found = given.known({"A": f"file:{key}"})
    assert (found[str(pip)], found[str(logins)]) == (TOKEN, f"{TOKEN}-netrc")
    assert key.read_bytes() in forms(found["A"])


def test_b9_what_a_profiles_references_lead_to_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("OTHER", f"{TOKEN}-other")
    found = given.known({"A": f"file:{tmp_path}/key", "B": "env:OTHER", "C": f"file:{tmp_path}/nothing", "D": TOKEN})
    assert (found["A"], found["B"], "C" in found, "D" in found) == (TOKEN, f"{TOKEN}-other", False, False)


def test_what_is_short_would_be_found_by_chance_and_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "short")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:short@index.example")
    assert not {"HF_TOKEN", "PIP_INDEX_URL"} & set(given.known({}))
