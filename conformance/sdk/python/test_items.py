"""Items: create, read, replace, upsert, delete, with and without conditions."""

import re

import pytest
from azure.core import MatchConditions
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue


def test_a_created_item_reads_back_with_its_system_properties(container):
    body = {"id": "1", "pk": "p", "title": "Hello", "tags": ["a", None, True, 1.5], "deep": {"er": {"n": -0.25}}}
    created = container.create_item(body)
    read = container.read_item("1", "p")
    for name, value in body.items():
        assert read[name] == value, name
    for name in ("_rid", "_self", "_etag", "_ts", "_attachments"):
        assert read[name] == created[name], name
    assert re.fullmatch(r'"[^"]+"', read["_etag"])
    assert read["_self"].endswith("/") and read["_rid"] in read["_self"]
    assert read["_attachments"] == "attachments/"
    assert isinstance(read["_ts"], int)


def test_the_etag_header_is_the_etag_of_the_body(container, answers):
    created = container.create_item({"id": "1", "pk": "p"})
    assert answers()[-1].headers["etag"] == created["_etag"]
    read = container.read_item("1", "p")
    assert answers()[-1].headers["etag"] == read["_etag"] == created["_etag"]


def test_system_properties_sent_by_the_caller_are_overwritten(container):
    created = container.create_item({"id": "1", "pk": "p", "_etag": '"mine"', "_ts": 1, "_rid": "mine", "_self": "mine"})
    assert created["_etag"] != '"mine"' and created["_ts"] != 1
    assert created["_rid"] != "mine" and created["_self"] != "mine"


def test_integers_stay_integers_and_large_numbers_keep_their_digits(container):
    container.create_item({"id": "1", "pk": "p", "one": 1, "big": 9007199254740991, "half": 0.5, "tiny": 1e-300})
    read = container.read_item("1", "p")
    assert read["one"] == 1 and isinstance(read["one"], int)
    assert read["big"] == 9007199254740991 and isinstance(read["big"], int)
    assert read["half"] == 0.5 and read["tiny"] == 1e-300


def test_creating_the_same_id_twice_in_one_logical_partition_is_a_conflict(container):
    container.create_item({"id": "1", "pk": "p"})
    with pytest.raises(CosmosResourceExistsError) as refused:
        container.create_item({"id": "1", "pk": "p"})
    assert refused.value.status_code == 409
    container.create_item({"id": "1", "pk": "q"})
    assert container.read_item("1", "q")["pk"] == "q"


def test_reading_with_the_wrong_partition_key_finds_nothing(container):
    container.create_item({"id": "1", "pk": "p"})
    with pytest.raises(CosmosResourceNotFoundError) as missing:
        container.read_item("1", "q")
    assert missing.value.status_code == 404
    assert not missing.value.sub_status
    with pytest.raises(CosmosResourceNotFoundError):
        container.delete_item("1", "q")
    assert container.read_item("1", "p")["id"] == "1"


def test_a_partition_key_header_unlike_the_body_is_refused(container):
    # The SDK takes the key from the body unless the request names another one.
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.create_item({"id": "1", "pk": "p"}, request_options={"partitionKey": "q"})
    assert refused.value.status_code == 400
    assert refused.value.sub_status == 1001


def test_a_replace_may_not_move_an_item_to_another_partition(container):
    container.create_item({"id": "1", "pk": "p"})
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.replace_item("1", {"id": "1", "pk": "q"}, request_options={"partitionKey": "p"})
    assert refused.value.status_code == 400
    assert refused.value.sub_status == 1001


def test_an_item_in_a_container_that_is_not_there_misses_its_owner(database):
    with pytest.raises(CosmosHttpResponseError) as missing:
        database.get_container_client("nowhere").read_item("1", "p")
    assert missing.value.status_code == 404


def test_items_without_the_key_and_with_a_null_key_live_apart(container):
    container.create_item({"id": "1", "which": "missing"})
    container.create_item({"id": "1", "pk": None, "which": "null"})
    assert container.read_item("1", NonePartitionKeyValue)["which"] == "missing"
    assert container.read_item("1", NullPartitionKeyValue)["which"] == "null"


@pytest.mark.parametrize("value", ["text", "", 0, 1, -1.5, True, False, "ключ", "a/b#c?d"])
def test_partition_keys_of_each_type_lead_back_to_their_item(container, value):
    container.create_item({"id": "1", "pk": value})
    assert container.read_item("1", value)["pk"] == value


def test_replacing_changes_the_body_and_the_etag(container):
    first = container.create_item({"id": "1", "pk": "p", "n": 1})
    second = container.replace_item("1", {"id": "1", "pk": "p", "n": 2})
    assert second["n"] == 2 and second["_etag"] != first["_etag"]
    assert second["_rid"] == first["_rid"]
    assert container.read_item("1", "p")["n"] == 2


def test_replacing_an_item_that_is_not_there_finds_nothing(container):
    with pytest.raises(CosmosResourceNotFoundError) as missing:
        container.replace_item("1", {"id": "1", "pk": "p"})
    assert missing.value.status_code == 404


def test_upsert_says_whether_it_created_or_replaced(container, answers):
    created = container.upsert_item({"id": "1", "pk": "p", "n": 1})
    assert answers()[-1].status == 201
    replaced = container.upsert_item({"id": "1", "pk": "p", "n": 2})
    assert answers()[-1].status == 200
    assert replaced["_rid"] == created["_rid"] and replaced["_etag"] != created["_etag"]


def test_deleting_removes_the_item_and_frees_its_id(container, answers):
    first = container.create_item({"id": "1", "pk": "p"})
    container.delete_item("1", "p")
    assert answers()[-1].status == 204 and answers()[-1].body_bytes == 0
    with pytest.raises(CosmosResourceNotFoundError):
        container.read_item("1", "p")
    with pytest.raises(CosmosResourceNotFoundError):
        container.delete_item("1", "p")
    assert container.create_item({"id": "1", "pk": "p"})["_rid"] != first["_rid"]


def test_a_stale_etag_fails_the_replace_and_the_delete(container):
    first = container.create_item({"id": "1", "pk": "p", "n": 1})
    second = container.replace_item(
        "1", {"id": "1", "pk": "p", "n": 2}, etag=first["_etag"], match_condition=MatchConditions.IfNotModified
    )
    with pytest.raises(CosmosAccessConditionFailedError) as refused:
        container.replace_item(
            "1", {"id": "1", "pk": "p", "n": 3}, etag=first["_etag"], match_condition=MatchConditions.IfNotModified
        )
    assert refused.value.status_code == 412
    with pytest.raises(CosmosAccessConditionFailedError) as refused:
        container.delete_item("1", "p", etag=first["_etag"], match_condition=MatchConditions.IfNotModified)
    assert refused.value.status_code == 412
    assert container.read_item("1", "p")["n"] == 2
    container.delete_item("1", "p", etag=second["_etag"], match_condition=MatchConditions.IfNotModified)


def test_a_stale_etag_fails_the_upsert_of_an_item_that_is_there(container):
    first = container.create_item({"id": "1", "pk": "p", "n": 1})
    container.upsert_item({"id": "1", "pk": "p", "n": 2})
    with pytest.raises(CosmosAccessConditionFailedError):
        container.upsert_item(
            {"id": "1", "pk": "p", "n": 3}, etag=first["_etag"], match_condition=MatchConditions.IfNotModified
        )
    assert container.read_item("1", "p")["n"] == 2


def test_reading_what_the_caller_already_has_says_not_modified(container, answers):
    item = container.create_item({"id": "1", "pk": "p", "n": 1})
    container.read_item("1", "p", etag=item["_etag"], match_condition=MatchConditions.IfModified)
    assert answers()[-1].status == 304
    assert answers()[-1].body_bytes == 0
    assert answers()[-1].headers["etag"] == item["_etag"]
    container.replace_item("1", {"id": "1", "pk": "p", "n": 2})
    read = container.read_item("1", "p", etag=item["_etag"], match_condition=MatchConditions.IfModified)
    assert answers()[-1].status == 200 and read["n"] == 2


@pytest.mark.parametrize(
    "id",
    ["a b", " leading", "a+b", "100%", "%20", "a&b=c", "a:b;c,d@e", "it's", 'say "hi"', "Привет", "日本語", "🙂 smile", "ü" * 200],
)
def test_an_id_of_any_characters_leads_back_to_its_item(container, id):
    container.create_item({"id": id, "pk": id, "n": 1})
    assert container.read_item(id, id)["id"] == id
    assert container.replace_item(id, {"id": id, "pk": id, "n": 2})["n"] == 2
    found = list(container.query_items("SELECT c.id FROM c WHERE c.id = @id", [{"name": "@id", "value": id}], id))
    assert found == [{"id": id}]
    container.delete_item(id, id)


def test_an_item_without_an_id_is_refused(container):
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.create_item({"pk": "p"})
    assert refused.value.status_code == 400


def test_an_item_over_two_megabytes_is_too_large(container):
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.create_item({"id": "1", "pk": "p", "text": "x" * (2 * 1024 * 1024 + 1024)})
    assert refused.value.status_code == 413
    assert "RequestEntityTooLarge" in refused.value.message
    container.create_item({"id": "1", "pk": "p", "text": "x" * (1024 * 1024)})
    assert len(container.read_item("1", "p")["text"]) == 1024 * 1024


def test_read_all_items_returns_every_item_page_by_page(wide_container, answers):
    ids = [f"{n:02}" for n in range(25)]
    for id in ids:
        wide_container.create_item({"id": id, "pk": id})
    assert sorted(i["id"] for i in wide_container.read_all_items()) == ids
    pages = [list(page) for page in wide_container.read_all_items(max_item_count=10).by_page()]
    assert all(len(page) <= 10 for page in pages)
    assert sorted(i["id"] for page in pages for i in page) == ids


def test_read_items_fetches_many_keys_at_once(wide_container):
    pairs = [(f"{n:02}", f"k{n}") for n in range(30)]
    for id, key in pairs:
        wide_container.create_item({"id": id, "pk": key})
    read = wide_container.read_items(pairs[::3] + [("nobody", "k1")])
    assert sorted(i["id"] for i in read) == [id for id, _ in pairs[::3]]


def test_unique_keys_hold_within_a_logical_partition(database):
    policy = {"uniqueKeys": [{"paths": ["/email"]}]}
    container = database.create_container("u", PartitionKey(path="/pk"), unique_key_policy=policy)
    container.create_item({"id": "1", "pk": "p", "email": "a@b"})
    with pytest.raises(CosmosResourceExistsError) as refused:
        container.create_item({"id": "2", "pk": "p", "email": "a@b"})
    assert refused.value.status_code == 409
    assert "Unique index constraint violation." in refused.value.message
    container.create_item({"id": "2", "pk": "q", "email": "a@b"})


def test_hierarchical_keys_route_items_and_prefixes(database):
    container = database.create_container(
        "h", PartitionKey(path=["/tenant", "/user"], kind="MultiHash"), offer_throughput=12_000
    )
    for tenant in ("t1", "t2"):
        for user in ("u1", "u2"):
            container.create_item({"id": "1", "tenant": tenant, "user": user})
    assert container.read_item("1", ["t1", "u2"])["user"] == "u2"
    users = [i["user"] for i in container.query_items("SELECT * FROM c", partition_key=["t1"])]
    assert sorted(users) == ["u1", "u2"]
