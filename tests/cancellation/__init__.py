"""Cancellation: at every suspension point, in every way, at random, and during a loss.

`stepping` strikes a coroutine at its k-th suspension, `ways` are the ways of cancelling it,
`stage` is what it runs on and what must be left when it is over.
"""
