"""The order that the service gave to the vendor's hundred texts, as the vendor's .NET suite recorded it.

Promises: a ranking by the words of a text is that of the service, except for items with equal scores. The texts are
those of the Python suite, which asserts only which items are found.
"""

import hybrid_search_data
import pytest
import test_config
from azure.cosmos import CosmosClient
from azure.cosmos.partition_key import PartitionKey

JOHN = "FullTextContains(c.title, 'John') OR FullTextContains(c.text, 'John')"
JOHN_OR_STATES = f"{JOHN} OR FullTextContains(c.text, 'United States')"
BY_BOTH = "FullTextScore(c.title, 'John'), FullTextScore(c.text, 'United States')"

# The items in order; a set has items of equal scores, whose order differs from account to account.
STATES = [61, 51, 49, 54, 75, 24, 77, 76, 80, 2, 22]
RECORDED = {
    f"SELECT TOP 20 c.index FROM c WHERE {JOHN} ORDER BY RANK FullTextScore(c.title, 'John')": [2, {57, 85}],
    f"SELECT c.index FROM c WHERE {JOHN} ORDER BY RANK FullTextScore(c.title, 'John') OFFSET 1 LIMIT 5": [{57, 85}],
    f"SELECT TOP 20 c.index FROM c WHERE {JOHN_OR_STATES} ORDER BY RANK RRF({BY_BOTH})": [*STATES, {57, 85}],
    f"SELECT TOP 10 c.index FROM c WHERE {JOHN_OR_STATES} ORDER BY RANK RRF({BY_BOTH})": STATES[:10],
    f"SELECT c.index FROM c WHERE {JOHN_OR_STATES} ORDER BY RANK RRF({BY_BOTH}) OFFSET 5 LIMIT 10": [
        *STATES[5:],
        {57, 85},
    ],
    f"SELECT TOP 10 c.index FROM c ORDER BY RANK RRF({BY_BOTH})": STATES[:10],
    f"SELECT c.index FROM c ORDER BY RANK RRF({BY_BOTH}) OFFSET 0 LIMIT 11": STATES,
    f"SELECT TOP 20 c.index FROM c WHERE {JOHN_OR_STATES} ORDER BY RANK RRF({BY_BOTH}, [10, 10])": [
        *STATES,
        {57, 85},
    ],
    f"SELECT TOP 10 c.index FROM c WHERE {JOHN_OR_STATES} ORDER BY RANK RRF({BY_BOTH}, [0.1, 0.1])": STATES[:10],
    f"SELECT TOP 20 c.index FROM c WHERE {JOHN_OR_STATES} ORDER BY RANK RRF({BY_BOTH}, [-1, -1])": [
        {57, 85},
        {2, 22},
        *reversed(STATES[:9]),
    ],
}


@pytest.fixture(scope="module")
def container():
    client = CosmosClient(test_config.TestConfig.host, test_config.TestConfig.masterKey)
    database = client.create_database(test_config.unique_database_id("recorded-rankings"))
    container = database.create_container("texts", PartitionKey(path="/index"))
    for item in hybrid_search_data.get_full_text_items()["items"]:
        container.create_item({**item, "id": str(item["index"])})
    yield container
    client.delete_database(database.id)


@pytest.mark.cosmosSearchQuery
@pytest.mark.parametrize("query", RECORDED)
def test_a_ranking_by_words_has_the_recorded_order(container, query):
    rows = container.query_items(query, enable_cross_partition_query=True)
    answered = [row["index"] for row in rows]
    assert _with_ties_of(RECORDED[query], answered) == RECORDED[query]


def _with_ties_of(expected: list, answered: list) -> list:
    """Returns the answer with sets of items where `expected` has sets."""
    grouped, rest = [], list(answered)
    for entry in expected:
        count = len(entry) if isinstance(entry, set) else 1
        taken, rest = rest[:count], rest[count:]
        grouped.append(set(taken) if isinstance(entry, set) else taken[0] if taken else None)
    return grouped + rest
