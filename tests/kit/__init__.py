"""The fault kit: real servers, a misbehaving network, waiting, records and checks for the tests.

Import its modules by path (``from kit.servers import Server``); the fixtures are in
``kit.fixtures`` and reach every test by way of ``tests/conftest.py``.
"""
