"""A leader that believes to lead: writes when it is told to, whatever has happened meanwhile.

``python paused.py URL FILE``: says "leads FENCE" when elected, and for each line on stdin tries
each kind of guarded write and says what became of it.
"""

import sqlite3
import sys

import redis

from incumbent import LeaderOptions, StaleFenceError
from incumbent.blocking import LeaderElector
from incumbent.fencing.blocking import fenced_eval, guard


def main(url: str, path: str) -> None:
    options = LeaderOptions(lease_time=2.5, on_loss="notify")
    client = redis.Redis.from_url(url)
    with LeaderElector(url, options, hooks=[]) as elector, elector.lead("notes") as lease:
        print("leads", lease.fence, flush=True)

        def by_sql() -> None:
            connection = sqlite3.connect(path)
            try:
                with connection:
                    guard(connection, "notes", lease.fence)
                    connection.execute("INSERT OR REPLACE INTO notes VALUES (1, 'old', 0)")
            finally:
                connection.close()

        def by_lua() -> None:
            script = "return redis.call('SET', KEYS[1], 'old')"
            fenced_eval(client, "highest", lease.fence, script, keys=["by-lua"])

        def by_transaction() -> None:
            with lease.transaction(client) as pipe:
                pipe.set("by-transaction", "old")

        for _ in sys.stdin:
            for write in (by_sql, by_lua, by_transaction):
                try:
                    write()
                except StaleFenceError as error:
                    print(f"{write.__name__}: stale, {error.highest}", flush=True)
                else:
                    print(f"{write.__name__}: done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
