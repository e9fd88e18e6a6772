"""What `up` was asked for: whose word counts, what is checked, and what is left after a refusal."""

import os
import socket
import stat
from pathlib import Path

import pytest

from services.hivectl.provision import HiveSettings, ensure_hive_files, find_settings, save_settings
from services.hivectl.supervisor.request import UpRequest, build_request, prepare_files, settle_plan
from shared.errors import InvalidInput, Misconfigured
from shared.layout import HiveLayout, PortPlan
from tests.support.ports import find_port_base


@pytest.fixture
def root(tmp_path: Path) -> Path:
    ensure_hive_files(HiveLayout(tmp_path))
    return tmp_path


@pytest.fixture
def base() -> int:
    return find_port_base()


def ask(
    root: Path, *, agents: tuple[str, ...] = (), base: int | None = None, url: str | None = None
) -> UpRequest:
    return build_request(root=root, agents=agents, port_base=base, nats_url=url, hive_name=None)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("name", ["..", "A/b", "", "operator", "hyperhive", "x" * 33, "iris\n", "ïris"])
def test_a_name_that_is_none_is_refused(root: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="--agent"):
        ask(root, agents=(name,))


def test_a_root_that_is_not_utf8_is_refused(root: Path) -> None:
    with pytest.raises(InvalidInput, match="UTF-8"):
        ask(root / os.fsdecode(b"\xff"))


@pytest.mark.parametrize("number", [0, -1, 65_301, 70_000])
def test_a_port_base_without_room_for_agents_is_refused(root: Path, number: int) -> None:
    with pytest.raises(InvalidInput, match="--port-base"):
        settle_plan(ask(root, base=number), {})


def test_what_was_said_is_kept_and_a_setting_comes_between(root: Path, base: int) -> None:
    save_settings(HiveLayout(root), HiveSettings(port_base=base, hive_name="kept"))
    plan, listeners = settle_plan(ask(root), {})
    listeners.close_all()
    assert (plan.settings.port_base, plan.settings.hive_name) == (base, "kept")

    plan, listeners = settle_plan(ask(root), {"HIVE_BROKER_HIVE_NAME": "from-setting"})
    listeners.close_all()
    assert plan.settings.hive_name == "from-setting"

    request = build_request(root=root, agents=(), port_base=None, nats_url=None, hive_name="said")
    plan, listeners = settle_plan(request, {"HIVE_BROKER_HIVE_NAME": "from-setting"})
    listeners.close_all()
    assert plan.settings.hive_name == "said"
    assert find_settings(HiveLayout(root)) == HiveSettings(port_base=base, hive_name="said")


def test_a_setting_that_is_no_name_is_refused(root: Path, base: int) -> None:
    with pytest.raises(Misconfigured, match="HIVE_BROKER_HIVE_NAME"):
        settle_plan(ask(root, base=base), {"HIVE_BROKER_HIVE_NAME": "No Name"})


def test_an_argument_that_is_no_name_is_refused_as_one(root: Path) -> None:
    with pytest.raises(InvalidInput, match="--hive-name"):
        build_request(root=root, agents=(), port_base=None, nats_url=None, hive_name="No Name")


@pytest.mark.parametrize(
    ("owner", "offset"), [("broker", 0), ("nats", 22), ("hyperhive of a new agent", 110)]
)
def test_a_port_that_is_taken_is_found_before_anything_starts(
    root: Path, base: int, owner: str, offset: int
) -> None:
    with (
        socket.create_server(("127.0.0.1", base + offset)),
        pytest.raises(
            Misconfigured, match=rf"^{owner}: port {base + offset} is taken.*--port-base"
        ) as caught,
    ):
        settle_plan(ask(root, agents=("iris",), base=base), {})
    assert caught.value.code == "port_taken"
    assert find_settings(HiveLayout(root)) is None
    assert is_free(base)


def test_sockets_of_known_agents_are_bound_at_once(root: Path, base: int) -> None:
    iris = HiveLayout(root).agent("iris")
    iris.home.mkdir()
    url = f"http://127.0.0.1:{PortPlan(base).surface(3, 'hyperhive')}/mcp"
    iris.mcp_config.write_text(f'{{"mcpServers": {{"hyperhive": {{"url": "{url}"}}}}}}')
    save_settings(HiveLayout(root), HiveSettings(port_base=base))
    _, listeners = settle_plan(ask(root), {})
    assert not is_free(PortPlan(base).surface(3, "hyperhive"))
    listeners.close_all()


def test_a_server_elsewhere_needs_no_program_and_no_port(root: Path, base: int) -> None:
    with socket.create_server(("127.0.0.1", base + 22)):
        plan, listeners = settle_plan(ask(root, base=base, url="nats://127.0.0.1:4222"), {})
        listeners.close_all()
    assert plan.nats_program is None
    assert plan.nats.broker_settings == {"HIVE_BROKER_NATS_URL": "nats://127.0.0.1:4222"}


ELSEWHERE = "nats://127.0.0.1:4222"
CREDENTIALS = {"HIVE_BROKER_NATS_USER": "hive", "HIVE_BROKER_NATS_PASSWORD_FILE": "/run/hive.password"}


def settle(root: Path, environ: dict[str, str], *, base: int, url: str | None = None) -> dict[str, str]:
    """What a broker is told of NATS by an `up`."""
    plan, listeners = settle_plan(ask(root, base=base, url=url), environ)
    listeners.close_all()
    return dict(plan.nats.broker_settings)


def test_a_server_elsewhere_is_kept_with_its_credentials_until_another_is_named(
    root: Path, base: int
) -> None:
    first = settle(root, CREDENTIALS, base=base, url=ELSEWHERE)
    assert first == {"HIVE_BROKER_NATS_URL": ELSEWHERE, **CREDENTIALS}
    assert settle(root, {}, base=base) == first
    moved = {"HIVE_BROKER_NATS_PASSWORD_FILE": "/run/moved"}
    assert settle(root, moved, base=base) == first | moved
    assert settle(root, {}, base=base) == first | moved
    # Who we are at one server is nobody else's business.
    other = "nats://127.0.0.1:4223"
    assert settle(root, {}, base=base, url=other) == {"HIVE_BROKER_NATS_URL": other}
    assert settle(root, {}, base=base) == {"HIVE_BROKER_NATS_URL": other}


def test_the_embedded_server_comes_back_when_it_is_named_and_is_kept_too(root: Path, base: int) -> None:
    settle(root, CREDENTIALS, base=base, url=ELSEWHERE)
    own = f"nats://127.0.0.1:{PortPlan(base).nats}"
    assert settle(root, {"HIVE_BROKER_NATS_URL": ELSEWHERE}, base=base, url="embedded") == settle(
        root, {}, base=base
    )
    assert settle(root, {}, base=base)["HIVE_BROKER_NATS_URL"] == own


def test_a_server_that_only_the_environment_names_is_not_kept(root: Path, base: int) -> None:
    environ = {"HIVE_BROKER_NATS_URL": "nats://127.0.0.1:4224"}
    assert settle(root, environ, base=base) == environ
    assert settle(root, {}, base=base)["HIVE_BROKER_NATS_URL"] == f"nats://127.0.0.1:{PortPlan(base).nats}"
    settle(root, CREDENTIALS, base=base, url=ELSEWHERE)
    assert settle(root, environ, base=base) == environ
    assert settle(root, {}, base=base) == {"HIVE_BROKER_NATS_URL": ELSEWHERE, **CREDENTIALS}


def test_prepare_keeps_a_server_elsewhere_too(root: Path, base: int) -> None:
    prepare_files(ask(root, base=base, url=ELSEWHERE), {"HIVE_BROKER_NATS_URL": "nats://elsewhere:1"})
    assert prepare_files(ask(root), {})[1].broker_settings == {"HIVE_BROKER_NATS_URL": ELSEWHERE}
    assert prepare_files(ask(root, url="embedded"), {})[1].config is not None


NO_SERVERS = ["nats://user:pw@host:4222", "http://host:1", "nats://host:99999999", "nats://[", "nats://a b"]


@pytest.mark.parametrize("url", [*NO_SERVERS, ""])
def test_what_is_no_server_is_refused_and_no_password_repeated(root: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--nats-url must look like") as caught:
        ask(root, url=url)
    assert "pw" not in caught.value.message


@pytest.mark.parametrize("url", NO_SERVERS)
def test_a_setting_that_is_no_server_is_a_wrong_setting(root: Path, base: int, url: str) -> None:
    with pytest.raises(Misconfigured, match=r"^HIVE_BROKER_NATS_URL must look like") as caught:
        settle_plan(ask(root, base=base), {"HIVE_BROKER_NATS_URL": url})
    assert "pw" not in caught.value.message


def test_another_nats_server_can_be_named(root: Path, base: int) -> None:
    program = root / "my nats"
    program.write_text("#!/bin/sh\necho nats-server: v2.16.0\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    plan, listeners = settle_plan(ask(root, base=base), {"NATS_SERVER_BIN": str(program)})
    listeners.close_all()
    assert plan.nats_program == program


def test_a_root_too_deep_for_sockets_is_refused(tmp_path: Path, base: int) -> None:
    deep = tmp_path / ("d" * 50) / ("e" * 60)
    ensure_hive_files(HiveLayout(deep))
    with pytest.raises(Misconfigured, match="107"):
        settle_plan(ask(deep, base=base), {})
    assert is_free(base)


def test_a_relative_root_and_a_link_are_followed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    assert ask(Path("real")).root == tmp_path / "real"
    assert ask(Path("link")).root == tmp_path / "real"
    assert os.fspath(ask(Path("new/../hive")).root) == str(tmp_path / "hive")
