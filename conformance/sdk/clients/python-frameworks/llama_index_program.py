"""LlamaIndex: its vector store under an index, and its chat store.

The chat store's own reads and the document, index and key-value stores are left out: they call the current SDK without
the partition key that it asks for, so they reach no server.
"""

from azure.cosmos import CosmosClient, PartitionKey
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.storage.chat_store.azurecosmosnosql import AzureCosmosNoSqlChatStore
from llama_index.vector_stores.azurecosmosnosql import AzureCosmosDBNoSqlVectorSearch
from operations import ENDPOINT, KEY, Program, equal
from words import DIMENSIONS, TEXTS, vector


class Words(BaseEmbedding):
    def _get_query_embedding(self, query):
        return vector(query)

    async def _aget_query_embedding(self, query):
        return vector(query)

    def _get_text_embedding(self, text):
        return vector(text)


program = Program("llama-index-vector-stores-azurecosmosnosql")
CONNECTION = f"AccountEndpoint={ENDPOINT};AccountKey={KEY};"
EMBEDDING = {"path": "/embedding", "dataType": "float32", "distanceFunction": "cosine", "dimensions": DIMENSIONS}
SETTINGS = {
    "vector_embedding_policy": {"vectorEmbeddings": [EMBEDDING]},
    "indexing_policy": {
        "indexingMode": "consistent",
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": '/"_etag"/?'}],
        "vectorIndexes": [{"path": "/embedding", "type": "quantizedFlat"}],
    },
    # Two physical partitions, whose rows the client merges.
    "cosmos_container_properties": {"partition_key": PartitionKey(path="/id"), "offer_throughput": 12000},
    "cosmos_database_properties": {},
    "database_name": program.database,
}


def node(number: int) -> TextNode:
    text = TEXTS[number]
    return TextNode(id_=f"text-{number}", text=text, embedding=vector(text), metadata={"page": number})


def nearest(store, text: str, count: int = 1, **filters) -> list[str]:
    found = store.query(VectorStoreQuery(query_embedding=vector(text), similarity_top_k=count), **filters)
    return found.ids


store = None
with program.operation("a vector store is created from an address and a key"):
    store = AzureCosmosDBNoSqlVectorSearch.from_host_and_key(ENDPOINT, KEY, container_name="nodes", **SETTINGS)

with program.operation("a vector store is opened again from a connection string"):
    AzureCosmosDBNoSqlVectorSearch.from_connection_string(CONNECTION, container_name="nodes", **SETTINGS)

with program.operation("nodes are added, and added again"):
    equal(store.add([node(number) for number in range(4)]), [f"text-{number}" for number in range(4)])
    equal(store.add([node(0)]), ["text-0"])

with program.operation("a query finds the nearest node with its text and metadata"):
    found = store.query(VectorStoreQuery(query_embedding=vector("bread and soup"), similarity_top_k=2))
    equal((found.ids[0], found.nodes[0].get_content(), found.nodes[0].metadata["page"]), ("text-2", TEXTS[2], 2))
    equal((len(found.ids), found.similarities), (2, sorted(found.similarities, reverse=True)))

with program.operation("a query has a condition"):
    condition = {"where_clause": "WHERE c.metadata.page > 0"}
    equal(nearest(store, "cats", 4, pre_filter=condition)[0] != "text-0", True)
    equal(len(nearest(store, "cats", 4, pre_filter=condition)), 3)

with program.operation("a query has an offset and a limit"):
    page = {"limit_offset_clause": "OFFSET 1 LIMIT 2"}
    equal(len(nearest(store, "cats", pre_filter=page)), 2)

with program.operation("an index over the store takes documents and retrieves them"):
    held = AzureCosmosDBNoSqlVectorSearch(
        CosmosClient(ENDPOINT, KEY), container_name="documents", **SETTINGS
    )
    documents = [Document(text=text, doc_id=f"document-{number}") for number, text in enumerate(TEXTS)]
    context = StorageContext.from_defaults(vector_store=held)
    index = VectorStoreIndex.from_documents(documents, storage_context=context, embed_model=Words(), transformations=[])
    found = index.as_retriever(similarity_top_k=1).retrieve("a ship at sea")
    equal([result.node.get_content() for result in found], [TEXTS[3]])

with program.operation("an index is opened over the store that is there"):
    opened = VectorStoreIndex.from_vector_store(held, embed_model=Words())
    found = opened.as_retriever(similarity_top_k=2).retrieve("engine and wheels")
    equal((found[0].node.get_content(), len(found)), (TEXTS[1], 2))

with program.operation("the nodes of a document are deleted"):
    (shown,) = opened.as_retriever(similarity_top_k=1).retrieve("a ship at sea")
    held.delete(shown.node.ref_doc_id)
    left = opened.as_retriever(similarity_top_k=9).retrieve("a ship at sea")
    equal(sorted(result.node.get_content() for result in left), sorted(set(TEXTS) - {TEXTS[3]}))

chats = None
with program.operation("a chat store is created from a connection string"):
    properties = {"partition_key": PartitionKey(path="/id")}
    chats = AzureCosmosNoSqlChatStore.from_connection_string(CONNECTION, program.database, "chats", properties, {})

with program.operation("the messages of two chats are set, and their keys listed"):
    chats.set_messages("ann", [ChatMessage(role="user", content="hello")])
    chats.set_messages("ann", [ChatMessage(role="user", content="hello again")])
    chats.set_messages("bob", [ChatMessage(role="user", content="good day")])
    equal(sorted(chats.get_keys()), ["ann", "bob"])

program.end()
