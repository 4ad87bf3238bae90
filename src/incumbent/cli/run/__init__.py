"""The commands ``incumbent run`` and ``incumbent campaign``: any program under a lease.

Three processes: the command itself, which holds the lease; a *supervisor*, which sees to it that
the program never outlives the lease, nor the command; and the program, which leads a process group.
"""
