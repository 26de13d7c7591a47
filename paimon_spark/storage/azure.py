"""Azure's blobs through `adlfs`, whose package would wait minutes for a store that is silent.

By itself Azure's package waits 60 seconds for an answer, and 15 and more before it asks again, three times.
"""

from __future__ import annotations

from typing import Any, Final

from paimon_spark.storage import silence

CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 8
RETRIES: Final = 3
FIRST_PAUSE_SECONDS: Final = 1
"""The pauses are 1, 4 and 10 seconds, give or take one."""


_Any: Any = object


class AzureFiles(_Any):  # type: ignore[misc]
    """adlfs's file system whose requests end in a bounded time.

    The options `fs.connection_timeout` and `fs.read_timeout` are heeded.
    """

    hurried = False
    """Whether the store is silent: then a request is sent once, and waits shortly."""

    def do_connect(self) -> None:
        """Make the client, as adlfs does, and bound its waits."""
        super().do_connect()
        policy = self.service_client._config.retry_policy
        policy.initial_backoff, policy.random_jitter_range = FIRST_PAUSE_SECONDS, 1
        self.hurry(self.hurried)

    def hurry(self, hurried: bool) -> None:
        """Send a request once and wait shortly from now on, or as often and as long as ever."""
        self.hurried = hurried
        client, given = self.service_client, self._timeout_kwargs
        waits = client._pipeline._transport.connection_config
        waits.timeout, waits.read_timeout = silence.CONNECT_SECONDS, silence.ANSWER_SECONDS
        if not hurried:
            waits.timeout = given.get("connection_timeout", CONNECT_SECONDS)
            waits.read_timeout = given.get("read_timeout", ANSWER_SECONDS)
        client._config.retry_policy.total_retries = 0 if hurried else RETRIES
