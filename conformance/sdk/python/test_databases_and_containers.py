"""Databases and containers: create, read, list, query, replace, delete, and the refusals."""

import pytest
from azure.cosmos import PartitionKey, ThroughputProperties
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceExistsError, CosmosResourceNotFoundError


def assert_system_properties(resource):
    assert resource["_rid"] and resource["_self"].endswith("/")
    assert resource["_etag"].startswith('"') and resource["_etag"].endswith('"')
    assert isinstance(resource["_ts"], int) and resource["_ts"] > 1_500_000_000


def test_a_created_database_can_be_read(client, unique):
    name = unique("db")
    database = client.create_database(name)
    read = database.read()
    assert read["id"] == name
    assert_system_properties(read)
    assert read["_colls"] == "colls/" and read["_users"] == "users/"
    client.delete_database(name)


def test_databases_are_listed_and_queried(client, database, unique):
    other = client.create_database(unique("db"))
    listed = {d["id"] for d in client.list_databases()}
    assert {database.id, other.id} <= listed
    paged = {d["id"] for d in client.list_databases(max_item_count=1)}
    assert {database.id, other.id} <= paged
    found = list(
        client.query_databases(
            query="SELECT * FROM root r WHERE r.id = @id", parameters=[{"name": "@id", "value": other.id}]
        )
    )
    assert [d["id"] for d in found] == [other.id]
    client.delete_database(other)


def test_a_database_that_exists_is_a_conflict(client, database, answers):
    with pytest.raises(CosmosResourceExistsError) as refused:
        client.create_database(database.id)
    assert refused.value.status_code == 409
    assert answers()[-1].status == 409
    assert client.create_database_if_not_exists(database.id).id == database.id


def test_a_deleted_database_is_gone_with_all_in_it(client, unique):
    database = client.create_database(unique("db"))
    container = database.create_container("c", PartitionKey(path="/pk"))
    client.delete_database(database)
    with pytest.raises(CosmosResourceNotFoundError) as missing:
        database.read()
    assert missing.value.status_code == 404
    with pytest.raises(CosmosResourceNotFoundError):
        container.read()
    with pytest.raises(CosmosResourceNotFoundError):
        client.delete_database(database.id)


def test_a_created_container_reads_back_with_its_defaults(database):
    container = database.create_container("posts", PartitionKey(path="/postId"))
    read = container.read()
    assert read["id"] == "posts"
    assert_system_properties(read)
    assert read["partitionKey"]["paths"] == ["/postId"]
    assert read["partitionKey"]["kind"] == "Hash"
    assert read["partitionKey"]["version"] == 2
    policy = read["indexingPolicy"]
    assert policy["indexingMode"] == "consistent" and policy["automatic"] is True
    assert [p["path"] for p in policy["includedPaths"]] == ["/*"]
    assert '/"_etag"/?' in [p["path"] for p in policy["excludedPaths"]]
    assert read["_docs"] == "docs/" and read["_sprocs"] == "sprocs/"


def test_the_rid_of_a_database_begins_the_rid_of_its_containers(database):
    import base64

    def decoded(rid):
        return base64.b64decode(rid.replace("-", "/"))

    container = database.create_container("c", PartitionKey(path="/pk"))
    item = container.create_item({"id": "1", "pk": "p"})
    database_rid, container_rid = decoded(database.read()["_rid"]), decoded(container.read()["_rid"])
    item_rid = decoded(item["_rid"])
    assert (len(database_rid), len(container_rid), len(item_rid)) == (4, 8, 16)
    assert container_rid.startswith(database_rid) and item_rid.startswith(container_rid)


def test_the_etag_path_is_added_to_the_excluded_paths_of_the_caller(database):
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/secret/*"}]}
    container = database.create_container("c", PartitionKey(path="/pk"), indexing_policy=policy)
    excluded = [p["path"] for p in container.read()["indexingPolicy"]["excludedPaths"]]
    assert sorted(excluded) == sorted(["/secret/*", '/"_etag"/?'])


def test_containers_are_listed_and_queried(database):
    for name in ("a", "b", "c"):
        database.create_container(name, PartitionKey(path="/pk"))
    assert sorted(c["id"] for c in database.list_containers()) == ["a", "b", "c"]
    assert sorted(c["id"] for c in database.list_containers(max_item_count=1)) == ["a", "b", "c"]
    found = list(
        database.query_containers("SELECT * FROM r WHERE r.id = @id", parameters=[{"name": "@id", "value": "b"}])
    )
    assert [c["id"] for c in found] == ["b"]


def test_replacing_a_container_changes_its_policies(database, container):
    policy = {
        "indexingMode": "consistent",
        "includedPaths": [{"path": "/title/?"}],
        "excludedPaths": [{"path": "/*"}],
        "compositeIndexes": [[{"path": "/title", "order": "ascending"}, {"path": "/n", "order": "descending"}]],
    }
    database.replace_container(container, PartitionKey(path="/pk"), indexing_policy=policy, default_ttl=3600)
    read = container.read()
    assert read["defaultTtl"] == 3600
    assert [p["path"] for p in read["indexingPolicy"]["includedPaths"]] == ["/title/?"]
    composite = read["indexingPolicy"]["compositeIndexes"]
    assert [(p["path"], p["order"]) for p in composite[0]] == [("/title", "ascending"), ("/n", "descending")]


def test_the_partition_key_of_a_container_cannot_be_replaced(database, container):
    with pytest.raises(CosmosHttpResponseError) as refused:
        database.replace_container(container, PartitionKey(path="/other"))
    assert refused.value.status_code == 400
    assert container.read()["partitionKey"]["paths"] == ["/pk"]


def test_a_container_that_exists_is_a_conflict(database, container):
    with pytest.raises(CosmosResourceExistsError) as refused:
        database.create_container(container.id, PartitionKey(path="/pk"))
    assert refused.value.status_code == 409
    again = database.create_container_if_not_exists(container.id, PartitionKey(path="/pk"))
    assert again.read()["_rid"] == container.read()["_rid"]


def test_a_deleted_container_is_gone_and_its_successor_has_a_new_rid(database):
    first = database.create_container("c", PartitionKey(path="/pk"))
    rid = first.read()["_rid"]
    first.create_item({"id": "1", "pk": "p"})
    database.delete_container("c")
    with pytest.raises(CosmosResourceNotFoundError) as missing:
        first.read()
    assert missing.value.status_code == 404
    second = database.create_container("c", PartitionKey(path="/pk"))
    assert second.read()["_rid"] != rid
    assert list(second.read_all_items()) == []


def test_an_error_is_a_json_object_with_code_and_message(database, answers):
    import json

    with pytest.raises(CosmosResourceNotFoundError):
        database.get_container_client("nowhere").read()
    answer = answers()[-1]
    error = json.loads(answer.error_text)
    assert error["code"] == "NotFound" and error["message"]
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert int(answer.headers["content-length"]) == answer.body_bytes


@pytest.mark.parametrize("throughput", [100, 450, 2_000_000])
def test_a_container_with_an_impossible_throughput_is_refused(database, throughput):
    with pytest.raises(CosmosHttpResponseError) as refused:
        database.create_container("c", PartitionKey(path="/pk"), offer_throughput=throughput)
    assert refused.value.status_code == 400


def test_throughput_is_read_and_replaced(database):
    container = database.create_container("c", PartitionKey(path="/pk"), offer_throughput=600)
    assert container.get_throughput().offer_throughput == 600
    assert container.replace_throughput(1200).offer_throughput == 1200
    assert container.get_throughput().offer_throughput == 1200
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.replace_throughput(50)
    assert refused.value.status_code == 400
    assert container.get_throughput().offer_throughput == 1200


def test_a_container_without_a_word_on_throughput_has_four_hundred(database):
    container = database.create_container("c", PartitionKey(path="/pk"))
    assert container.get_throughput().offer_throughput == 400


def test_autoscale_throughput_reads_back_its_maximum(database):
    autoscale = ThroughputProperties(auto_scale_max_throughput=4000, auto_scale_increment_percent=0)
    container = database.create_container("c", PartitionKey(path="/pk"), offer_throughput=autoscale)
    assert container.get_throughput().auto_scale_max_throughput == 4000


def test_a_database_can_share_its_throughput(client, unique):
    database = client.create_database(unique("db"), offer_throughput=800)
    assert database.get_throughput().offer_throughput == 800
    assert database.replace_throughput(1000).offer_throughput == 1000
    container = database.create_container("c", PartitionKey(path="/pk"))
    # There is no offer to find. This SDK turns its own 404 into an error of another kind while it retries.
    with pytest.raises((CosmosHttpResponseError, AttributeError)):
        container.get_throughput()
    client.delete_database(database)
