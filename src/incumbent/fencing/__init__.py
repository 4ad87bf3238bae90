"""Have your own storage refuse the writes of a leader that is one no more.

::

    from incumbent.fencing import guard

    async with elector.lead("reports") as lease:
        async with engine.begin() as connection:  # SQLAlchemy, asyncpg, psycopg, aiosqlite
            await guard(connection, "reports", lease.fence)  # StaleFenceError if a newer one wrote
            await connection.execute(...)

A lease guards time: a write that is under way when it ends still arrives. The storage can tell,
if each write brings its lease's fence, which grows with each term, and it keeps the highest that
it has seen. The same for threads is in `incumbent.fencing.blocking`; for keys beside the election's
own there is `Lease.transaction`.
Source: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
"""

from incumbent.errors import StaleFenceError
from incumbent.fencing.scripts import fenced_eval
from incumbent.fencing.sql import guard
from incumbent.fencing.statements import CREATE_TABLE

__all__ = ["CREATE_TABLE", "StaleFenceError", "fenced_eval", "guard"]
