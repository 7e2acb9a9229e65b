"""Which files of the suite run here, the slowest first.

The query part: every file with the mark `cosmosQuery` or `cosmosSearchQuery`, and those of `cosmosEmulator` whose
subject is a query, a page of one or the reading of many items by one.
"""

CHOSEN = (
    "test_query_hybrid_search.py",
    "test_query_hybrid_search_async.py",
    "test_query_vector_similarity.py",
    "test_query_vector_similarity_async.py",
    "test_query.py",
    "test_query_async.py",
    "test_query_cross_partition.py",
    "test_query_cross_partition_async.py",
    "test_query_feed_range.py",
    "test_query_feed_range_async.py",
    "test_query_feed_range_multipartition.py",
    "test_query_feed_range_multipartition_async.py",
    "test_query_response_headers.py",
    "test_query_response_headers_async.py",
    "test_query_execution_context.py",
    "test_aggregate.py",
    "test_orderby.py",
    "test_multi_orderby.py",
    "test_computed_properties.py",
    "test_computed_properties_async.py",
    "test_change_feed.py",
    "test_change_feed_async.py",
    "test_change_feed_all_versions.py",
    "test_change_feed_all_versions_async.py",
    "test_full_text_policy.py",
    "test_full_text_policy_async.py",
    "test_vector_policy.py",
    "test_vector_policy_async.py",
    "test_read_items.py",
    "test_read_items_async.py",
    "test_partition_key.py",
    "test_partition_key_async.py",
    "test_none_options.py",
    "test_none_options_async.py",
)

# For every change: one client of the two, and of the other the files in which it has a path of its own.
QUICK = tuple(file for file in CHOSEN if "_async" not in file and file != "test_read_items.py") + (
    "test_query_async.py",
    "test_query_feed_range_multipartition_async.py",
)
