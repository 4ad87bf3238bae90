"""kit.servers, kit.pool, kit.warden: real processes that do what they are told and do not stay."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import redis

from kit import warden
from kit.binaries import KINDS, available_servers, kind_of
from kit.fixtures import ELSEWHERE, MakeClient, StartServer
from kit.pool import ServerPool, chosen_kinds, make_server
from kit.servers import ExternalServer, NotOursError, Server
from kit.waiting import wait_until_blocking

TESTS = Path(__file__).parent


def test_every_kind_is_here_or_says_why_not() -> None:
    """A missing server comes with a reason that a person understands."""
    for kind, binary in available_servers().items():
        assert kind == binary.kind
        assert (binary.path is None) != (binary.reason == "")


async def test_each_kind_answers_by_tcp(server: Server, make_client: MakeClient) -> None:
    """The fixture gives a running server of the kind that it says, without keys."""
    client = make_client(server)
    info = await client.info("server")
    product, _, major = server.kind.partition("-")
    if server.ours:
        version = info["valkey_version" if product == "valkey" else "redis_version"]
        assert str(version).startswith(f"{major}.")
        assert ELSEWHERE or info["process_id"] == server.pid
    assert await client.keys("incumbent*") == []


async def test_unix_socket_and_password(start_server: StartServer, make_client: MakeClient) -> None:
    """Both addresses carry the password; without it the server refuses."""
    server = start_server(password="sesame", args=["--maxclients", "50"])
    for url in (server.url, server.unix_url) if server.has_socket else (server.url,):
        assert await make_client(url).ping()
    with pytest.raises(redis.AuthenticationError):
        await make_client(f"redis://{server.host}:{server.port}").ping()
    assert server.cli("CONFIG", "GET", "maxclients") == ["maxclients", "50"]


async def test_wires(wire_client: "redis.asyncio.Redis", wire: dict[str, object]) -> None:
    """Each combination of protocol and decoding really reaches the server as such."""
    await wire_client.set("incumbent:x", "1", px=10_000)
    value = await wire_client.get("incumbent:x")
    assert value == ("1" if wire["decode_responses"] else b"1")
    mine = await wire_client.client_info()
    assert mine.get("resp", str(wire["protocol"])) == str(wire["protocol"])  # since Redis 7


@pytest.mark.parametrize("protocol", [2, 3])
async def test_without_hiredis(valkey: Server, make_client: MakeClient, protocol: int) -> None:
    """`hiredis=False` reads with the parser in Python, in both protocols."""
    client = make_client(valkey, hiredis=False, protocol=protocol)
    assert await client.ping()
    (connection,) = client.connection_pool._available_connections
    assert type(connection._parser).__name__ == f"_AsyncRESP{protocol}Parser"


def test_each_test_starts_without_keys(server_pool: ServerPool) -> None:
    """What one test left in a shared server, in any database, the next does not see."""
    first = server_pool.get(chosen_kinds()[0])
    first.cli("SET", "incumbent:left", "1", "PX", 10_000)
    again = server_pool.get(chosen_kinds()[0])
    assert again is first
    assert again.cli("EXISTS", "incumbent:left") == 0


def _run_of(server: Server) -> str:
    return str(server.admin.info("server")["run_id"])


def test_kill_and_start_on_the_same_port(own_server: Server) -> None:
    """SIGKILL ends it at once; the next start has the same address and no data."""
    own_server.cli("SET", "x", "1")
    port, run = own_server.port, _run_of(own_server)
    own_server.kill()
    assert not own_server.running
    own_server.start()
    assert own_server.port == port
    assert _run_of(own_server) != run
    assert own_server.cli("GET", "x") is None


def test_restart_with_and_without_data(own_server: Server) -> None:
    """`keep` brings the keys back with their TTL; without it they are gone, snapshot and all."""
    own_server.cli("SET", "x", "1", "PX", 60_000)
    own_server.restart(keep=True)
    assert 0 < own_server.cli("PTTL", "x") <= 60_000
    own_server.restart()
    assert own_server.cli("GET", "x") is None


def test_append_only_data_outlive_a_kill(start_server: StartServer) -> None:
    """With `aof=True` an answered write is there after SIGKILL."""
    server = start_server(aof=True)
    server.cli("SET", "x", "1", "PX", 60_000)
    server.kill()
    server.start()
    assert server.cli("GET", "x") == "1"


async def test_pause_and_resume(own_server: Server, make_client: MakeClient) -> None:
    """A frozen server accepts and says nothing; resumed, it answers again."""
    hasty = make_client(own_server, socket_timeout=0.1, retry=None)
    own_server.pause()
    assert own_server.running
    with pytest.raises(redis.TimeoutError):
        await hasty.ping()
    own_server.resume()
    assert await make_client(own_server).ping()


def test_a_frozen_server_can_be_stopped(own_server: Server) -> None:
    """Ending a frozen server does not hang, and its folder goes with it."""
    folder = own_server.folder
    own_server.pause()
    own_server.close()
    own_server.close()
    assert folder is not None
    assert not folder.exists()


def test_a_taken_port_is_given_up_for_another(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When somebody took the port between the look and the start, another is tried."""
    ports = iter([own_server.port, own_server.port])
    real = sys.modules["kit.ports"].free_port
    monkeypatch.setattr("kit.servers.free_port", lambda host: next(ports, None) or real(host))
    with make_server(chosen_kinds()[0]) as second:
        assert second.port != own_server.port
        assert second.cli("PING") is True
        assert _run_of(second) != _run_of(own_server)


def test_a_bad_option_shows_the_servers_own_words(start_server: StartServer) -> None:
    """A server that does not start fails at once, with its log."""
    with pytest.raises(RuntimeError, match=r"(?s)did not start.*no-such-option"):
        start_server(args=["--no-such-option", "1"])


def test_the_users_server_is_never_harmed(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By INCUMBENT_TEST_URL only our keys are removed, and no process is touched."""
    theirs = ExternalServer(own_server.url).start()
    theirs.cli("SET", "precious", "1")
    theirs.cli("SET", "incumbent:{x}:fence", "1", "PX", 10_000)
    theirs.flush()
    assert theirs.cli("KEYS", "*") == ["precious"]
    for deed in (theirs.stop, theirs.kill, theirs.restart, theirs.pause):
        with pytest.raises(NotOursError, match="INCUMBENT_TEST_URL"):
            deed()
    theirs.close()
    assert own_server.cli("PING") is True


def test_the_environment_chooses() -> None:
    """A URL wins, then images, a list narrows, and nonsense is refused with a way out."""
    assert chosen_kinds({}) == KINDS
    assert chosen_kinds({"INCUMBENT_TEST_URL": "redis://x"}) == ("url",)
    assert chosen_kinds({"INCUMBENT_TEST_SERVER": "redis-8, redis-6"}) == ("redis-8", "redis-6")
    with pytest.raises(ValueError, match="none of"):
        chosen_kinds({"INCUMBENT_TEST_SERVER": "oracle"})
    images = {"INCUMBENT_TEST_IMAGE": "valkey/valkey:9, redis:8"}
    assert chosen_kinds(images) == ("valkey/valkey:9", "redis:8")
    assert chosen_kinds(images | {"INCUMBENT_TEST_URL": "redis://x"}) == ("url",)
    with pytest.raises(ValueError, match="INCUMBENT_TEST_IMAGE=redis:8"):
        chosen_kinds({"INCUMBENT_TEST_SERVER": "docker:redis:8"})


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("valkey/valkey:9", "valkey-9"),
        ("valkey/valkey:9.1.0-alpine", "valkey-9"),
        ("redis:6.2", "redis-6"),
        ("registry.example:5000/redis:8", "redis-8"),
        ("redis", "redis"),
        ("redis:latest", "redis"),
    ],
)
def test_what_an_image_is_a_server_of(image: str, kind: str) -> None:
    """Its name and its tag tell, as some tests differ by the release."""
    assert kind_of(image) == kind


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and ") Z " in state.read_text()


def test_a_server_dies_with_a_killed_test_process() -> None:
    """SIGKILL of the process that started a server leaves neither it nor its folder behind."""
    script = textwrap.dedent(
        """
        import sys, time
        from kit.servers import Server
        server = Server(sys.argv[1]).start()
        print(server.pid, server.folder, flush=True)
        time.sleep(60)
        """
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", script, chosen_kinds({})[0]],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert starter.stdout is not None
    word, folder = starter.stdout.readline().decode().split()
    pid = int(word)
    assert not _gone(pid)
    assert Path(folder).is_dir()
    starter.kill()
    starter.communicate()
    wait_until_blocking(lambda: _gone(pid), what="the server is gone")
    wait_until_blocking(lambda: not Path(folder).exists(), what="its folder is gone")


def test_a_child_dies_with_the_process_even_when_frozen() -> None:
    """A stopped child is killed as well, when its parent simply ends."""
    script = textwrap.dedent(
        """
        import kit.warden, signal
        child = kit.warden.start_child(["sleep", "60"])
        child.send_signal(signal.SIGSTOP)
        child.returncode = 0  # as good as forgotten
        print(child.pid)
        """
    )
    starter = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    wait_until_blocking(lambda: _gone(int(starter.stdout)), what="the child is gone")


def test_a_reaped_child_is_off_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher forgets an ended child, so it never kills a stranger of that number."""
    told: list[str] = []
    monkeypatch.setattr(warden, "_tell", told.append)
    first, second = warden.start_child(["true"]), warden.start_child(["true"])
    assert (first.wait(60), second.wait(60)) == (0, 0)
    warden.reaped(first)
    assert warden.listed(told) == {str(second.pid)}
