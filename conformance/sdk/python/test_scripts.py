"""Stored procedures that the table of scenarios leaves out, because each driver would wait for the end of their time."""

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError


def test_a_stored_procedure_that_never_ends_is_stopped(container):
    container.scripts.create_stored_procedure({"id": "forever", "body": "function () { while (true) { } }"})
    with pytest.raises(CosmosHttpResponseError) as failed:
        container.scripts.execute_stored_procedure("forever", partition_key="p", params=[])
    assert failed.value.status_code in (403, 408)
