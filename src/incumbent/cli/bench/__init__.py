"""`bench`: how fast elections are on the user's server, from where the user is.

Nothing is imported here. What compares the library with others is in the repository's `bench`.
"""
