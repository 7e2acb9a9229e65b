"""A client of the workload on the Python SDK: follows its plan until it is told to stop, and writes a history.

    worker.py PLAN      the plan is JSON, see `run.py`

Five tasks run at once: two writers with logical partitions of their own; a writer in logical partitions that other
clients write too; a task with queries; a reader of the change feed, by the feed ranges at its start.

On standard input: `quiet` ends writers and queries, `drain` makes the reader of the change feed read to its end. On
standard output: a line for every few operations, and the same words when that is done.
"""

import asyncio
import contextvars
import json
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent

from aiohttp import ClientConnectorError, ClientSession, TraceConfig
from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import AioHttpTransport
from azure.cosmos.aio import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from history import FeedPage, Look, Record, Row, Write, line_of
from model import COUNTER, RANKS, rank_of

PROGRESS_EVERY = 10
FIELDS = "c.pk, c.id, c.v, c.rank, c.n"
BATCH_IDS = ["b0", "b1", "b2"]

# Attempts of the current operation whose connection broke.
lost: contextvars.ContextVar[list] = contextvars.ContextVar("lost")


class Counting(AioHttpTransport):
    """The ordinary transport of the SDK, which counts interrupted attempts that may have been executed."""

    async def send(self, request, **options):
        try:
            return await super().send(request, **options)
        except AzureError as error:
            # A connection that was not established carried no request.
            broken = lost.get(None)
            if broken is not None and not isinstance(error.inner_exception, ClientConnectorError):
                broken.append(1)
            raise


async def count_second_connection(_: object, context: SimpleNamespace, __: object) -> None:
    """Counts an attempt of aiohttp itself: it repeats PUT and DELETE if a connection that was used before breaks.

    The start of a connection counts: the error of a repetition that is refused hides the attempt before it.
    """
    context.connections = getattr(context, "connections", 0) + 1
    broken = lost.get(None)
    if broken is not None and context.connections > 1:
        broken.append(1)


def new_client(plan: dict) -> CosmosClient:
    trace = TraceConfig()
    trace.on_connection_reuseconn.append(count_second_connection)
    trace.on_connection_create_start.append(count_second_connection)
    # As the transport makes its session itself.
    session = ClientSession(auto_decompress=False, trust_env=True, trace_configs=[trace])
    transport = Counting(session=session, session_owner=True)
    return CosmosClient(plan["endpoint"], credential=plan["key"], transport=transport)


def container_of(client: CosmosClient, plan: dict):
    return client.get_database_client(plan["database"]).get_container_client(plan["container"])


class Notes:
    """Writes the history and reports the progress."""

    def __init__(self, client: str, file: Path, quiet: bool = False):
        self.client, self._quiet = client, quiet
        self._file = file.open("w", buffering=1)
        self._count = 0
        self._values = 0
        self._news: asyncio.Event | None = None

    async def some_more(self) -> None:
        """Waits until this client has done further operations, which sets the pace of polling."""
        self._news = asyncio.Event()
        await self._news.wait()

    def wake(self) -> None:
        """Ends the wait."""
        if self._news:
            self._news.set()

    def add(self, record: Record) -> None:
        self._file.write(line_of(record) + "\n")
        self._count += 1
        if self._count % PROGRESS_EVERY == 0:
            self.wake()
            if not self._quiet:
                say(str(PROGRESS_EVERY))

    def new_value(self) -> str:
        """Returns a unique value."""
        self._values += 1
        return f"{self.client}:{self._values}"


def say(word: str) -> None:
    print(word, flush=True)


def failure_of(error: Exception) -> dict:
    """Returns the record of an operation that raised."""
    text = str(error).replace("\n", " ")
    if isinstance(error, CosmosHttpResponseError) and error.status_code:
        outcome = "unknown" if error.status_code >= 500 or error.status_code == 408 else "failed"
        return {"outcome": outcome, "status": error.status_code, "substatus": error.sub_status or 0, "error": text}
    return {"outcome": "unknown", "status": 0, "error": f"{type(error).__name__}: {text}"}


def lsn_of(headers: dict) -> int | None:
    """Returns the LSN of a session token `RANGE:VERSION#LSN#...`."""
    parts = headers.get("x-ms-session-token", "").split("#")
    return int(parts[1]) if len(parts) > 1 else None


def row_of(found: dict) -> Row:
    return (found["pk"], found["id"], found["v"], found.get("rank"), found.get("n"))


class Writer:
    """Single operations and batches on some logical partitions, one after the other."""

    def __init__(self, container, notes: Notes, chance: random.Random, keys: list[str], ids: list[str]):
        self.container, self.notes, self.chance = container, notes, chance
        self.keys, self.ids = keys, ids

    async def step(self) -> None:
        """Does one random operation."""
        pk, id = self.chance.choice(self.keys), self.chance.choice(self.ids)
        dice = self.chance.randrange(100)
        for least, act in self.ACTS:
            if dice < least:
                await act(self, pk, id)
                return

    def body(self, pk: str, id: str, v: str, **other) -> dict:
        pad = "x" * self.chance.randrange(400)
        return {"id": id, "pk": pk, "v": v, "rank": rank_of(pk, id), "pad": pad, **other}

    async def write(self, do: str, pk: str, ids: list[str], v: str | None, status: int, call) -> None:
        """Makes a write with the SDK and records its result; `call` gets the hook for the answer's headers."""
        broken: list = []
        lost.set(broken)
        headers: dict = {}
        record = Write(self.notes.client, do, pk, ids, v, time.monotonic_ns(), 0, status=status)
        try:
            await call(lambda answered, *_: headers.update(answered))
        except (AzureError, asyncio.TimeoutError, OSError) as error:
            for name, value in failure_of(error).items():
                setattr(record, name, value)
        record.returned = time.monotonic_ns()
        record.lsn = lsn_of(headers)
        record.lost = max(0, len(broken) - (record.outcome == "unknown"))
        self.notes.add(record)

    async def create(self, pk: str, id: str, **other) -> None:
        v = self.notes.new_value()
        body = self.body(pk, id, v, **other)
        await self.write("create", pk, [id], v, 201, lambda hook: self.container.create_item(body, response_hook=hook))

    async def upsert(self, pk: str, id: str) -> None:
        v = self.notes.new_value()
        body = self.body(pk, id, v)
        await self.write("upsert", pk, [id], v, 200, lambda hook: self.container.upsert_item(body, response_hook=hook))

    async def replace(self, pk: str, id: str) -> None:
        v = self.notes.new_value()
        body = self.body(pk, id, v)
        call = self.container.replace_item
        await self.write("replace", pk, [id], v, 200, lambda hook: call(id, body, response_hook=hook))

    async def patch(self, pk: str, id: str) -> None:
        v = self.notes.new_value()
        await self._patched("patch", pk, id, v, [{"op": "set", "path": "/v", "value": v}])

    async def increment(self, pk: str, _: str) -> None:
        v = self.notes.new_value()
        changes = [{"op": "set", "path": "/v", "value": v}, {"op": "incr", "path": "/n", "value": 1}]
        await self._patched("increment", pk, COUNTER, v, changes)

    async def _patched(self, do: str, pk: str, id: str, v: str, changes: list[dict]) -> None:
        call = self.container.patch_item
        await self.write(do, pk, [id], v, 200, lambda hook: call(id, pk, changes, response_hook=hook))

    async def delete(self, pk: str, id: str) -> None:
        call = self.container.delete_item
        await self.write("delete", pk, [id], None, 204, lambda hook: call(id, pk, response_hook=hook))

    async def batch(self, pk: str, _: str) -> None:
        v = self.notes.new_value()
        operations = [("upsert", (self.body(pk, id, v),)) for id in BATCH_IDS]
        call = self.container.execute_item_batch
        await self.write("batch", pk, BATCH_IDS, v, 200, lambda hook: call(operations, pk, response_hook=hook))

    async def read(self, pk: str, id: str) -> None:
        async def pages(add) -> None:
            try:
                add([row_of(await self.container.read_item(id, pk))])
            except CosmosHttpResponseError as error:
                if error.status_code != 404 or error.sub_status:
                    raise
                add([])

        await look(self.notes, pages, do="read", wanted=[(pk, id)])

    async def read_counter(self, pk: str, _: str) -> None:
        await self.read(pk, COUNTER)

    async def read_many(self, *_) -> None:
        names = [(pk, id) for pk in self.keys for id in [*self.ids, COUNTER]]
        wanted = self.chance.sample(names, min(len(names), self.chance.randrange(2, 20)))

        async def pages(add) -> None:
            add([row_of(found) for found in await self.container.read_items([(id, pk) for pk, id in wanted])])

        await look(self.notes, pages, do="read_many", wanted=wanted)

    async def window(self, pk: str, _: str) -> None:
        """Reads a whole logical partition in one page, which shows one moment."""
        query = self.container.query_items(f"SELECT {FIELDS} FROM c", partition_key=pk, max_item_count=1000)
        await look(self.notes, lambda add: every_page(query.by_page(), add), do="window", covers={"pk": pk})

    # Cumulative numbers of each kind among a hundred operations.
    ACTS = [
        (8, create),
        (22, upsert),
        (31, replace),
        (39, patch),
        (46, delete),
        (54, increment),
        (60, batch),
        (82, read),
        (88, read_counter),
        (92, read_many),
        (100, window),
    ]


async def look(notes: Notes, pages, **about) -> None:
    """Reads pages with `pages(add)` and records them with their errors."""
    record = Look(notes.client, about.pop("do"), time.monotonic_ns(), 0, [], **about)
    try:
        await pages(lambda rows: record.pages.append((time.monotonic_ns(), rows)))
    except (AzureError, asyncio.TimeoutError, OSError) as error:
        for name, value in failure_of(error).items():
            setattr(record, name, value)
    record.returned = time.monotonic_ns()
    notes.add(record)


async def every_page(iterator, add) -> None:
    """Passes on the rows of each page."""
    async for page in iterator:
        add([row_of(found) async for found in page])


class Asker:
    """Queries over pages: the whole container, sorted, filtered, one logical partition, and with interruptions."""

    def __init__(self, container, notes: Notes, chance: random.Random, keys: list[str]):
        self.container, self.notes, self.chance, self.keys = container, notes, chance, keys

    async def step(self) -> None:
        await self.chance.choice([self.natural, self.ordered, self.filtered, self.partition, self.resumed])()

    def size(self) -> int:
        return self.chance.choice([5, 20, 50, 200])

    async def ask(self, do: str, text: str, options: dict | None = None, **about) -> None:
        query = self.container.query_items(text, max_item_count=self.size(), **(options or {}))
        await look(self.notes, lambda add: every_page(query.by_page(), add), do=do, **about)

    async def natural(self) -> None:
        await self.ask("natural", f"SELECT {FIELDS} FROM c")

    async def ordered(self) -> None:
        await self.ask("ordered", f"SELECT {FIELDS} FROM c ORDER BY c.rank", ordered=True)

    async def filtered(self) -> None:
        below = self.chance.randrange(1, RANKS)
        parameters = {"parameters": [{"name": "@below", "value": below}]}
        await self.ask("filtered", f"SELECT {FIELDS} FROM c WHERE c.rank < @below", parameters, covers={"below": below})

    async def partition(self) -> None:
        pk = self.chance.choice(self.keys)
        text = f"SELECT {FIELDS} FROM c ORDER BY c.rank"
        await self.ask("partition", text, {"partition_key": pk}, covers={"pk": pk}, ordered=True)

    async def resumed(self) -> None:
        """Runs a query that is interrupted after one or two pages and resumed from its continuation, repeatedly."""
        size, chance = self.size(), self.chance

        async def pages(add) -> None:
            token = None
            while True:
                found = self.container.query_items(f"SELECT {FIELDS} FROM c", max_item_count=size)
                iterator = found.by_page(token)
                for _ in range(chance.randrange(1, 3)):
                    try:
                        page = await iterator.__anext__()
                    except StopAsyncIteration:
                        return
                    add([row_of(found) async for found in page])
                token = iterator.continuation_token
                if not token:
                    return

        await look(self.notes, pages, do="resumed")


class Reader:
    """Reads the change feed by the feed ranges at the start, each from its continuation."""

    def __init__(self, container, notes: Notes, chance: random.Random, draining: asyncio.Event):
        self.container, self.notes, self.chance, self.draining = container, notes, chance, draining
        self.ranges: list[dict] = []
        self.tokens: list[str | None] = []

    async def step(self) -> None:
        """Reads some pages of one range."""
        if not self.ranges:
            await self._begin()
            return
        at_its_end = await self._some(self.chance.randrange(len(self.ranges)), self.chance.randrange(1, 4))
        if at_its_end and not self.draining.is_set():
            await self.notes.some_more()

    async def _begin(self) -> None:
        try:
            self.ranges = [found async for found in self.container.read_feed_ranges()]
        except (AzureError, asyncio.TimeoutError, OSError):
            return  # no history yet, so there is nothing to record: the next step begins again
        self.tokens = [None] * len(self.ranges)

    async def drain(self) -> None:
        """Reads every range to its end."""
        for place in range(len(self.ranges)):
            while not await self._some(place, None):
                pass

    async def _some(self, place: int, most: int | None) -> bool:
        """Reads a limited number of pages of a range. Returns True at the end of the range."""
        options = {"max_item_count": self.chance.choice([3, 10, 50])}
        if self.tokens[place]:
            options["continuation"] = self.tokens[place]
        else:
            options |= {"start_time": "Beginning", "feed_range": self.ranges[place]}
        count = 0
        page = FeedPage(self.notes.client, self.notes.client, place, time.monotonic_ns(), 0, [])
        try:
            async for found in self.container.query_items_change_feed(**options).by_page():
                page.rows = [(i["pk"], i["id"], i["v"], i["_lsn"], None) async for i in found]
                self._came(page)
                count += 1
                if count == most:
                    return False
                page = FeedPage(self.notes.client, self.notes.client, place, time.monotonic_ns(), 0, [])
            page.drained = True
            self._came(page)
            return True
        except (AzureError, asyncio.TimeoutError, OSError) as error:
            for name, value in failure_of(error).items():
                setattr(page, name, value)
            page.rows, page.returned = [], time.monotonic_ns()
            self.notes.add(page)
            return page.status != 0  # an error of the server would occur again

    def _came(self, page: FeedPage) -> None:
        # The SDK documents this attribute as the place of the continuation; no other task uses this client.
        self.tokens[page.range] = self.container.client_connection.last_response_headers["etag"]
        page.returned = time.monotonic_ns()
        self.notes.add(page)


async def steps(actor, stop: asyncio.Event) -> None:
    """Runs one step after the other until the client is told to stop."""
    while not stop.is_set():
        await actor.step()


async def work(plan: dict) -> None:
    notes = Notes(plan["client"], Path(plan["history"]))
    quiet, drain = asyncio.Event(), asyncio.Event()
    listening = asyncio.get_running_loop().run_in_executor(None, listen, asyncio.get_running_loop(), quiet, drain)
    async with new_client(plan) as client, new_client(plan) as feed_client:
        container = container_of(client, plan)
        chance = [random.Random(f"{plan['seed']}/{plan['client']}/{n}") for n in range(5)]
        reader = Reader(container_of(feed_client, plan), notes, chance[0], drain)
        actors = [Asker(container, notes, chance[1], plan["keys"] + plan["shared"])]
        halves = [plan["keys"][::2], plan["keys"][1::2], plan["shared"]]
        actors += [Writer(container, notes, chance[2 + n], keys, plan["ids"]) for n, keys in enumerate(halves)]
        reading = asyncio.create_task(steps(reader, drain))
        await asyncio.gather(*(steps(actor, quiet) for actor in actors))
        say("quiet")
        await drain.wait()
        notes.wake()
        await reading
        await reader.drain()
        say("drained")
    await listening


def listen(loop: asyncio.AbstractEventLoop, quiet: asyncio.Event, drain: asyncio.Event) -> None:
    """Turns lines into events; the end of the input is both events."""
    for line in sys.stdin:
        word = line.strip()
        if word in ("quiet", "drain"):
            loop.call_soon_threadsafe({"quiet": quiet, "drain": drain}[word].set)
        if word == "drain":
            return
    loop.call_soon_threadsafe(quiet.set)
    loop.call_soon_threadsafe(drain.set)


if __name__ == "__main__":
    asyncio.run(work(json.loads(sys.argv[1])))
