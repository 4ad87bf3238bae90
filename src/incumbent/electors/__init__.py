"""The faces of the one engine: what users construct."""
