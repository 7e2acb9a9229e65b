"""The driver for the Python SDK: carries out the operations of the table with azure-cosmos.

It reads and writes one line of JSON for each request; conformance/sdk/scenarios/driver.py describes the protocol. The
SDK is the one that conformance/sdk/python pins. The driver uses each of the SDK's objects through a proxy that records
every method call (`watch.py`), so that the run can report methods that no scenario calls. The SDK hides status and
headers of successful requests; they come from the witness below it.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "lib" / "server"))

from azure.cosmos import CosmosClient  # noqa: E402
from azure.cosmos.exceptions import CosmosHttpResponseError  # noqa: E402

from arguments import Arguments, Missing  # noqa: E402
from feeds import FEEDS  # noqa: E402
from items import ITEMS  # noqa: E402
from resources import RESOURCES  # noqa: E402
from scripts import SCRIPTS  # noqa: E402
from watch import methods, reached, watch  # noqa: E402
from witness import Witness  # noqa: E402


class Clients:
    """The clients: the default one with the server's key, or the one that `connect` created."""

    def __init__(self, endpoint: str, key: str):
        self.endpoint, self.key = endpoint, key
        self.witness = Witness()
        self._usual = None
        self._other = None
        self._wanted: dict | None = None

    def connect(self, a: Arguments) -> dict:
        """Replaces the default client until the end of the scenario."""
        key, token = a.take("key") or self.key, a.take("token")
        if token:
            # A client without a key: the token is for the one resource.
            key = {token["resource"]: token["token"]}
        self._other, self._wanted = None, {"key": key, "by_text": a.take("connection_string")}
        for option, name in (("no_response", "no_response_on_write"), ("consistency", "consistency_level")):
            if a.has(option):
                self._wanted[name] = a.take(option)
        if a.has("preferred_regions"):
            self._wanted["preferred_locations"] = a.take("preferred_regions")
        return {"status": 200, "headers": {}, "body": {"endpoint": self.endpoint}}

    def reset(self) -> list[dict]:
        """Goes back to the default client. Returns the answers of the server since the reset before."""
        self._other, self._wanted = None, None
        return [asdict(answer) for answer in self.witness.taken()]

    @property
    def client(self):
        """Returns the current client, created at its first use, because its creation sends a request."""
        if self._wanted is None:
            self._usual = self._usual or self._made({"key": self.key})
            return self._usual
        self._other = self._other or self._made(dict(self._wanted))
        return self._other

    def _made(self, wanted: dict):
        options = {"transport": self.witness, "connection_verify": False}  # the server signs its own certificate
        key = wanted.pop("key")
        if wanted.pop("by_text", None):
            reached.add("CosmosClient.from_connection_string")
            text = f"AccountEndpoint={self.endpoint};AccountKey={key};"
            return watch(CosmosClient.from_connection_string(text, **options, **wanted))
        return watch(CosmosClient(self.endpoint, key, **options, **wanted))

    def database(self, a: Arguments):
        name = a.take("database")
        return self.client.get_database_client(name)

    def container(self, a: Arguments):
        name = a.take("container")
        return self.database(a).get_container_client(name)

    def answer(self, body=None) -> dict:
        """Returns the last answer of the server, with its resource."""
        last = self.witness.last
        substatus = int(last.headers.get("x-ms-substatus", 0))
        return {"status": last.status, "substatus": substatus, "headers": last.headers, "body": body}


OPERATIONS = RESOURCES | ITEMS | FEEDS | SCRIPTS | {"connect": Clients.connect}


def said(clients: Clients, request: dict) -> dict:
    """Returns the answer to one line."""
    asked = request["do"]
    if asked == "reset":
        return {"answers": clients.reset()}
    if asked == "methods":
        return {"methods": sorted(methods()), "reached": sorted(reached)}
    if asked not in OPERATIONS:
        return {"missing": asked}
    a = Arguments(request["with"])
    try:
        reply = OPERATIONS[asked](clients, a)
    except Missing as missing:
        return {"missing": f"{asked} with {missing}"}
    except CosmosHttpResponseError as refused:
        headers = {name.lower(): value for name, value in dict(refused.headers or {}).items()}
        reply = {
            "status": refused.status_code,
            "substatus": refused.sub_status or 0,
            "headers": headers,
            "message": refused.message,
        }
        if refused.status_code == 304:
            reply = clients.answer()
    except Exception as failure:  # every exception is reported to the runner
        reply = {"raised": repr(failure)}
    return {"missing": f"{asked} with {a.unused()}"} if a.unused() else reply


def main() -> None:
    clients = Clients(os.environ["ORRERY_ENDPOINT"], os.environ["ORRERY_KEY"])
    for line in sys.stdin:
        print(json.dumps(said(clients, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
