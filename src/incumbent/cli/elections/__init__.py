"""What an operator asks and does about elections: look, watch, ask a holder to go, take a seat.

Nothing is imported here, so that help pages are quick.
"""
