"""The selection of the suite's tests.

The suite marks its tests by the account that they need; a test runs here if it has one of `MARKS`. Tests without a
mark need no server, and tests with another mark need features that one server does not have: several write regions, a
failover that the client does not trigger, a second index as a container.
"""

import re
from pathlib import Path

# Marks for an emulator, for an account with long tests, for one whose partitions split, and for one that searches.
MARKS = ("cosmosEmulator", "cosmosQuery", "cosmosLong", "cosmosSplit", "cosmosSearchQuery", "cosmosCircuitBreaker")

# Files that have such a mark, with the reason for which they do not run.
LEFT_OUT = {
    name: "every test needs an account with two named regions that are both written to"
    for name in (
        "test_excluded_locations.py",
        "test_excluded_locations_async.py",
        "test_per_partition_circuit_breaker_mm.py",
        "test_per_partition_circuit_breaker_mm_async.py",
    )
}

# The files with the longest duration begin first.
SLOW = (
    "test_crud",
    "test_retry_policy_async",
    "test_query_hybrid_search",
    "test_excluded_locations_emulator",
    "test_circuit_breaker_emulator",
    "test_query_vector_similarity",
    "test_query",
    "test_cosmos_http_logging_policy",
    "test_changefeed_partition_key_variation",
)

# Files of our own beside the suite's, which use its data.
OWN = ("test_recorded_rankings.py",)

# The selection for every change: for each subject one of the two clients, and no test that mostly waits.
QUICK = (
    "test_query_hybrid_search.py",
    *OWN,
    "test_query_vector_similarity.py",
    "test_query.py",
    "test_query_async.py",
    "test_query_cross_partition.py",
    "test_query_feed_range.py",
    "test_query_feed_range_multipartition.py",
    "test_query_feed_range_multipartition_async.py",
    "test_query_execution_context.py",
    "test_aad.py",
    "test_aggregate.py",
    "test_orderby.py",
    "test_multi_orderby.py",
    "test_computed_properties.py",
    "test_change_feed.py",
    "test_full_text_policy.py",
    "test_vector_policy.py",
    "test_partition_key.py",
    "test_none_options.py",
    "test_auto_scale.py",
    "test_change_feed_all_versions.py",
    "test_container_properties_cache.py",
    "test_cosmos_responses.py",
    "test_crud_container.py",
    "test_crud_database.py",
    "test_crud_response_payload_on_write_disabled.py",
    "test_crud_subpartition.py",
    "test_headers.py",
    "test_resource_id.py",
    "test_transactional_batch_async.py",
)


def chosen(tests: Path) -> list[str]:
    """Returns the files with tests to run, those with the longest duration first."""
    marked = re.compile(rf"pytest\.mark\.({'|'.join(MARKS)})\b")
    files = [file.name for file in sorted(tests.glob("test_*.py")) if marked.search(file.read_text(encoding="utf-8"))]
    return sorted((file for file in [*files, *OWN] if file not in LEFT_OUT), key=_haste)


def _haste(file: str) -> int:
    return next((place for place, start in enumerate(SLOW) if file.startswith(start)), len(SLOW))


def selection() -> str:
    """Returns the same selection as an expression of marks for pytest."""
    return " or ".join(MARKS)
