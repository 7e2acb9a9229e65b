"""The export by OpenTelemetry, received and decoded by the collector's own receiver."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib" / "server"))

from azure.cosmos import CosmosClient, PartitionKey, exceptions  # noqa: E402
from orrery_server import Server, free_port  # noqa: E402

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SERVER_KIND = 2


class Receiver:
    """The receiver: a process that prints a line of JSON for each batch."""

    def __init__(self):
        self.port = free_port()
        ports = [f"-http={self.port}", f"-grpc={free_port()}"]
        self._process = subprocess.Popen(
            [os.environ["OTLP_RECEIVER"], *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert json.loads(self._process.stdout.readline()) == {"ready": True}

    def batches(self):
        """Ends the receiver and returns all batches."""
        self._process.stdin.close()
        lines = self._process.stdout.read().splitlines()
        assert self._process.wait() == 0
        return [json.loads(line) for line in lines]


def attributes(holder):
    """Returns attributes as plain values. JSON of OTLP has 64-bit numbers as texts."""

    def plain(value):
        ((kind, inner),) = value.items()
        if kind == "arrayValue":
            return [plain(one) for one in inner["values"]]
        return int(inner) if kind == "intValue" else inner

    return {one["key"]: plain(one["value"]) for one in holder.get("attributes", [])}


class Exported:
    """The batches of one run, and what the client saw meanwhile."""

    def __init__(self, batches, prometheus, charges):
        self.prometheus, self.charges = prometheus, charges
        self.spans, self.metrics, self.resources = [], [], []
        for batch in batches:
            for part in batch.get("resourceSpans", []):
                self.resources.append(attributes(part["resource"]))
                self.spans += [span for scope in part["scopeSpans"] for span in scope["spans"]]
            for part in batch.get("resourceMetrics", []):
                self.resources.append(attributes(part["resource"]))
                self.metrics.append([metric for scope in part["scopeMetrics"] for metric in scope["metrics"]])

    def span(self, name):
        (found,) = [span for span in self.spans if span["name"] == name]
        return found


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    receiver = Receiver()
    log = tmp_path_factory.mktemp("telemetry") / "server.log"
    # The server sends what is left when it stops, and the metrics at that time only.
    server = Server.start(log, "--memory", "--otlp-endpoint", f"http://127.0.0.1:{receiver.port}")
    endpoints = server.endpoints
    charges = {}

    def charge_of(name):
        def hook(response):
            charges[name] = float(response.http_response.headers["x-ms-request-charge"])

        return hook

    client = CosmosClient(endpoints.http, endpoints.key)
    orders = client.create_database("shop").create_container("orders", PartitionKey("/customer"))

    def trace(request):
        request.http_request.headers["traceparent"] = f"00-{TRACE}-{PARENT}-01"

    item = {"id": "1", "customer": "secret-ada"}
    orders.create_item(item, raw_request_hook=trace, raw_response_hook=charge_of("create_item orders"))
    query = "SELECT * FROM c WHERE c.customer = 'secret-ada'"
    hook = charge_of("query_items orders")
    rows = orders.query_items(query, partition_key="secret-ada", raw_response_hook=hook)
    assert len(list(rows)) == 1
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        orders.read_item("secret-none", "secret-ada")
    request = urllib.request.Request(endpoints.admin.rstrip("/") + "/metrics")
    request.add_header("authorization", f"Bearer {endpoints.admin_key}")
    prometheus = urllib.request.urlopen(request).read().decode()
    server.stop()
    return Exported(receiver.batches(), prometheus, charges)


def test_a_request_continues_the_trace_of_its_caller(exported):
    span = exported.span("create_item orders")
    assert (span["traceId"], span["parentSpanId"], span["kind"]) == (TRACE, PARENT, SERVER_KIND)
    assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    known = attributes(span)
    assert known["db.system.name"] == "azure.cosmosdb"
    assert (known["db.namespace"], known["db.collection.name"]) == ("shop", "orders")
    assert (known["db.operation.name"], known["db.response.status_code"]) == ("create_item", "201")
    assert known["azure.cosmosdb.operation.contacted_regions"] == ["South Central US"]


def test_the_charge_of_a_span_is_the_charge_that_the_client_got(exported):
    assert exported.charges.keys() == {"create_item orders", "query_items orders"}
    for name, charge in exported.charges.items():
        known = attributes(exported.span(name))
        assert known["azure.cosmosdb.operation.request_charge"] == charge


def test_a_query_has_its_form_and_its_rows_and_no_value_leaves_the_server(exported):
    known = attributes(exported.span("query_items orders"))
    assert known["db.query.text"].startswith("SELECT * FROM c WHERE c.customer =")
    assert known["db.response.returned_rows"] == 1
    assert "secret-" not in json.dumps(exported.spans)


def test_a_missing_item_is_no_failure_of_the_server(exported):
    span = exported.span("read_item orders")
    assert attributes(span)["db.response.status_code"] == "404"
    assert "code" not in span.get("status", {})


def test_all_batches_are_of_one_instance(exported):
    assert {one["service.name"] for one in exported.resources} == {"orrery"}
    assert len({one["service.instance.id"] for one in exported.resources}) == 1


def test_metrics_have_the_names_and_values_of_the_management_api(exported):
    (metrics,) = exported.metrics
    kinds = {"sum": "counter", "gauge": "gauge", "histogram": "histogram"}
    found = {one["name"]: kinds[kind] for one in metrics for kind in kinds if kind in one}
    expected = {}
    for line in exported.prometheus.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            expected[name] = kind
    assert found == {name: kind for name, kind in expected.items() if f"\n{name}" in exported.prometheus}

    (requests,) = [one for one in metrics if one["name"] == "orrery_requests_total"]
    assert requests["sum"]["isMonotonic"]
    for point in requests["sum"]["dataPoints"]:
        labels = ",".join(f'{key}="{value}"' for key, value in attributes(point).items())
        assert f"orrery_requests_total{{{labels}}} {point['asDouble']:g}\n" in exported.prometheus
