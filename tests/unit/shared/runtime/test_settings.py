"""Settings: where values come from, and what is said when they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, SecretStr, ValidationError, model_validator

from shared.permissions import ToolGroup
from shared.runtime.settings import (
    HiveLabel,
    HiveTokenFile,
    HiveToolGroups,
    Port,
    SharedSettings,
    UnitSettings,
    list_variables,
    load_settings,
    unit_config,
)

SECRET = "planted-secret-4711"


class Settings(UnitSettings):
    model_config = unit_config("HIVE_TEST_")

    label: HiveLabel = Field(description="the agent's name")
    port: Port = 7100
    max_pending: int = Field(default=1000, ge=1)
    password: SecretStr | None = None
    mode: Literal["one", "two"] = "one"
    home: Annotated[str, Field(validation_alias="HOME_OF_TEST")] = "none"
    tool_groups: HiveToolGroups = None

    @model_validator(mode="after")
    def _no_seven(self) -> Settings:
        if self.max_pending == 7:
            raise ValueError("HIVE_TEST_MAX_PENDING must not be 7")
        return self


class Both(UnitSettings, SharedSettings):
    model_config = unit_config("HIVE_BOTH_")

    limit: int = 3
    token_file: HiveTokenFile


@pytest.fixture(autouse=True)
def _only_label(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HIVE_ROOT",
        "HIVE_URL",
        "HIVE_TOKEN_FILE",
        "HIVE_STATE_DIR",
        "HIVE_TOOL_GROUPS",
        "HIVE_LOG_LEVEL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HIVE_LABEL", "iris")


def complaint(capsys: pytest.CaptureFixture[str], cls: type[UnitSettings] = Settings) -> str:
    with pytest.raises(SystemExit) as caught:
        load_settings(cls)
    assert caught.value.code == 3
    return capsys.readouterr().err


def test_prefix_shared_and_named_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_TEST_PORT", "7321")
    monkeypatch.setenv("HIVE_TEST_PASSWORD", SECRET)
    monkeypatch.setenv("HOME_OF_TEST", "here")
    monkeypatch.setenv("HIVE_TOOL_GROUPS", "messaging, inbox,")

    settings = load_settings(Settings)

    assert (settings.label, settings.port, settings.home) == ("iris", 7321, "here")
    assert settings.tool_groups == frozenset({ToolGroup.MESSAGING, ToolGroup.INBOX})
    assert SECRET not in repr(settings)


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_TEST_PORT", "")
    monkeypatch.setenv("HIVE_TOOL_GROUPS", "")

    assert load_settings(Settings).port == 7100
    assert load_settings(Settings).tool_groups is None


def test_field_names_are_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL", "iona")
    monkeypatch.setenv("PORT", "1")
    monkeypatch.setenv("hive_test_port", "1")

    settings = load_settings(Settings)

    assert (settings.label, settings.port) == ("iris", 7100)


def test_settings_are_frozen_and_can_be_given_in_code() -> None:
    settings = Settings(label="iona", port=1, home="there")

    assert (settings.label, settings.port, settings.home) == ("iona", 1, "there")
    with pytest.raises(ValidationError):
        settings.port = 2
    with pytest.raises(ValidationError):
        Settings(label="iona", prot=1)  # type: ignore[call-arg]


def test_a_mistyped_variable_is_refused_with_the_near_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIVE_TEST_MAX_PENDNG", "5")
    monkeypatch.setenv("HIVE_TEST_QQ", "5")

    text = complaint(capsys)

    assert "HIVE_TEST_MAX_PENDNG: unknown setting; did you mean HIVE_TEST_MAX_PENDING?" in text
    assert "HIVE_TEST_QQ: unknown setting; known: HIVE_LABEL, HIVE_TEST_" in text


def test_the_shared_prefix_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_BROKER_PORT", "7000")
    monkeypatch.setenv("HIVE_SOMETHING", "x")

    assert load_settings(Settings).label == "iris"
    assert load_settings(SharedSettings).label == "iris"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("HIVE_TEST_PORT", SECRET, "HIVE_TEST_PORT (field port): Input should be a valid integer"),
        (
            "HIVE_TEST_PORT",
            "70000",
            "HIVE_TEST_PORT (field port): Input should be less than or equal to 65535",
        ),
        ("HIVE_TEST_MODE", SECRET, "HIVE_TEST_MODE (field mode): Input should be 'one' or 'two'"),
        ("HIVE_LABEL", "../x", "HIVE_LABEL (field label): must be 1 to 32 of a-z"),
        ("HIVE_LABEL", "", "HIVE_LABEL (field label): is not set; expected: the agent's name"),
        ("HIVE_TOOL_GROUPS", "mesaging", "unknown group mesaging; the groups are messaging, meta,"),
        ("HIVE_TEST_MAX_PENDING", "7", "HIVE_TEST_MAX_PENDING must not be 7"),
    ],
)
def test_wrong_values_name_variable_field_and_expectation_never_the_value(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    expected: str,
) -> None:
    monkeypatch.setenv(variable, value)

    text = complaint(capsys)

    assert expected in text
    assert SECRET not in text


def test_all_faults_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIVE_TEST_PORT", "x")
    monkeypatch.setenv("HIVE_TEST_MODE", "x")

    text = complaint(capsys)

    assert "HIVE_TEST_PORT" in text
    assert "HIVE_TEST_MODE" in text


@pytest.mark.parametrize("url", ["http://127.0.0.1:7000", "https://hive.example/", "http://[::1]:7000"])
def test_broker_urls(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HIVE_URL", url)

    assert load_settings(SharedSettings).url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:7000",
        "ftp://x",
        "http://u:planted@x:1",
        "http://x/path",
        "http://x:port",
        "http://",
        "http://x?q=1",
    ],
)
def test_what_is_no_broker_url_is_refused_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    monkeypatch.setenv("HIVE_URL", url)
    monkeypatch.setenv("HIVE_TOKEN_FILE", "token")

    text = complaint(capsys, Both)

    assert "HIVE_URL (field url): must be http://HOST:PORT" in text
    assert "planted" not in text


def test_paths_are_absolute_and_a_linked_root_is_resolved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIVE_ROOT", str(tmp_path / "link"))
    monkeypatch.setenv("HIVE_TOKEN_FILE", "token")

    settings = load_settings(Both)

    assert settings.root == tmp_path / "real"
    assert settings.token_file == tmp_path / "token"


def test_a_unit_may_combine_its_own_and_all_shared_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_BOTH_LIMIT", "4")
    monkeypatch.setenv("HIVE_TOKEN_FILE", "/t")

    settings = load_settings(Both)

    assert (settings.limit, settings.label) == (4, "iris")


def test_variables_can_be_listed_for_the_env_examples() -> None:
    assert [name for name, _ in list_variables(Settings)] == [
        "HIVE_LABEL",
        "HIVE_TEST_PORT",
        "HIVE_TEST_MAX_PENDING",
        "HIVE_TEST_PASSWORD",
        "HIVE_TEST_MODE",
        "HOME_OF_TEST",
        "HIVE_TOOL_GROUPS",
    ]
