"""Hooks for those who watch: each module is one hook and loads its own library."""
