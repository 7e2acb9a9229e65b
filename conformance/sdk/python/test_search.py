"""Searches by geometry, vector and text, and the container policies that they need."""

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

from conftest import PLENTY_RU, TWO_PARTITIONS_RU

VECTORS = {
    "vectorEmbeddings": [{"path": "/v", "dataType": "float32", "dimensions": 2, "distanceFunction": "euclidean"}]
}
TEXTS = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text", "language": "en-US"}]}
INDEXES = {
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": "/v/*"}, {"path": '/"_etag"/?'}],
    "vectorIndexes": [{"path": "/v", "type": "flat"}],
    "fullTextIndexes": [{"path": "/text"}],
}
# Items with higher numbers are farther away and contain the word "river" less often.
POSTS = [
    {
        "id": f"{n:02}",
        "pk": str(n),
        "v": [n, 0],
        "at": {"type": "Point", "coordinates": [n / 10, 50]},
        "text": f"{'river ' * (4 - n)}boats and houses" if n < 4 else f"The quiet harbour of post number {n}",
    }
    for n in range(12)
]


@pytest.fixture(params=[PLENTY_RU, TWO_PARTITIONS_RU], ids=["one partition", "two partitions"])
def posts(database, request):
    container = database.create_container(
        "posts",
        PartitionKey(path="/pk"),
        indexing_policy=INDEXES,
        vector_embedding_policy=VECTORS,
        full_text_policy=TEXTS,
        offer_throughput=request.param,
    )
    for post in POSTS:
        container.create_item(post)
    return container


def ask(container, text, **options):
    if "partition_key" not in options:
        options["enable_cross_partition_query"] = True
    parameters = [{"name": "@v", "value": [4.9, 0]}]
    return [row["id"] for row in container.query_items(text, parameters=parameters, **options)]


def test_the_policies_of_a_container_read_back(posts):
    properties = posts.read()
    assert properties["vectorEmbeddingPolicy"] == VECTORS
    assert properties["fullTextPolicy"] == TEXTS
    assert properties["indexingPolicy"]["vectorIndexes"] == INDEXES["vectorIndexes"]
    assert properties["indexingPolicy"]["fullTextIndexes"] == INDEXES["fullTextIndexes"]


def test_places_are_found_by_distance(posts):
    here = '{"type": "Point", "coordinates": [0.5, 50]}'
    found = ask(posts, f"SELECT c.id FROM c WHERE ST_DISTANCE(c.at, {here}) < 16000")
    assert sorted(found) == ["03", "04", "05", "06", "07"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("VectorDistance(c.v, @v)", ["05", "04", "06"]),
        ("RANK FullTextScore(c.text, 'river')", ["00", "01", "02"]),
        ("RANK RRF(FullTextScore(c.text, 'river'), VectorDistance(c.v, [1.9, 0]))", ["02", "01", "00"]),
        ("RANK RRF(FullTextScore(c.text, 'river'), VectorDistance(c.v, @v), [0.01, 1])", ["05", "04", "06"]),
    ],
)
def test_the_best_come_first(posts, order, expected):
    text = f"SELECT TOP 3 c.id FROM c ORDER BY {order}"
    assert ask(posts, text) == expected
    assert ask(posts, text, max_item_count=1) == expected


def test_a_text_is_found_by_its_stems_and_phrases(posts):
    assert sorted(ask(posts, "SELECT c.id FROM c WHERE FullTextContainsAll(c.text, 'rivers', 'house')")) == [
        "00",
        "01",
        "02",
        "03",
    ]
    assert len(ask(posts, "SELECT c.id FROM c WHERE FullTextContains(c.text, 'Quiet Harbour')")) == 8
    assert ask(posts, "SELECT c.id FROM c WHERE FullTextContains(c.text, 'harbour quiet')") == []


def test_an_order_beside_a_rank_is_refused(posts):
    for order in ("VectorDistance(c.v, [1, 1]) ASC", "RANK FullTextScore(c.text, 'river') DESC"):
        with pytest.raises(CosmosHttpResponseError) as refusal:
            ask(posts, f"SELECT TOP 3 c.id FROM c ORDER BY {order}")
        assert refusal.value.status_code == 400
        assert "ASC or DESC" in refusal.value.message


def test_a_policy_that_does_not_fit_is_refused(database):
    with pytest.raises(CosmosHttpResponseError) as refusal:
        database.create_container("wrong", PartitionKey(path="/pk"), indexing_policy=INDEXES)
    assert refusal.value.status_code == 400
    assert "/v not matching in Embedding's path" in refusal.value.message


def test_what_is_said_of_vectors_cannot_be_changed(database, posts):
    other = {"vectorEmbeddings": [{**VECTORS["vectorEmbeddings"][0], "dimensions": 3}]}
    with pytest.raises(CosmosHttpResponseError) as refusal:
        database.replace_container(
            posts,
            PartitionKey(path="/pk"),
            indexing_policy=INDEXES,
            vector_embedding_policy=other,
            full_text_policy=TEXTS,
        )
    assert "Paths in existing embedding policy cannot be modified" in refusal.value.message
