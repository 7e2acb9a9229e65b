"""The requests of the .NET SDK (Microsoft.Azure.Cosmos 3) in gateway mode, for the replays.

Written from what is known of the protocol, not from a trace of the SDK: the order of its calls, its headers, the
lower-case escapes of its signature, and what it takes from the answers. An object of the SDK with the same name is named beside each call.

Leaves out: retries, caches, telemetry, and the plans of queries that the SDK makes on Windows without the service.
"""

import base64
import hashlib
import hmac
import json
import ssl
import urllib.error
import urllib.request
import uuid
from email.utils import formatdate
from urllib.parse import quote

FEATURES = ("Aggregate, CompositeAggregate, CountIf, DCount, Distinct, GroupBy, HybridSearch, ListAndSetAggregate, "
            "MultipleAggregates, MultipleOrderBy, NonStreamingOrderBy, NonValueAggregate, OffsetAndLimit, OrderBy, Top")  # fmt: skip


def parsed(connection_string: str) -> dict[str, str]:
    """The parts of a connection string, in any order, as `DbConnectionStringBuilder` reads them."""
    pairs = (part.split("=", 1) for part in connection_string.split(";") if part)
    return {name.strip().lower(): value for name, value in pairs}


class Refused(Exception):
    def __init__(self, status: int, body: str):
        super().__init__(f"{status}: {body}")
        self.status = status


class CosmosClient:
    """`CosmosClient` with ConnectionMode.Gateway."""

    def __init__(self, connection_string: str, context: ssl.SSLContext | None = None, limit_to_endpoint: bool = False):
        said = parsed(connection_string)
        self.endpoint, self.key = said["accountendpoint"].rstrip("/"), said["accountkey"]
        if said.get("disableservercertificatevalidation", "").lower() == "true":
            context = ssl._create_unverified_context()
        self.context, self.limited, self.located = context, limit_to_endpoint, None

    def read_account(self) -> dict:
        """`ReadAccountAsync`: the first request of every client."""
        account = self.call("GET", "/", "", "", base=self.endpoint)[0]
        # `GlobalEndpointManager` goes to the address that the account names, unless LimitToEndpoint is set.
        self.located = self.endpoint if self.limited else account["writableLocations"][0]["databaseAccountEndpoint"].rstrip("/")
        json.loads(account["queryEngineConfiguration"])
        assert account["userConsistencyPolicy"]["defaultConsistencyLevel"], account
        return account

    def create_database_if_not_exists(self, name: str) -> int:
        """`CreateDatabaseIfNotExistsAsync`: a read, and a creation after 404."""
        return self.create_if_not_exists("dbs", "", f"dbs/{name}", {"id": name})

    def create_container_if_not_exists(self, database: str, name: str, path: str) -> int:
        key = {"paths": [path], "kind": "Hash", "version": 2}
        return self.create_if_not_exists("colls", f"dbs/{database}", f"dbs/{database}/colls/{name}",
                                         {"id": name, "partitionKey": key})  # fmt: skip

    def create_if_not_exists(self, kind: str, parent: str, link: str, body: dict) -> int:
        try:
            self.call("GET", f"/{link}", kind, link)
            return 200
        except Refused as refused:
            if refused.status != 404:
                raise
        self.call("POST", f"/{parent}/{kind}" if parent else f"/{kind}", kind, parent, json.dumps(body))
        return 201

    def create_item(self, container: str, item: dict, key: list) -> dict:
        """`CreateItemAsync`: the container and its ranges are read before the first one."""
        self.call("GET", f"/{container}", "colls", container)
        headers = {"x-ms-documentdb-partitionkey": json.dumps(key)}
        return self.call("POST", f"/{container}/docs", "docs", container, json.dumps(item), headers)[0]

    def read_item(self, container: str, id: str, key: list) -> dict:
        headers = {"x-ms-documentdb-partitionkey": json.dumps(key)}
        return self.call("GET", f"/{container}/docs/{id}", "docs", f"{container}/docs/{id}", None, headers)[0]

    def query(self, container: str, text: str) -> list:
        """`GetItemQueryIterator`: the plan, the ranges of the container, and pages from each range."""
        body = json.dumps({"query": text})
        common = {"Content-Type": "application/query+json", "x-ms-documentdb-query-enablecrosspartition": "True"}
        plan = self.call("POST", f"/{container}/docs", "docs", container, body, common | {
            "x-ms-cosmos-is-query-plan-request": "True", "x-ms-cosmos-query-version": "1.0",
            "x-ms-cosmos-supported-query-features": FEATURES,
        })[0]  # fmt: skip
        assert plan["queryRanges"], plan
        ranges = self.call("GET", f"/{container}/pkranges", "pkranges", container, None,
                           {"A-IM": "Incremental Feed", "x-ms-max-item-count": "-1"})[0]  # fmt: skip
        found = []
        for part in ranges["PartitionKeyRanges"]:
            continuation = ""
            while continuation is not None:
                page, headers = self.call("POST", f"/{container}/docs", "docs", container, body, common | {
                    "x-ms-documentdb-query": "True", "x-ms-documentdb-query-iscontinuationexpected": "True",
                    "x-ms-documentdb-partitionkeyrangeid": part["id"], "x-ms-max-item-count": "1000",
                    "x-ms-continuation": continuation,
                    "x-ms-cosmos-supported-serialization-formats": "JsonText,CosmosBinary",
                })  # fmt: skip
                found += page["Documents"]
                continuation = headers.get("x-ms-continuation")
        return found

    def call(self, method: str, path: str, kind: str, link: str, body: str | None = None,
             headers: dict | None = None, base: str | None = None) -> tuple[dict, dict]:  # fmt: skip
        date = formatdate(usegmt=True)
        all_headers = {
            "Authorization": self.signature(method, kind, link, date), "x-ms-date": date, "Accept": "application/json",
            "x-ms-version": "2020-07-15", "x-ms-cosmos-sdk-supportedcapabilities": "7", "Cache-Control": "no-cache",
            "x-ms-activity-id": str(uuid.uuid4()), "x-ms-cosmos-internal-operation-type": "Read",
            "User-Agent": "cosmos-netstandard-sdk/3.54.0|1|X64|Linux|.NET 9|N|",
        } | (headers or {})  # fmt: skip
        url = (base or self.located or self.endpoint) + path
        request = urllib.request.Request(url, body.encode() if body else None, all_headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
                assert answer.headers["x-ms-activity-id"] and answer.headers["x-ms-request-charge"], str(answer.headers)
                return json.loads(answer.read() or b"{}"), answer.headers
        except urllib.error.HTTPError as refused:
            raise Refused(refused.code, refused.read().decode()) from None

    def signature(self, method: str, kind: str, link: str, date: str) -> str:
        text = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        mac = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        coded = quote(f"type=master&ver=1.0&sig={base64.b64encode(mac).decode()}", safe="!()*-._")
        # `HttpUtility.UrlEncode` writes its escapes in lower case.
        return "".join(part.lower() if place % 2 else part for place, part in enumerate(escapes(coded)))


def escapes(text: str) -> list[str]:
    """The text in parts: what is not escaped, and the escapes, in turn."""
    parts, rest = [], text
    while (place := rest.find("%")) >= 0:
        parts += [rest[:place], rest[place : place + 3]]
        rest = rest[place + 3 :]
    return [*parts, rest]
