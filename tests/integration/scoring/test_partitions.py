"""A topic that gets more partitions while the job runs: they are read from their start."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.support.deployment import Deployment
from tests.support.orders import Orders

# The source looks for new partitions every 30 s.
FOUND_S = 90.0


def test_a_partition_that_is_added_is_read_from_its_start(job: Deployment, name: str) -> None:
    admin = AdminClient({**job.settings.kafka.client_config()})
    topic = job.settings.topics.orders
    for made in admin.create_partitions([NewPartitions(topic, 5)]).values():
        made.result(timeout=30)
    orders = Orders(job.settings)  # one that has not seen the topic before
    orders.send(name, ts_ms=job.orders.now_ms(), partition=4)
    orders.flush()
    answer = job.answer(name, timeout_s=FOUND_S)
    assert (answer["status"], answer["partition"], answer["offset"]) == ("ok", 4, 0)
