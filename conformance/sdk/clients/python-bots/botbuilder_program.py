"""botbuilder-azure: the state of a bot in a partitioned container."""

import asyncio

from botbuilder.azure import CosmosDbPartitionedConfig, CosmosDbPartitionedStorage
from botbuilder.core import StoreItem, UserState
from botbuilder.core.adapters import TestAdapter
from operations import ENDPOINT, KEY, Program, equal

program = Program("botbuilder-azure")


class Note(StoreItem):
    def __init__(self, text: str, e_tag: str = "*"):
        super().__init__()
        self.text = text
        self.e_tag = e_tag


def storage(**more) -> CosmosDbPartitionedStorage:
    where = {"cosmos_db_endpoint": ENDPOINT, "auth_key": KEY, "database_id": program.database}
    return CosmosDbPartitionedStorage(CosmosDbPartitionedConfig(container_id="bots", **where, **more))


async def main() -> None:
    store = storage()

    with program.operation("a storage creates its database and container"):
        await store.initialize()
        equal(store.container.read()["partitionKey"]["paths"], ["/id"])

    with program.operation("a second storage uses the container that is there"):
        await storage().initialize()

    with program.operation("items are written and read"):
        await store.write({"one": Note("first"), "two": Note("second")})
        read = await store.read(["one", "two"])
        equal({key: item.text for key, item in read.items()}, {"one": "first", "two": "second"})

    with program.operation("an item that is not there is left out"):
        equal(list(await store.read(["one", "absent"])), ["one"])

    with program.operation("keys with characters that ids must not have are kept"):
        key = "channel/user?#1\\2"
        await store.write({key: Note("escaped")})
        equal((await store.read([key]))[key].text, "escaped")

    with program.operation("a long key is kept"):
        key = "k" * 255
        await store.write({key: Note("long")})
        equal((await store.read([key]))[key].text, "long")

    with program.operation("an item is written over under its etag"):
        note = (await store.read(["one"]))["one"]
        note.text = "changed"
        await store.write({"one": note})
        equal((await store.read(["one"]))["one"].text, "changed")

    with program.operation("a stale etag is refused"):
        note.text = "lost"
        try:
            await store.write({"one": note})
        except Exception as refused:  # noqa: BLE001
            equal(getattr(refused, "status_code", None), 412)
        else:
            raise AssertionError("written")

    with program.operation("items are deleted, and again without an error"):
        await store.delete(["two"])
        await store.delete(["two"])
        equal(await store.read(["two"]), {})

    with program.operation("a suffix keeps the items of two bots apart"):
        first, second = storage(key_suffix="-first"), storage(key_suffix="-second")
        await first.write({"state": Note("of the first")})
        equal(await second.read(["state"]), {})
        equal((await first.read(["state"]))["state"].text, "of the first")

    with program.operation("the state of a user lives over turns"):
        state = UserState(store)
        count = state.create_property("count")

        async def turn(context):
            number = await count.get(context, lambda: 0) + 1
            await count.set(context, number)
            await state.save_changes(context)
            await context.send_activity(str(number))

        adapter = TestAdapter(turn)
        flow = await adapter.test("hello", "1")
        flow = await flow.test("again", "2")
        await flow.test("again", "3")


asyncio.run(main())
program.end()
