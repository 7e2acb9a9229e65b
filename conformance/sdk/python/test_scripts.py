"""Stored procedures, triggers and user-defined functions: stored as text, executed in a transaction."""

from urllib.parse import unquote

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceExistsError, CosmosResourceNotFoundError

GREET = """
function greet(name, times) {
    getContext().getResponse().setBody({ text: 'Good morning, ' + name, times: times });
}
"""

# Creates `count` items, then throws if the argument says so.
CREATE_MANY = """
function createMany(pk, count, fail) {
    var collection = getContext().getCollection();
    var created = 0;
    create();
    function create() {
        if (created === count) {
            if (fail) throw new Error(4444, 'told to fail');
            getContext().getResponse().setBody(created);
            return;
        }
        var accepted = collection.createDocument(collection.getSelfLink(), { id: String(created), pk: pk }, function (err) {
            if (err) throw err;
            created++;
            create();
        });
        if (!accepted) throw new Error('not accepted');
    }
}
"""

SUM_BY_QUERY = """
function sum(minimum) {
    var collection = getContext().getCollection();
    var query = { query: 'SELECT VALUE c.n FROM c WHERE c.n >= @m', parameters: [{ name: '@m', value: minimum }] };
    collection.queryDocuments(collection.getSelfLink(), query, {}, function (err, values) {
        if (err) throw err;
        getContext().getResponse().setBody(values.reduce(function (a, b) { return a + b; }, 0));
    });
}
"""

STAMP = """
function stamp() {
    var request = getContext().getRequest();
    var item = request.getBody();
    item.stamped = request.getOperationType();
    request.setBody(item);
}
"""

AUDIT = """
function audit() {
    var collection = getContext().getCollection();
    var item = getContext().getResponse().getBody();
    var accepted = collection.createDocument(collection.getSelfLink(), { id: 'audit-' + item.id, pk: item.pk }, function (err) {
        if (err) throw err;
    });
    if (!accepted) throw new Error('not accepted');
}
"""

REFUSE = "function refuse() { throw new Error(4001, 'never'); }"


def ids(container, pk="p"):
    return sorted(container.query_items("SELECT VALUE c.id FROM c", partition_key=pk))


@pytest.fixture
def procedure(container):
    """Stores a procedure and returns a function that calls it."""

    def store(id, body):
        container.scripts.create_stored_procedure({"id": id, "body": body})
        return lambda *params, pk="p", **options: container.scripts.execute_stored_procedure(
            id, partition_key=pk, params=list(params), **options
        )

    return store


def test_a_stored_procedure_is_kept_as_it_was_written(container):
    scripts = container.scripts
    created = scripts.create_stored_procedure({"id": "greet", "body": GREET})
    assert created["body"] == GREET and created["_rid"] and created["_etag"]
    assert scripts.get_stored_procedure("greet")["body"] == GREET
    assert [s["id"] for s in scripts.list_stored_procedures()] == ["greet"]
    found = scripts.query_stored_procedures(
        "SELECT * FROM s WHERE s.id = @id", parameters=[{"name": "@id", "value": "greet"}]
    )
    assert [s["id"] for s in found] == ["greet"]
    with pytest.raises(CosmosResourceExistsError):
        scripts.create_stored_procedure({"id": "greet", "body": GREET})
    replaced = scripts.replace_stored_procedure("greet", {"id": "greet", "body": "function () { }"})
    assert replaced["body"] == "function () { }" and replaced["_etag"] != created["_etag"]
    scripts.delete_stored_procedure("greet")
    with pytest.raises(CosmosResourceNotFoundError):
        scripts.get_stored_procedure("greet")


def test_a_stored_procedure_answers_with_its_arguments(procedure):
    assert procedure("greet", GREET)("Ines", 3) == {"text": "Good morning, Ines", "times": 3}


def test_a_stored_procedure_writes_in_one_transaction(container, procedure):
    assert procedure("many", CREATE_MANY)("p", 5, False) == 5
    assert ids(container) == ["0", "1", "2", "3", "4"]


def test_a_throw_rolls_everything_back_and_its_number_is_the_sub_status(container, procedure):
    with pytest.raises(CosmosHttpResponseError) as failed:
        procedure("many", CREATE_MANY)("p", 5, True)
    assert failed.value.status_code == 400
    assert failed.value.sub_status == 4444
    assert "told to fail" in failed.value.message
    assert ids(container) == []


def test_a_throw_without_a_number_has_no_sub_status(procedure):
    with pytest.raises(CosmosHttpResponseError) as failed:
        procedure("throw", "function () { throw new Error('plain words'); }")()
    assert failed.value.status_code == 400
    assert not failed.value.sub_status
    assert "plain words" in failed.value.message


def test_a_stored_procedure_sees_only_its_own_partition(container, procedure):
    for n in range(6):
        container.create_item({"id": str(n), "pk": "even" if n % 2 == 0 else "odd", "n": n})
    total = procedure("sum", SUM_BY_QUERY)
    assert total(0, pk="even") == 6 and total(2, pk="odd") == 8 and total(0, pk="nobody") == 0


def test_a_stored_procedure_may_not_write_into_another_partition(container, procedure):
    with pytest.raises(CosmosHttpResponseError) as failed:
        procedure("many", CREATE_MANY)("other", 1, False)
    assert failed.value.status_code == 400
    assert ids(container) == [] and ids(container, "other") == []


def test_the_console_is_sent_only_when_asked_for(procedure, answers):
    call = procedure("log", "function (a, b) { console.log('The value of %s is %s.', a, b); }")
    call("x", 1, enable_script_logging=True)
    log = answers()[-1].headers["x-ms-documentdb-script-log-results"]
    assert "The value of x is 1." in unquote(log) and " " not in log
    call("x", 1)
    assert "x-ms-documentdb-script-log-results" not in answers()[-1].headers
    call("x", 1, enable_script_logging=False)
    assert "x-ms-documentdb-script-log-results" not in answers()[-1].headers


def test_the_response_body_can_be_appended_to(procedure):
    body = "function () { for (var i = 0; i < 10; i++) getContext().getResponse().appendBody(i); }"
    assert int(procedure("append", body)()) == 123456789


def test_a_stored_procedure_that_does_not_compile_fails_when_it_is_called(procedure):
    call = procedure("broken", "function () { return ( }")
    with pytest.raises(CosmosHttpResponseError) as failed:
        call()
    assert failed.value.status_code == 400
    assert failed.value.sub_status == 65535


def test_a_stored_procedure_that_never_ends_is_stopped(procedure):
    with pytest.raises(CosmosHttpResponseError) as failed:
        procedure("forever", "function () { while (true) { } }")()
    assert failed.value.status_code in (403, 408)


def test_a_stored_procedure_that_is_not_there_is_not_found(container):
    with pytest.raises(CosmosResourceNotFoundError):
        container.scripts.execute_stored_procedure("nobody", partition_key="p", params=[])


def test_triggers_are_stored_listed_replaced_and_deleted(container):
    scripts = container.scripts
    trigger = {"id": "stamp", "body": STAMP, "triggerType": "pre", "triggerOperation": "ALL"}
    created = scripts.create_trigger(trigger)
    assert {name: created[name] for name in trigger} == trigger
    assert [t["id"] for t in scripts.list_triggers()] == ["stamp"]
    replaced = scripts.replace_trigger("stamp", {**trigger, "triggerOperation": "Create"})
    assert replaced["triggerOperation"] == "Create"
    scripts.delete_trigger("stamp")
    with pytest.raises(CosmosResourceNotFoundError):
        scripts.get_trigger("stamp")


def test_a_pre_trigger_rewrites_what_is_stored(container):
    container.scripts.create_trigger({"id": "stamp", "body": STAMP, "triggerType": "Pre", "triggerOperation": "All"})
    created = container.create_item({"id": "1", "pk": "p"}, pre_trigger_include="stamp")
    assert created["stamped"] == "Create"
    assert container.read_item("1", "p")["stamped"] == "Create"
    replaced = container.replace_item("1", {"id": "1", "pk": "p"}, pre_trigger_include="stamp")
    assert replaced["stamped"] == "Replace"
    assert "stamped" not in container.create_item({"id": "2", "pk": "p"})


def test_a_post_trigger_writes_in_the_same_transaction(container):
    container.scripts.create_trigger({"id": "audit", "body": AUDIT, "triggerType": "Post", "triggerOperation": "Create"})
    container.create_item({"id": "1", "pk": "p"}, post_trigger_include="audit")
    assert ids(container) == ["1", "audit-1"]


@pytest.mark.parametrize("kind", ["Pre", "Post"])
def test_a_trigger_that_throws_undoes_the_write(container, kind):
    container.scripts.create_trigger({"id": "refuse", "body": REFUSE, "triggerType": kind, "triggerOperation": "All"})
    with pytest.raises(CosmosHttpResponseError) as failed:
        container.create_item({"id": "1", "pk": "p"}, **{f"{kind.lower()}_trigger_include": "refuse"})
    assert failed.value.status_code == 400
    assert failed.value.sub_status == 4001
    assert ids(container) == []


def test_a_trigger_of_the_wrong_kind_or_operation_is_refused(container):
    container.scripts.create_trigger({"id": "post", "body": AUDIT, "triggerType": "Post", "triggerOperation": "All"})
    container.scripts.create_trigger({"id": "delete", "body": STAMP, "triggerType": "Pre", "triggerOperation": "Delete"})
    for name in ("post", "delete"):
        with pytest.raises(CosmosHttpResponseError) as refused:
            container.create_item({"id": "1", "pk": "p"}, pre_trigger_include=name)
        assert refused.value.status_code == 400
    assert ids(container) == []


def test_a_user_defined_function_computes_in_a_query(container):
    scripts = container.scripts
    scripts.create_user_defined_function({"id": "tax", "body": "function (price) { return price * 0.5; }"})
    assert [f["id"] for f in scripts.list_user_defined_functions()] == ["tax"]
    for n in range(4):
        container.create_item({"id": str(n), "pk": "p", "price": n})
    text = "SELECT c.id, udf.tax(c.price) AS tax FROM c WHERE udf.tax(c.price) > 0.6 ORDER BY c.id"
    assert list(container.query_items(text, partition_key="p")) == [{"id": "2", "tax": 1}, {"id": "3", "tax": 1.5}]
    scripts.replace_user_defined_function("tax", {"id": "tax", "body": "function (price) { return price * 2; }"})
    assert list(container.query_items("SELECT VALUE udf.tax(21) FROM c WHERE c.id = '0'", partition_key="p")) == [42]
    scripts.delete_user_defined_function("tax")
    with pytest.raises(CosmosResourceNotFoundError):
        scripts.get_user_defined_function("tax")


def test_a_query_with_an_unknown_function_is_refused(container):
    container.create_item({"id": "1", "pk": "p"})
    with pytest.raises(CosmosHttpResponseError) as refused:
        list(container.query_items("SELECT VALUE udf.nobody(1) FROM c", partition_key="p"))
    assert refused.value.status_code == 400


def test_the_number_of_a_function_that_throws_is_the_sub_status(container):
    container.create_item({"id": "1", "pk": "p"})
    container.scripts.create_user_defined_function({"id": "refuse", "body": REFUSE})
    with pytest.raises(CosmosHttpResponseError) as failed:
        list(container.query_items("SELECT VALUE udf.refuse() FROM c", partition_key="p"))
    assert failed.value.status_code == 400
    assert failed.value.sub_status == 4001
