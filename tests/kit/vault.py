"""A credential provider whose password is changed on servers before it knows, or that is slow."""

import asyncio
import time

from redis.credentials import CredentialProvider

from kit.servers import Server

USER = "rotated"


class Vault(CredentialProvider):
    """Gives the password that it knows, after `slow` seconds; for clients of asyncio."""

    def __init__(self, *servers: Server) -> None:
        self.slow = 0.0
        self.asked = 0
        self._servers = servers
        self._known = self._set = "first"
        for server in servers:
            server.cli("ACL", "SETUSER", USER, "reset", "on", ">first", "~*", "&*", "+@all")

    def rotate(self, password: str) -> None:
        """Change the password on the servers, and cut all connections of the user."""
        self._set = password
        for server in self._servers:
            server.cli("ACL", "SETUSER", USER, "resetpass", f">{password}")
        self.cut()

    def cut(self) -> None:
        """Have all log in anew."""
        for server in self._servers:
            server.cli("CLIENT", "KILL", "USER", USER)

    def learn(self) -> None:
        """From now on the password is known that was set."""
        self._known = self._set

    def forget(self) -> None:
        """Remove the user from the servers."""
        for server in self._servers:
            server.cli("ACL", "DELUSER", USER)

    def get_credentials(self) -> tuple[str, str]:
        """For who does not know better."""
        self.asked += 1
        time.sleep(self.slow)
        return USER, self._known

    async def get_credentials_async(self) -> tuple[str, str]:
        """What connections of asyncio ask for."""
        self.asked += 1
        await asyncio.sleep(self.slow)
        return USER, self._known


class BlockingVault(Vault):
    """The same as those who write for threads have it: with nothing for asyncio."""

    get_credentials_async = getattr(CredentialProvider, "get_credentials_async", None)  # type: ignore[assignment] # none before redis-py 5.3
