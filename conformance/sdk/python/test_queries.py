"""Queries: one partition and many, parameters, aggregates, order, paging, joins, and refusals."""

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError

# Twelve people in three cities; ages 20, 21, … 31.
CITIES = ("Oslo", "Riga", "Rome")
PEOPLE = [
    {
        "id": f"{n:02}",
        "pk": CITIES[n % 3],
        "age": 20 + n,
        "team": "red" if n % 2 else "blue",
        "tags": [f"t{n % 4}", "all"],
        "name": {"first": f"Name{n:02}"},
    }
    for n in range(12)
]


@pytest.fixture
def people(container):
    for person in PEOPLE:
        container.create_item(person)
    return container


@pytest.fixture
def scattered(wide_container):
    """The same twelve items, each with a partition key of its own, in two physical partitions."""
    for person in PEOPLE:
        wide_container.create_item({**person, "city": person["pk"], "pk": person["id"]})
    return wide_container


def ask(container, text, parameters=None, **options):
    values = [{"name": name, "value": value} for name, value in (parameters or {}).items()]
    if "partition_key" not in options:
        options["enable_cross_partition_query"] = True
    return list(container.query_items(text, parameters=values, **options))


def test_a_query_in_one_partition_sees_only_that_partition(people):
    found = ask(people, "SELECT * FROM c", partition_key="Riga")
    assert sorted(p["id"] for p in found) == ["01", "04", "07", "10"]
    assert all("_rid" in p and "_etag" in p for p in found)


def test_a_query_over_all_partitions_sees_every_item(people):
    assert len(ask(people, "SELECT * FROM c")) == 12


@pytest.mark.parametrize("where", ["people", "scattered"])
class TestTheSameAnswerOnOnePhysicalPartitionAndOnTwo:
    """Each query runs on both containers and must have the same result."""

    @pytest.fixture
    def target(self, where, scheme, request):
        return request.getfixturevalue(where)

    def test_filters_compare_and_combine(self, target):
        text = "SELECT VALUE c.id FROM c WHERE c.age >= 25 AND (c.team = 'red' OR c.age IN (28)) AND NOT (c.age > 30)"
        assert sorted(ask(target, text)) == ["05", "07", "08", "09"]

    def test_parameters_of_each_type_are_bound(self, target):
        text = "SELECT VALUE c.id FROM c WHERE c.age > @age AND c.team = @team AND ARRAY_CONTAINS(@ids, c.id)"
        found = ask(target, text, {"@age": 22, "@team": "blue", "@ids": ["02", "04", "06", "07"]})
        assert sorted(found) == ["04", "06"]

    def test_nested_properties_and_functions_work_in_a_projection(self, target):
        text = "SELECT c.name.first AS first, UPPER(c.team) AS team FROM c WHERE STARTSWITH(c.id, '1') ORDER BY c.id"
        assert ask(target, text) == [{"first": "Name10", "team": "BLUE"}, {"first": "Name11", "team": "RED"}]

    def test_order_by_sorts_up_and_down(self, target):
        assert ask(target, "SELECT VALUE c.age FROM c ORDER BY c.age") == list(range(20, 32))
        assert ask(target, "SELECT VALUE c.age FROM c ORDER BY c.age DESC") == list(range(31, 19, -1))

    def test_order_by_sorts_in_pages(self, target):
        assert ask(target, "SELECT VALUE c.age FROM c ORDER BY c.age DESC", max_item_count=5) == list(range(31, 19, -1))

    def test_top_keeps_the_first(self, target):
        assert ask(target, "SELECT TOP 3 VALUE c.age FROM c ORDER BY c.age DESC") == [31, 30, 29]

    def test_offset_and_limit_cut_a_window(self, target):
        assert ask(target, "SELECT VALUE c.age FROM c ORDER BY c.age OFFSET 4 LIMIT 3") == [24, 25, 26]

    @pytest.mark.parametrize(
        ("aggregate", "expected"),
        [("COUNT(1)", 12), ("SUM(c.age)", 306), ("MIN(c.age)", 20), ("MAX(c.age)", 31), ("AVG(c.age)", 25.5)],
    )
    def test_an_aggregate_counts_every_item_once(self, target, aggregate, expected):
        assert ask(target, f"SELECT VALUE {aggregate} FROM c") == [expected]

    def test_distinct_leaves_one_of_each(self, target):
        assert sorted(ask(target, "SELECT DISTINCT VALUE c.team FROM c")) == ["blue", "red"]

    def test_group_by_gathers_across_partitions(self, target):
        rows = ask(target, "SELECT c.team, COUNT(1) AS n, SUM(c.age) AS ages FROM c GROUP BY c.team")
        assert sorted(rows, key=lambda r: r["team"]) == [
            {"team": "blue", "n": 6, "ages": 150},
            {"team": "red", "n": 6, "ages": 156},
        ]

    def test_a_join_unfolds_the_arrays_of_an_item(self, target):
        text = "SELECT c.id, t AS tag FROM c JOIN t IN c.tags WHERE c.age < 22"
        rows = {(r["id"], r["tag"]) for r in ask(target, text)}
        assert rows == {("00", "t0"), ("00", "all"), ("01", "t1"), ("01", "all")}

    def test_exists_asks_a_subquery(self, target):
        text = "SELECT VALUE c.id FROM c WHERE EXISTS (SELECT VALUE t FROM t IN c.tags WHERE t = 't3')"
        assert sorted(ask(target, text)) == ["03", "07", "11"]


def test_aggregates_in_one_partition(people):
    row = "SELECT COUNT(1) AS n, MIN(c.age) AS youngest, MAX(c.age) AS oldest, AVG(c.age) AS mean FROM c"
    assert ask(people, row, partition_key="Oslo") == [{"n": 4, "youngest": 20, "oldest": 29, "mean": 24.5}]
    assert ask(people, "SELECT VALUE SUM(c.age) FROM c", partition_key="Oslo") == [98]


def test_group_by_in_one_partition(people):
    rows = ask(people, "SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team", partition_key="Rome")
    assert sorted(rows, key=lambda r: r["team"]) == [{"team": "blue", "n": 2}, {"team": "red", "n": 2}]


def test_null_and_missing_are_not_the_same(container):
    container.create_item({"id": "1", "pk": "p", "x": None})
    container.create_item({"id": "2", "pk": "p"})
    assert ask(container, "SELECT VALUE c.x FROM c", partition_key="p") == [None]
    assert ask(container, "SELECT VALUE c.id FROM c WHERE IS_DEFINED(c.x)", partition_key="p") == ["1"]
    assert ask(container, "SELECT VALUE c.id FROM c WHERE IS_NULL(c.x)", partition_key="p") == ["1"]
    assert ask(container, "SELECT VALUE COUNT(c.x) FROM c", partition_key="p") == [1]


def test_values_of_all_types_sort_in_their_order(container):
    values = [None, False, True, -1, 2.5, "", "a", "b"]
    for n, value in enumerate(reversed(values)):
        container.create_item({"id": str(n), "pk": "p", "x": value})
    assert ask(container, "SELECT VALUE c.x FROM c ORDER BY c.x", partition_key="p") == values


def test_integers_in_results_stay_integers(container):
    container.create_item({"id": "1", "pk": "p", "n": 1})
    (value,) = ask(container, "SELECT VALUE c.n FROM c", partition_key="p")
    assert isinstance(value, int)


def test_pages_hold_at_most_what_was_asked_and_lose_nothing(people):
    pages = [list(page) for page in people.query_items("SELECT * FROM c", partition_key="Oslo", max_item_count=3).by_page()]
    assert all(len(page) <= 3 for page in pages)
    assert sorted(p["id"] for page in pages for p in page) == ["00", "03", "06", "09"]


@pytest.mark.parametrize("options", [{"partition_key": "Oslo"}, {"enable_cross_partition_query": True}])
def test_a_continuation_resumes_in_another_iterator(people, options):
    text = "SELECT VALUE c.id FROM c"
    whole = list(people.query_items(text, **options))
    found, token, rounds = [], None, 0
    while True:
        pages = people.query_items(text, max_item_count=3, **options).by_page(token)
        page = list(next(pages))
        assert len(page) <= 3
        found += page
        token = pages.continuation_token
        rounds += 1
        if not token:
            break
        assert rounds <= 20, "the continuation never ends"
    assert found == whole
    assert rounds >= 2


def test_a_continuation_that_is_not_one_is_refused(people):
    with pytest.raises(CosmosHttpResponseError) as refused:
        list(next(people.query_items("SELECT * FROM c", partition_key="Oslo").by_page("not a token")))
    assert refused.value.status_code == 400


def test_the_last_page_has_no_continuation(people, answers):
    list(people.query_items("SELECT * FROM c", partition_key="Oslo", max_item_count=100))
    assert "x-ms-continuation" not in answers()[-1].headers


def test_a_query_can_be_narrowed_to_a_feed_range(scattered):
    ranges = list(scattered.read_feed_ranges())
    assert len(ranges) == 2
    parts = [list(scattered.query_items("SELECT VALUE c.id FROM c", feed_range=range)) for range in ranges]
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == [p["id"] for p in PEOPLE]


def test_a_query_without_a_partition_must_be_allowed_to_cross(scattered):
    with pytest.raises(CosmosHttpResponseError) as refused:
        list(scattered.query_items("SELECT * FROM c WHERE c.age > 1"))
    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("SELECT * FORM c", "SC1001", "Syntax error, incorrect syntax near"),
        ("SELECT * FROM c WHERE", "SC1002", "Syntax error, unexpected end-of-file"),
        ("SELECT * FROM c;", "SC1010", "Syntax error, invalid token"),
    ],
)
def test_a_query_that_does_not_parse_says_where(container, text, code, message):
    with pytest.raises(CosmosHttpResponseError) as refused:
        ask(container, text, partition_key="p")
    assert refused.value.status_code == 400
    assert code in refused.value.message and message in refused.value.message


def test_an_unknown_function_is_refused(container):
    with pytest.raises(CosmosHttpResponseError) as refused:
        ask(container, "SELECT VALUE NO_SUCH(c.a) FROM c", partition_key="p")
    assert refused.value.status_code == 400
    assert "SC2005" in refused.value.message


def test_query_metrics_come_when_asked_for(people, answers):
    list(people.query_items("SELECT * FROM c", partition_key="Oslo", populate_query_metrics=True))
    metrics = answers()[-1].headers["x-ms-documentdb-query-metrics"]
    named = dict(piece.split("=") for piece in metrics.split(";"))
    assert int(named["outputDocumentCount"]) == 4
    list(people.query_items("SELECT * FROM c", partition_key="Oslo"))
    assert "x-ms-documentdb-query-metrics" not in answers()[-1].headers
