"""Haystack: a document store with its filters and its three retrievers, in a pipeline."""

from azure.cosmos import PartitionKey
from haystack import Document, Pipeline
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import Secret
from haystack_azure_cosmosdb import (
    AzureCosmosDBNoSqlDocumentStore,
    AzureCosmosDBNoSqlEmbeddingRetriever,
    AzureCosmosDBNoSqlFullTextRetriever,
    AzureCosmosDBNoSqlHybridRetriever,
)
from operations import ENDPOINT, KEY, Program, equal, raises
from words import DIMENSIONS, TEXTS, vector

program = Program("haystack-azure-cosmosdb")
EMBEDDING = {"path": "/embedding", "dataType": "float32", "distanceFunction": "cosine", "dimensions": DIMENSIONS}
store = AzureCosmosDBNoSqlDocumentStore.from_uri_and_key(
    ENDPOINT,
    Secret.from_token(KEY),
    database_name=program.database,
    container_name="documents",
    vector_embedding_policy={"vectorEmbeddings": [EMBEDDING]},
    indexing_policy={
        "indexingMode": "consistent",
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": '/"_etag"/?'}],
        "vectorIndexes": [{"path": "/embedding", "type": "quantizedFlat"}],
        "fullTextIndexes": [{"path": "/content"}],
    },
    full_text_policy={"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/content", "language": "en-US"}]},
    # Two physical partitions, whose ranks the client fuses.
    cosmos_container_properties={"partition_key": PartitionKey(path="/id"), "offer_throughput": 12000},
    full_text_search_enabled=True,
)
DOCUMENTS = [
    Document(id=f"text-{number}", content=text, embedding=vector(text), meta={"page": number, "tags": [text.split()[0]]})
    for number, text in enumerate(TEXTS)
]


def filtered(field: str, operator: str, value) -> list[str]:
    found = store.filter_documents({"field": field, "operator": operator, "value": value})
    return sorted(document.id for document in found)


with program.operation("documents are written and counted"):
    equal(store.write_documents(DOCUMENTS), len(TEXTS))
    equal(store.count_documents(), len(TEXTS))

with program.operation("a document that is there is refused, skipped or written over, as asked"):
    raises(DuplicateDocumentError, store.write_documents, DOCUMENTS[:1], DuplicatePolicy.FAIL)
    equal(store.write_documents(DOCUMENTS[:1], DuplicatePolicy.SKIP), 0)
    equal(store.write_documents(DOCUMENTS[:1], DuplicatePolicy.OVERWRITE), 1)

with program.operation("all documents are read back as they were written"):
    found = {document.id: document for document in store.filter_documents()}
    equal(found["text-2"], DOCUMENTS[2])
    equal(len(found), len(TEXTS))

with program.operation("filters compare"):
    equal(filtered("meta.page", "==", 3), ["text-3"])
    equal(filtered("meta.page", "!=", 3), ["text-0", "text-1", "text-2", "text-4"])
    equal(filtered("meta.page", ">=", 3), ["text-3", "text-4"])
    equal(filtered("meta.page", "<", 2), ["text-0", "text-1"])

with program.operation("filters look into lists"):
    equal(filtered("meta.page", "in", [0, 4, 9]), ["text-0", "text-4"])
    equal(filtered("meta.page", "not in", [0, 1, 2]), ["text-3", "text-4"])

with program.operation("filters join with AND, OR and NOT"):
    above = {"field": "meta.page", "operator": ">", "value": 1}
    ship = {"field": "content", "operator": "==", "value": TEXTS[3]}
    for operator, count in (("AND", 1), ("OR", 3), ("NOT", 4)):
        equal((operator, len(store.filter_documents({"operator": operator, "conditions": [above, ship]}))), (operator, count))

with program.operation("a retrieval by vector finds the nearest with its score"):
    found = AzureCosmosDBNoSqlEmbeddingRetriever(document_store=store, top_k=2).run(vector("bread"))["documents"]
    equal((found[0].id, len(found)), ("text-2", 2))
    assert found[0].score > found[1].score

with program.operation("a retrieval by vector has a filter"):
    below = {"field": "meta.page", "operator": "<", "value": 2}
    found = AzureCosmosDBNoSqlEmbeddingRetriever(document_store=store, filters=below).run(vector("bread"))["documents"]
    equal(sorted(document.id for document in found), ["text-0", "text-1"])

with program.operation("a retrieval by words finds the text with the words"):
    found = AzureCosmosDBNoSqlFullTextRetriever(document_store=store, top_k=1).run("harbour sea")["documents"]
    equal([document.id for document in found], ["text-3"])

with program.operation("a hybrid retrieval fuses both, with weights"):
    retriever = AzureCosmosDBNoSqlHybridRetriever(document_store=store, top_k=2)
    equal(retriever.run(vector("soup"), "bread")["documents"][0].id, "text-2")
    found = retriever.run(vector("a ship"), "bread", weights=[1.0, 9.0])["documents"]
    equal(found[0].id, "text-3")

with program.operation("a pipeline with a retriever runs"):
    pipeline = Pipeline()
    pipeline.add_component("retriever", AzureCosmosDBNoSqlEmbeddingRetriever(document_store=store, top_k=1))
    found = pipeline.run({"retriever": {"query_embedding": vector("car engine wheels")}})
    equal([document.id for document in found["retriever"]["documents"]], ["text-1"])

with program.operation("documents are deleted"):
    store.delete_documents(["text-0", "text-1"])
    equal(store.count_documents(), len(TEXTS) - 2)

program.end()
