"""Loads the fault kit's fixtures for every test; see `kit/fixtures.py` for what there is."""

from hypothesis import settings

pytest_plugins = ["kit.fixtures"]

# An example that takes long on a busy machine is no failure.
settings.register_profile("kit", deadline=None)
settings.load_profile("kit")
