"""Every case: its query on its data set returns its rows."""

import json

from azure.cosmos.exceptions import CosmosHttpResponseError

from comparing import is_answer

# Messages of this SDK for queries that it never sends to several partitions.
CLIENT_REFUSES = "Cross partition query only supports 'VALUE <AggregateFunc>'"


def test_case(case, container_of):
    rows = _answer(case, container_of)
    assert is_answer(rows, case), f"expected {_short(case.expected)}, got {_short(rows)} for {case.query}"


def _answer(case, container_of) -> list:
    """Returns the rows from several logical partitions if case and client allow it, else from a single one."""
    if case.spread:
        container = container_of(case.dataset, spread=True)
        try:
            return list(container.query_items(case.query, case.parameters, enable_cross_partition_query=True))
        except CosmosHttpResponseError as refused:
            if CLIENT_REFUSES not in str(refused):
                raise
    container = container_of(case.dataset, spread=False)
    return list(container.query_items(case.query, case.parameters, partition_key="p"))


def _short(value) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:400]}…"
