"""langchain-azure-cosmosdb: the vector store and its searches, the chat history, the cache of answers."""

import asyncio

from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsynchronousClient
from langchain_azure_cosmosdb import (
    AsyncAzureCosmosDBNoSqlVectorSearch,
    AsyncCosmosDBChatMessageHistory,
    AzureCosmosDBNoSqlSemanticCache,
    AzureCosmosDBNoSqlVectorSearch,
    CosmosDBChatMessageHistory,
)
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import Generation
from operations import ENDPOINT, KEY, Program, equal
from words import DIMENSIONS, TEXTS, vector


class Words(Embeddings):
    def embed_documents(self, texts):
        return [vector(text) for text in texts]

    def embed_query(self, text):
        return vector(text)


program = Program("langchain-azure-cosmosdb")
client = CosmosClient(ENDPOINT, KEY)
METADATA = [{"page": number, "subject": text.split()[0]} for number, text in enumerate(TEXTS)]
IDS = [f"text-{number}" for number in range(len(TEXTS))]


def settings(container: str) -> dict:
    """What both vector stores are made with: a container for searches by vector and by words."""
    embedding = {"path": "/embedding", "dataType": "float32", "distanceFunction": "cosine", "dimensions": DIMENSIONS}
    return {
        "embedding": Words(),
        "vector_embedding_policy": {"vectorEmbeddings": [embedding]},
        "full_text_policy": {
            "defaultLanguage": "en-US",
            "fullTextPaths": [{"path": "/text", "language": "en-US"}],
        },
        "indexing_policy": {
            "indexingMode": "consistent",
            "includedPaths": [{"path": "/*"}],
            "excludedPaths": [{"path": '/"_etag"/?'}],
            "vectorIndexes": [{"path": "/embedding", "type": "quantizedFlat"}],
            "fullTextIndexes": [{"path": "/text"}],
        },
        # Two physical partitions, whose ranks the client fuses.
        "cosmos_container_properties": {"partition_key": PartitionKey(path="/id"), "offer_throughput": 12000},
        "cosmos_database_properties": {},
        "vector_search_fields": {"text_field": "text", "embedding_field": "embedding"},
        "database_name": program.database,
        "container_name": container,
        "full_text_search_enabled": True,
    }


def texts(documents) -> list[str]:
    return [document.page_content for document in documents]


with program.operation("a vector store is created from texts"):
    store = AzureCosmosDBNoSqlVectorSearch.from_texts(
        TEXTS, metadatas=METADATA, ids=IDS, cosmos_client=client, **settings("vectors")
    )

with program.operation("a search finds the nearest texts with their metadata"):
    found = store.similarity_search("soup from the kitchen", k=2)
    equal((found[0].page_content, found[0].metadata["page"], len(found)), (TEXTS[2], 2, 2))

with program.operation("scores fall from the nearest text to the farthest"):
    scored = store.similarity_search_with_score("animals cats dogs", k=5)
    scores = [score for _, score in scored]
    equal((scored[0][0].page_content, len(scores)), (TEXTS[0], 5))
    equal(scores, sorted(scores, reverse=True))

with program.operation("a search has a condition, and an offset with a limit"):
    found = store.similarity_search("dogs", k=5, where="c.metadata.page > 0")
    equal((found[0].page_content, len(found)), (TEXTS[4], 4))
    found = store.similarity_search("dogs", offset_limit="OFFSET 1 LIMIT 1")
    equal(len(found), 1)

with program.operation("a search with a threshold leaves out what is far"):
    found = store.similarity_search("the sea", search_type="vector_score_threshold", k=5, threshold=0.9)
    equal(texts(found), [TEXTS[3]])

with program.operation("a search for words finds the texts that have them"):
    found = store.similarity_search(
        "", search_type="full_text_search", k=5, where="FullTextContains(c.text, 'harbour')"
    )
    equal(texts(found), [TEXTS[3]])

with program.operation("a ranking by words puts the text with the words first"):
    words = [{"search_field": "text", "search_text": "engine wheels"}]
    found = store.similarity_search("", search_type="full_text_ranking", k=2, full_text_rank_filter=words)
    equal(found[0].page_content, TEXTS[1])

with program.operation("a hybrid search fuses words and vectors"):
    words = [{"search_field": "text", "search_text": "bread"}]
    found = store.similarity_search("soup", search_type="hybrid", k=3, full_text_rank_filter=words)
    equal((found[0].page_content, len(found)), (TEXTS[2], 3))
    weighted = store.similarity_search(
        "a ship", search_type="hybrid", k=3, full_text_rank_filter=words, weights=[1.0, 9.0]
    )
    equal(weighted[0].page_content, TEXTS[3])

with program.operation("a search for marginal relevance spreads its results"):
    found = store.max_marginal_relevance_search("dogs and cats", k=3, fetch_k=5, lambda_mult=0.1)
    equal(len(set(texts(found))), 3)

with program.operation("a retriever answers with documents"):
    found = store.as_retriever(k=1).invoke("an engine")
    equal(texts(found), [TEXTS[1]])

with program.operation("texts are added and deleted by id"):
    equal(store.add_texts(["a cook bakes bread"], [{"page": 9}], ["added"]), ["added"])
    equal(store.similarity_search("cook", k=1)[0].metadata["page"], 9)
    equal(store.delete(["added"]), True)
    assert "a cook bakes bread" not in texts(store.similarity_search("cook", k=9))

with program.operation("a chat history is kept for its session, and cleared"):
    where = {"cosmos_endpoint": ENDPOINT, "credential": KEY, "cosmos_database": program.database}
    session = {**where, "cosmos_container": "history", "session_id": "one", "user_id": "ann"}
    with CosmosDBChatMessageHistory(**session) as history:
        history.add_message(HumanMessage("hello"))
        history.add_message(AIMessage("good day"))
    with CosmosDBChatMessageHistory(**session) as history:
        equal([message.content for message in history.messages], ["hello", "good day"])
        history.clear()
        history.load_messages()
        equal(history.messages, [])

with program.operation("answers are cached by the nearness of their questions"):
    cached = settings("answers")
    for name in ("full_text_policy", "full_text_search_enabled"):
        del cached[name]
    del cached["indexing_policy"]["fullTextIndexes"]
    cache = AzureCosmosDBNoSqlSemanticCache(cosmos_client=client, score_threshold=0.9, **cached)
    cache.update("what do cats eat", "model", [Generation(text="mice")])
    equal(cache.lookup("what do cats eat", "model")[0].text, "mice")
    equal(cache.lookup("ship", "model"), None)
    cache.clear(llm_string="model")
    equal(cache.lookup("what do cats eat", "model"), None)


async def asynchronously() -> None:
    async with AsynchronousClient(ENDPOINT, KEY) as asynchronous:
        with program.operation("the asynchronous store adds, searches and deletes"):
            store = await AsyncAzureCosmosDBNoSqlVectorSearch.create(
                cosmos_client=asynchronous, **settings("asynchronous")
            )
            await store.aadd_texts(TEXTS, METADATA, IDS)
            found = await store.asimilarity_search("a ship at sea", k=1)
            equal(texts(found), [TEXTS[3]])
            words = [{"search_field": "text", "search_text": "bread"}]
            found = await store.asimilarity_search("soup", search_type="hybrid", k=1, full_text_rank_filter=words)
            equal(texts(found), [TEXTS[2]])
            equal(await store.adelete(["text-3"]), True)

    with program.operation("the asynchronous chat history is read back"):
        session = {**where, "cosmos_container": "history", "session_id": "two", "user_id": "ann"}
        async with AsyncCosmosDBChatMessageHistory(**session) as history:
            await history.aadd_messages([HumanMessage("hello"), AIMessage("good day")])
        async with AsyncCosmosDBChatMessageHistory(**session) as history:
            equal([message.content for message in history.messages], ["hello", "good day"])


asyncio.run(asynchronously())
program.end()
