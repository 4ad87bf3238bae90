"""Ports of the test kit: nobody answers in place of a server that is down."""

from kit.ports import EACH, HIGHEST, LOWEST, free_port, ports_of


def test_no_two_workers_have_a_port_in_common() -> None:
    """As many as there may be; without workers, they are those of the first."""
    ports = [port for number in range(17) for port in ports_of(f"gw{number}")]
    assert sorted(ports) == list(range(LOWEST, HIGHEST))
    assert ports_of("gw17") == ports_of("gw0") == ports_of("")


def test_a_port_is_not_drawn_again_soon() -> None:
    """Whoever had it may be down, and come back."""
    drawn = [free_port() for _ in range(EACH // 4)]
    assert len(set(drawn)) == len(drawn)
