"""Session tokens: present on answers about items, ascending, and refused if the server has not reached them."""

import re

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError

TOKEN = re.compile(r"(?P<range>\d+):(?:(?P<version>-?\d+)#)?(?P<lsn>\d+)(?P<regions>(?:#\d+=\d+)*)")


def token_of(answer):
    match = TOKEN.fullmatch(answer.headers["x-ms-session-token"])
    assert match, f"not one session token: {answer.headers['x-ms-session-token']}"
    return match


def test_every_answer_on_items_carries_one_session_token(container, answers):
    container.create_item({"id": "1", "pk": "p"})
    token_of(answers()[-1])
    container.read_item("1", "p")
    token_of(answers()[-1])
    list(container.query_items("SELECT * FROM c", partition_key="p"))
    token_of(answers()[-1])
    with pytest.raises(CosmosHttpResponseError):
        container.read_item("nobody", "p")
    assert answers()[-1].status == 404
    token_of(answers()[-1])


def test_the_position_of_a_session_grows_with_each_write(container, answers):
    positions = []
    for n in range(5):
        container.upsert_item({"id": "1", "pk": "p", "n": n})
        positions.append(int(token_of(answers()[-1])["lsn"]))
    assert positions == sorted(set(positions))


def test_a_write_is_read_back_under_its_own_session_token(container, answers):
    container.create_item({"id": "1", "pk": "p"})
    token = answers()[-1].headers["x-ms-session-token"]
    assert container.read_item("1", "p", session_token=token)["id"] == "1"


def test_a_session_token_from_the_future_is_not_available(container, answers):
    container.create_item({"id": "1", "pk": "p"})
    token = token_of(answers()[-1])
    version = f"{token['version']}#" if token["version"] else ""
    ahead = f"{token['range']}:{version}{int(token['lsn']) + 1_000_000}{token['regions']}"
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.read_item("1", "p", session_token=ahead)
    assert refused.value.status_code == 404
    assert refused.value.sub_status == 1002


def test_a_client_reads_its_own_writes(container):
    for n in range(20):
        container.upsert_item({"id": "1", "pk": "p", "n": n})
        assert container.read_item("1", "p")["n"] == n
