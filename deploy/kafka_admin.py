"""An admin client that reports by exceptions alone; librdkafka would print each refused connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

_QUIET = logging.getLogger("tidemill.kafka_admin")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def admin_client(config: Mapping[str, str]) -> AdminClient:
    """A client for ``config``, which is as librdkafka takes it; connects on first use."""
    return AdminClient({**config}, logger=_QUIET)
