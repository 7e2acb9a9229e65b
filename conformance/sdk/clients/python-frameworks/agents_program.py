"""microsoft-agents-storage-cosmos: the state of an agent in a partitioned container."""

import asyncio

from microsoft_agents.hosting.core.storage import StoreItem
from microsoft_agents.storage.cosmos import CosmosDBStorage, CosmosDBStorageConfig
from operations import ENDPOINT, KEY, Program, equal

program = Program("microsoft-agents-storage-cosmos")


class Note(StoreItem):
    def __init__(self, text: str):
        self.text = text

    def store_item_to_json(self) -> dict:
        return {"text": self.text}

    @staticmethod
    def from_json_to_store_item(json_data: dict) -> "Note":
        return Note(json_data["text"])


def storage(container: str = "agents", **more) -> CosmosDBStorage:
    where = {"cosmos_db_endpoint": ENDPOINT, "auth_key": KEY, "database_id": program.database}
    return CosmosDBStorage(CosmosDBStorageConfig(container_id=container, **where, **more))


async def texts(store: CosmosDBStorage, *keys: str) -> dict[str, str]:
    return {key: note.text for key, note in (await store.read(list(keys), target_cls=Note)).items()}


async def main() -> None:
    store = storage()

    with program.operation("a storage creates its database and container"):
        await store.initialize()
        equal((await store._container.read())["partitionKey"]["paths"], ["/id"])

    with program.operation("a second storage uses the container that is there"):
        second = storage()
        await second.initialize()
        await second._close()

    with program.operation("a storage with a throughput creates its container"):
        paid = storage("paid", container_throughput=800)
        await paid.initialize()
        equal((await paid._container.get_throughput()).offer_throughput, 800)
        await paid._close()

    with program.operation("items are written and read"):
        await store.write({"one": Note("first"), "two": Note("second")})
        equal(await texts(store, "one", "two"), {"one": "first", "two": "second"})

    with program.operation("an item that is not there is left out"):
        equal(await texts(store, "one", "absent"), {"one": "first"})

    with program.operation("an item is written over"):
        await store.write({"one": Note("changed")})
        equal(await texts(store, "one"), {"one": "changed"})

    with program.operation("keys with characters that ids must not have are kept"):
        key = "channel/user?#1\\2*3"
        await store.write({key: Note("escaped")})
        equal(await texts(store, key), {key: "escaped"})

    with program.operation("a key longer than an id is cut in compatibility mode"):
        long = storage("long", compatibility_mode=True)
        key = "k" * 2000
        await long.write({key: Note("long")})
        equal(await texts(long, key), {key: "long"})
        await long._close()

    with program.operation("a suffix keeps the items of two agents apart"):
        first, second = storage(key_suffix="-first"), storage(key_suffix="-second")
        await first.write({"state": Note("of the first")})
        equal(await texts(second, "state"), {})
        equal(await texts(first, "state"), {"state": "of the first"})
        await first._close()
        await second._close()

    with program.operation("many items are written at once"):
        await store.write({f"many-{number}": Note(str(number)) for number in range(50)})
        equal(len(await texts(store, *(f"many-{number}" for number in range(60)))), 50)

    with program.operation("items are deleted, and again without an error"):
        await store.delete(["one", "two"])
        await store.delete(["one"])
        equal(await texts(store, "one", "two"), {})

    await store._close()


asyncio.run(main())
program.end()
