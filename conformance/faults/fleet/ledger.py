"""Batches of numbered items through the Python SDK, as many as the fleet takes, and the check of all of them.

    ledger.py write PLAN      writes until its standard input ends; the plan is JSON, see `sdk.py`
    ledger.py verify PLAN     reads the change feed from its beginning, and prints the figures as JSON

Each writer creates batches of `BATCH` items, numbered from 0, and notes the outcome of each: `ok`, `not` (refused) or
`unknown`. The SDK sends some batches more than once, and reports the last answer. A batch is refused only if every
attempt got an answer which says that the batch was not carried out; the answers are part of the note.

Promises: `verify` finds each acknowledged batch that is not there, or is there twice or in part, each refused batch that
is there, and each logical partition whose changes are not in the order of their batches.
"""

import asyncio
import contextvars
import json
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import AioHttpTransport
from azure.cosmos import CosmosClient
from azure.cosmos.aio import CosmosClient as AsyncClient

BATCH = 100
# Batches of one logical partition, so that a writer goes through all physical partitions.
BATCHES_OF_A_KEY = 20
PAGE_ITEMS_MAX = 5000
# The answers of the server that say that a batch was not carried out.
REFUSALS = {207, 404, 410, 429, 449, 503}

# The answers to the attempts of the current batch: a status, or 0 without an answer.
attempts: contextvars.ContextVar[list[int]] = contextvars.ContextVar("attempts")


class Noting(AioHttpTransport):
    """The ordinary transport of the SDK, which notes the answer to each attempt."""

    async def send(self, request, **options):
        # The SDK also reads the account now and then.
        noted = attempts.get([]) if request.method == "POST" else []
        noted.append(0)
        answer = await super().send(request, **options)
        noted[-1] = answer.status_code
        return answer


def key_of(writer: int, batch: int) -> str:
    """Returns the value of the partition key of a batch."""
    return f"{writer}/{batch // BATCHES_OF_A_KEY}"


async def write(plan: dict) -> None:
    """Lets all writers go on until the input of this process ends."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    listening = loop.run_in_executor(None, lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)))
    print("begun", flush=True)
    await asyncio.gather(*(write_batches(plan, number, ended) for number in range(plan["writers"])))
    await listening


async def write_batches(plan: dict, writer: int, ended: asyncio.Event) -> None:
    """Creates one batch after the other and notes the outcomes."""
    endpoints = plan["endpoints"]
    endpoint = endpoints[writer % len(endpoints)]
    async with AsyncClient(endpoint, credential=plan["key"], transport=Noting()) as client:
        container = client.get_database_client(plan["database"]).get_container_client(plan["container"])
        with history_of(plan, writer).open("w", buffering=1) as history:
            batch = 0
            while not ended.is_set():
                pk = key_of(writer, batch)
                items = [{"id": f"{batch}-{n}", "pk": pk, "batch": batch} for n in range(BATCH)]
                noted: list[int] = []
                attempts.set(noted)
                is_done = await carry_out(container.execute_item_batch([("create", (item,)) for item in items], pk))
                outcome = "ok" if is_done else "not" if REFUSALS.issuperset(noted) else "unknown"
                answers = ",".join(map(str, noted))
                history.write(f"{outcome} {batch} {answers} {time.time_ns() // 1000}\n")
                batch += 1


async def carry_out(call) -> bool:
    """Returns True if a batch was acknowledged."""
    try:
        await call
        return True
    except (AzureError, asyncio.TimeoutError, OSError):
        return False


def history_of(plan: dict, writer: int) -> Path:
    return Path(plan["folder"]) / f"{writer}.history"


def verify(plan: dict) -> dict:
    """Compares the histories with the change feed of the container."""
    counts: dict[int, Counter] = defaultdict(Counter)
    last: dict[str, int] = {}
    anomalies: list[str] = []
    for item in all_changes(plan):
        pk, batch = item["pk"], item["batch"]
        counts[int(pk.split("/")[0])][batch] += 1
        if batch < last.get(pk, 0):
            anomalies.append(f"batch {batch} of {pk} comes after batch {last[pk]}")
        last[pk] = batch
    totals: Counter = Counter()
    for writer in range(plan["writers"]):
        for line in history_of(plan, writer).read_text().splitlines():
            outcome, batch, answers, _ = line.split()
            found = counts[writer].pop(int(batch), 0)
            totals[outcome] += BATCH
            allowed = {"ok": (BATCH,), "not": (0,), "unknown": (0, BATCH)}[outcome]
            if found not in allowed:
                anomalies.append(f"writer {writer}: batch {batch} is '{outcome}' ({answers}), {found} of its items are there")
        for batch in counts[writer]:
            anomalies.append(f"writer {writer}: batch {batch} is there, and was not written")
    return {
        "acknowledged": totals["ok"],
        "refused": totals["not"],
        "unknown": totals["unknown"],
        "anomalies": anomalies[:20],
    }


def all_changes(plan: dict):
    """Reads the change feed of the container from its beginning, page by page."""
    with CosmosClient(plan["endpoints"][0], plan["key"]) as client:
        container = client.get_database_client(plan["database"]).get_container_client(plan["container"])
        for feed_range in container.read_feed_ranges():
            options = {"feed_range": feed_range, "start_time": "Beginning", "max_item_count": PAGE_ITEMS_MAX}
            yield from container.query_items_change_feed(**options)


if __name__ == "__main__":
    command, plan = sys.argv[1], json.loads(sys.argv[2])
    if command == "write":
        asyncio.run(write(plan))
    else:
        print(json.dumps(verify(plan)))
