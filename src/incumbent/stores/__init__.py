"""Where leases live: the contract (`base`) and its implementations (`memory`, `redis`)."""
