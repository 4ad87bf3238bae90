"""What happens to the leaders, in order: one is killed, a later one is stopped and resumed."""

import math

from incumbent import clock
from incumbent.cli.demo.node import Node
from incumbent.cli.demo.stage import ELECTION, LEASE_TIME, START_WITHIN, Stage
from incumbent.cli.demo.verdict import Fault, Term, successor


async def perform(stage: Stage) -> None:
    """The whole of it. Returns when the last one has left."""
    await _elect(stage)
    await stage.pause(2.0)
    killed = await _kill_the_leader(stage)
    await stage.pause(1.0)
    await _start_again(stage, killed)
    await stage.pause(1.0)
    await _stop_the_leader(stage)
    await stage.pause(1.0)
    await _leave(stage)


async def _elect(stage: Stage) -> None:
    stage.say(f"three processes stand for election {ELECTION!r}, lease {LEASE_TIME:g} s")
    for node in stage.nodes:
        node.start()
    await stage.until(
        "three processes", lambda: all(node.last for node in stage.nodes), START_WITHIN
    )
    leader = await stage.leader()
    stage.say(f"{leader.name} is elected, the others stand by")


async def _kill_the_leader(stage: Stage) -> Node:
    leader = await stage.leader()
    stage.say(f"SIGKILL for {leader.name}, the leader: it cannot even say good-bye")
    fault = stage.strike("SIGKILL", leader, leader.kill)
    await stage.say_who_leads()
    term = await _successor(stage, fault)
    stage.say(f"{term.node} took over, {term.began - fault.at:.2f} s after the kill")
    return leader


async def _start_again(stage: Stage, node: Node) -> None:
    stage.say(f"{node.name} is started again, as a new process")
    node.start()
    await stage.until(f"{node.name} to come up", lambda: node.last is not None, START_WITHIN)


async def _stop_the_leader(stage: Stage) -> None:
    leader = await stage.leader()
    stage.say(f"SIGSTOP for {leader.name}, the leader, for longer than its lease")
    fault = stage.strike("SIGSTOP", leader, leader.stop)
    await stage.say_who_leads()
    term = await _successor(stage, fault)
    stage.say(f"{term.node} took over, {term.began - fault.at:.2f} s after the stop")
    await stage.pause(max(1.0, fault.at + 1.25 * LEASE_TIME - clock.now()))
    await _resume(stage, leader, fault)


async def _resume(stage: Stage, node: Node, fault: Fault) -> None:
    resumed_at = clock.now()
    stage.say(f"SIGCONT for {node.name} after {resumed_at - fault.at:.1f} s: does it still lead?")
    node.resume()
    stopped_at, reason = await stage.find(
        f"{node.name} to notice its loss", lambda: _loss(stage, fault)
    )
    await stage.until(f"{node.name} to stand by", lambda: _stands_by(node))
    after = math.ceil(1000 * (stopped_at - resumed_at))
    stage.say(f"{node.name} noticed within {after} ms, by itself ({reason}); stands by again")
    await stage.say_who_leads()


async def _leave(stage: Stage) -> None:
    leader = await stage.leader()
    stage.say(f"all leave; {leader.name} is the last, and gives its seat back")
    for node in sorted(stage.nodes, key=lambda node: node is leader):
        await _leave_alone(stage, node)
    await stage.until("an empty seat", lambda: not stage.state.leaders)
    await stage.say_who_leads()


async def _leave_alone(stage: Stage, node: Node) -> None:
    node.leave()
    await stage.until(f"{node.name} to leave", lambda: node.ended)


async def _successor(stage: Stage, fault: Fault) -> Term:
    term = await stage.find("a new leader", lambda: successor(fault, stage.terms))
    await stage.leader()
    return term


def _loss(stage: Stage, fault: Fault) -> tuple[float, str] | None:
    """When and why the victim of `fault` found out; None as long as it has not."""
    for term in stage.terms:
        if (term.node, term.fence) == (fault.node, fault.fence) and term.stopped_at and term.reason:
            return term.stopped_at, term.reason
    return None


def _stands_by(node: Node) -> bool:
    return node.last is not None and node.last.kind == "standing"
