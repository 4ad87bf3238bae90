"""How long to pause after failures in a row: doubling, bounded, and jittered.

Pure: the jitter is given.
Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""


def pause_after(failures: int, *, first: float, longest: float, jitter: float) -> float:
    """Seconds to pause: `first` after one failure, doubled by each more, `longest` at the most.

    A `jitter` from 0 to 1 takes from a half to all of that.
    """
    return min(longest, first * 2.0 ** min(failures - 1, 32)) * (0.5 + jitter / 2)
