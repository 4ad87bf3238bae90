"""The two registries compared: whatever is asked, in whatever order, both say the same."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.bench import BUDGET
from contract.registrar import Registrar
from incumbent.stores.memory import MemoryStore
from incumbent.stores.registry import Enrolled, Enrolment
from incumbent.strategy import Candidate, Metadata

NODE = st.sampled_from("abc")
DEEDS = ["started", "succeeded", "failed", "faltered", "steadied"]
STEP = st.one_of(
    st.tuples(st.just("enrol"), NODE, st.integers(0, 1), st.integers(0, 3)),
    st.tuples(
        st.just("record"),
        NODE,
        st.sampled_from(DEEDS),
    ),
    st.tuples(st.just("withdraw"), NODE, st.integers(0, 1)),
    st.tuples(st.just("expire"), NODE),
)
ELECTIONS = count()


def stand(election: str, node: str, process: int, load: int = 0) -> Enrolment:
    """One of two processes of a node."""
    return Enrolment(
        election=election,
        node_id=node,
        ttl=60,
        metadata=Metadata({"load": load}),
        strategy=f"{process}f",
        token=f"{ord(node):x}{process}",
        contending=load > 1,
    )


def told(candidate: Candidate) -> str:
    """A candidate without its times, but with their order."""
    times = {
        "started": candidate.last_started_at,
        "succeeded": candidate.last_succeeded_at,
        "failed": candidate.last_failed_at,
        "faltered": candidate.last_early_failure_at,
    }
    order = sorted((time, name) for name, time in times.items() if time is not None)
    return (
        f"{candidate.node_id} {candidate.successes}/{candidate.failures}"
        f" {dict(candidate.metadata)} {candidate.strategy} {[name for _, name in order]}"
        f" {candidate.contending} {candidate.early_failures}"
    )


async def play(registrar: Registrar, election: str, steps: Sequence[tuple[Any, ...]]) -> list[str]:
    """Do the steps; each answer, and who stands after it, as a line."""
    registry, lines = registrar.registry, list[str]()
    for kind, node, *values in steps:
        answer: object = None
        if kind == "enrol":
            given_ = await registry.enrol(stand(election, node, *values), BUDGET)
            answer = given_[1:] if isinstance(given_, Enrolled) else given_
        elif kind == "record":
            answer = await registry.record(election, node, values[0], BUDGET)
        elif kind == "withdraw":
            answer = await registry.withdraw(stand(election, node, values[0]), BUDGET)
        elif node in await registrar.nodes(election):
            registrar.expire(election, node)
        snapshot = await registrar.look(election)
        lines.append(f"{kind} {node}: {answer}; {sorted(map(told, snapshot.candidates))}")
    return lines


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEP, min_size=3, max_size=20))
async def test_memory_and_server_say_the_same(
    registrar_of_first: Registrar, steps: list[tuple[Any, ...]]
) -> None:
    """The registry in memory is a stand-in that can be believed in a user's unit tests."""
    election, store = f"job-{next(ELECTIONS)}", MemoryStore()
    memory = Registrar(store.registry, store)
    assert await play(registrar_of_first, election, steps) == await play(memory, election, steps)
