"""The one path of every election: stand for a seat, run an action under its lease, end both."""
