"""Semantic Kernel: the vector store with its collections.

The older memory store is left out: its package imports a module that this version no longer has.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from azure.cosmos.aio import CosmosClient
from operations import ENDPOINT, KEY, Program, equal
from semantic_kernel.connectors.azure_cosmos_db import CosmosNoSqlCollection, CosmosNoSqlCompositeKey, CosmosNoSqlStore
from semantic_kernel.data.vector import VectorStoreField, vectorstoremodel
from words import DIMENSIONS, TEXTS, vector

program = Program("semantic-kernel")


@vectorstoremodel
@dataclass
class Text:
    id: Annotated[str, VectorStoreField("key")]
    text: Annotated[str, VectorStoreField("data", is_full_text_indexed=True)]
    page: Annotated[int, VectorStoreField("data", is_indexed=True)]
    vector: Annotated[
        list[float] | None,
        VectorStoreField(
            "vector", dimensions=DIMENSIONS, index_kind="flat", distance_function="cosine_similarity", type="float"
        ),
    ] = None


RECORDS = [Text(f"text-{number}", text, number, vector(text)) for number, text in enumerate(TEXTS)]


async def found(collection, text: str, **more) -> list[str]:
    answer = await collection.search(vector=vector(text), vector_property_name="vector", **more)
    return [result.record.id async for result in answer.results]


async def collections(client: CosmosClient) -> None:
    where = {"url": ENDPOINT, "key": KEY, "database_name": program.database, "cosmos_client": client}
    store = CosmosNoSqlStore(**where, create_database=True)
    texts = store.get_collection(Text, collection_name="texts")

    with program.operation("a collection is created with its database, and found"):
        equal(await texts.collection_exists(), False)
        await texts.ensure_collection_exists()
        await texts.ensure_collection_exists()
        equal((await texts.collection_exists(), await store.list_collection_names()), (True, ["texts"]))

    with program.operation("records are upserted, one and many"):
        equal(await texts.upsert(RECORDS[0]), "text-0")
        equal(sorted(await texts.upsert(RECORDS)), [record.id for record in RECORDS])

    with program.operation("records are read by key, with and without vectors"):
        equal((await texts.get("text-2", include_vectors=True)).vector, vector(TEXTS[2]))
        read = await texts.get(["text-1", "text-3", "absent"])
        equal(sorted((record.id, record.vector) for record in read), [("text-1", None), ("text-3", None)])

    with program.operation("a search finds the nearest records with their scores"):
        answer = await texts.search(vector=vector("bread and soup"), vector_property_name="vector", top=2)
        results = [result async for result in answer.results]
        equal((results[0].record.text, len(results)), (TEXTS[2], 2))
        assert results[0].score > results[1].score

    with program.operation("a search has a filter"):
        equal(await found(texts, "cats", top=5, filter=lambda text: text.page > 2), ["text-4", "text-3"])
        equal(await found(texts, "cats", top=5, filter=f"lambda text: text.text == '{TEXTS[1]}'"), ["text-1"])

    with program.operation("records are deleted by key"):
        await texts.delete(["text-0", "text-1"])
        equal(await texts.get("text-0"), None)
        equal(len(await found(texts, "cats", top=9)), 3)

    with program.operation("a collection with a partition key of its own has composite keys"):
        pages = CosmosNoSqlCollection(Text, collection_name="pages", partition_key="text", **where)
        await pages.ensure_collection_exists()
        await pages.upsert(RECORDS)
        await pages.delete(CosmosNoSqlCompositeKey(key="text-2", partition_key=TEXTS[2]))
        read = await pages.get([f"text-{number}" for number in range(len(TEXTS))])
        equal(sorted(record.id for record in read), ["text-0", "text-1", "text-3", "text-4"])

    with program.operation("a collection is deleted"):
        await texts.ensure_collection_deleted()
        equal((await texts.collection_exists(), await store.list_collection_names()), (False, ["pages"]))


async def main() -> None:
    async with CosmosClient(ENDPOINT, KEY) as client:
        await collections(client)


asyncio.run(main())
program.end()
