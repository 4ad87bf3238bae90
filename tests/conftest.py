"""Loads the fault kit's fixtures for every test; see `kit/fixtures.py` for what there is."""

pytest_plugins = ["kit.fixtures"]
