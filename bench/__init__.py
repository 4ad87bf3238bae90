"""What `incumbent` costs, measured against redis-py's own Lock and against the bare server.

Run it with `scripts/bench`; `docs/benchmarks.md` tells what the figures mean. Nothing here is a
timed test: the tests only look whether it still runs (`tests/test_bench_smoke.py`).
"""
