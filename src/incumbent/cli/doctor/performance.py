"""What `doctor` does: facts, findings, and how they are shown."""

from incumbent import LeaderOptions, names
from incumbent.cli.asking import Where, ask, reaching
from incumbent.cli.doctor.judgement import judge
from incumbent.cli.endings import mistake
from incumbent.cli.output import tell, tell_json
from incumbent.stores.redis.facts import Facts, facts_of
from incumbent.stores.redis.fitness import Finding


def examine(where: Where, lease: float, *, as_json: bool) -> bool:
    """Examine the server, and tell. Returns whether nothing is wrong.

    Raises:
        MistakeError: no elector could have this lease time.
    """
    try:
        LeaderOptions(lease_time=lease)
    except ValueError as error:
        raise mistake(error) from None

    async def question(where: Where) -> Facts:
        async with reaching(where) as client:
            return await facts_of(client, names.key_prefix(where.prefix), where.timeout)

    findings = judge(ask(where, question), lease)
    well = all(finding.level != "wrong" for finding in findings)
    if as_json:
        values = [finding._asdict() for finding in findings]
        tell_json({"ok": well, "findings": values})
    else:
        _tell(findings)
    return well


def _tell(findings: list[Finding]) -> None:
    for finding in findings:
        tell(f"{finding.level:5}  {finding.about}: {finding.found}")
        if finding.means:
            tell(f"       {finding.means}")
        if finding.advice:
            tell(f"       -> {finding.advice}")
