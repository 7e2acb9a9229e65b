"""A load with a given number of request units in each second, and the result of each attempt.

The load is open: operations begin at their time, independent of the results of earlier operations, so a partition that
throttles does not slow the others down. A transport below the SDK records every attempt, including retries.
"""

import asyncio
import json
import random
import time
from collections import defaultdict
from dataclasses import dataclass

from azure.core.pipeline.transport import AioHttpTransport
from azure.cosmos import PartitionKey
from azure.cosmos.aio import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

PARTITIONS = 4
# The throughput of a new container with four physical partitions; lowering it afterwards never merges partitions.
RU_AT_CREATION = 24_000
WINDOW_SECONDS = 10
# Numbers in an item: each is worth two index entries, so that a create costs about 20 RU.
NUMBERS = 37


@dataclass(frozen=True)
class Attempt:
    """One request on the wire: its key, the times of request and answer, and the content of the answer."""

    key: str
    sent: float
    received: float
    status: int
    charge: float


@dataclass
class Outcome:
    """The results of one run of a load."""

    ru: int
    seconds: float
    charge: float
    operations: int
    partition_of: dict
    attempts: list
    given_up: dict

    def of(self, partition: int) -> list:
        """Returns the attempts at one physical partition."""
        return [attempt for attempt in self.attempts if self.partition_of[attempt.key] == partition]


class Attempts(AioHttpTransport):
    """The SDK's own transport, which records each attempt to create an item."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen: list[Attempt] = []
        self.partition_of: dict[str, int] = {}

    async def send(self, request, **options):
        sent = time.monotonic()
        response = await super().send(request, **options)
        key = request.headers.get("x-ms-documentdb-partitionkey")
        if request.method == "POST" and key:
            key = json.loads(key)[0]
            charge = float(response.headers.get("x-ms-request-charge", 0))
            self.seen.append(Attempt(key, sent, time.monotonic(), response.status_code, charge))
            partition = response.headers.get("x-ms-documentdb-partitionkeyrangeid")
            if partition is not None:
                self.partition_of[key] = int(partition)
        return response


def item(key: str, number: int) -> dict:
    return {"id": f"i{number}", "pk": key} | {f"n{n}": number * 1000 + n for n in range(NUMBERS)}


async def run_load(endpoint: str, key: str, ru: int, offered: float, seconds: float, hot_share: float) -> Outcome:
    """Offers `offered` RU/s to a new container of `ru` RU/s; the share `hot_share` goes to one logical key."""
    transport = Attempts()
    async with CosmosClient(endpoint, credential=key, transport=transport) as client:
        database = await client.create_database(f"hot-{random.getrandbits(48):012x}")
        try:
            container = await database.create_container("items", PartitionKey(path="/pk"), offer_throughput=RU_AT_CREATION)
            await container.replace_throughput(ru)
            keys, charge = await spread_keys(container, transport)
            transport.seen.clear()
            operations = int(offered / charge * seconds)
            given_up = await offer(container, keys, offered / charge, operations, hot_share)
            return Outcome(ru, seconds, charge, operations, dict(transport.partition_of), list(transport.seen), given_up)
        finally:
            await client.delete_database(database)


async def spread_keys(container, transport: Attempts) -> tuple[list[str], float]:
    """Returns keys that are distributed evenly over all partitions, in turn, and the charge of a create."""
    of_each = defaultdict(list)
    for number in range(1000):
        if len(of_each) == PARTITIONS and all(len(keys) >= 4 for keys in of_each.values()):
            break
        name = f"key{number}"
        await container.create_item(item(name, 0))
        of_each[transport.partition_of[name]].append(name)
    charge = transport.seen[-1].charge
    rounds = zip(*(keys[:4] for _, keys in sorted(of_each.items())), strict=True)
    return [key for keys in rounds for key in keys], charge


async def offer(container, keys: list[str], rate: float, operations: int, hot_share: float) -> dict:
    """Creates items at a rate per second. Returns the numbers of items that the SDK gave up, by key."""
    given_up = defaultdict(int)
    turns = random.Random(1)

    async def create(key: str, number: int, due: asyncio.Future) -> None:
        await due
        try:
            await container.create_item(item(key, number))
        except CosmosHttpResponseError as refused:
            if refused.status_code != 429:
                raise
            given_up[key] += 1

    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(1, operations + 1):
            key = keys[0] if turns.random() < hot_share else keys[number % len(keys)]
            due = loop.create_future()
            loop.call_at(begun + number / rate, due.set_result, None)
            group.create_task(create(key, number, due))
    return given_up


def most_in_a_window(attempts: list[Attempt], seconds: float = WINDOW_SECONDS) -> float:
    """Returns the most RU that were certainly served within one window: attempts that began and ended inside it."""
    served = sorted((a for a in attempts if a.status < 400), key=lambda a: a.sent)
    most = 0.0
    for at, first in enumerate(served):
        end = first.sent + seconds
        inside = 0.0
        for attempt in served[at:]:
            if attempt.sent >= end:
                break
            inside += attempt.charge if attempt.received <= end else 0.0
        most = max(most, inside)
    return most
