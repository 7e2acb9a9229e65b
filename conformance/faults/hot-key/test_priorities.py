"""With the option for priorities, requests of low priority are refused first when the throughput is insufficient."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest
from azure.core.pipeline.transport import AioHttpTransport
from azure.cosmos import PartitionKey
from azure.cosmos.aio import CosmosClient

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib" / "server"))

from orrery_server import Server  # noqa: E402
from workload import item  # noqa: E402

RU, ROUNDS = 400, 8
# Creates that begin together: those of high priority cost half the budget of a second, the others four budgets.
EACH = {"High": 10, "Low": 80}


class Answers(AioHttpTransport):
    """The SDK's own transport, counting the answers to each priority."""

    def __init__(self, **options):
        super().__init__(**options)
        self.counted = Counter()

    async def send(self, request, **options):
        response = await super().send(request, **options)
        priority = request.headers.get("x-ms-cosmos-priority-level")
        if priority:
            self.counted[priority, response.status_code] += 1
        return response


@pytest.fixture
def endpoints(tmp_path):
    arguments = ["--memory", "--enforce-throughput", "on", "--priority-based-execution"]
    server = Server.start(tmp_path / "server.log", *arguments)
    yield server.endpoints
    server.stop()


async def answers_to_each(endpoints) -> Counter:
    transport = Answers()
    async with CosmosClient(endpoints.http, endpoints.key, transport=transport) as client:
        database = await client.create_database("priorities")
        container = await database.create_container("items", PartitionKey(path="/pk"), offer_throughput=RU)
        low = asyncio.gather(
            *(container.create_item(item("k", n), priority="Low") for n in range(EACH["Low"])), return_exceptions=True
        )
        for turn in range(ROUNDS):
            numbers = range(1000 + turn * EACH["High"], 1000 + (turn + 1) * EACH["High"])
            await asyncio.gather(*(container.create_item(item("k", n), priority="High") for n in numbers))
        await low
    return transport.counted


def test_low_priority_is_refused_before_high(endpoints):
    counted = asyncio.run(answers_to_each(endpoints))
    share = {name: counted[name, 429] / (counted[name, 429] + counted[name, 201]) for name in EACH}
    assert counted["High", 201] == ROUNDS * EACH["High"]
    assert share["Low"] > share["High"], counted
