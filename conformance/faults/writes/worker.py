"""One process of clients: each thread writes numbered items by procedures, batches and triggers, and notes each outcome.

    worker.py PLAN      writes until its standard input ends; the plan is JSON, see `run.py`

The requests are those of the protocol without an SDK, so no answer is hidden by a retry: an operation is sent once. A
client whose connection fails, or that gets 503, goes on at the next node, as behind a balancer.

A line of a history is `NUMBER OUTCOME STATUS BEGAN ENDED`, with times in milliseconds since 1970 and the outcome `ok`,
`not` (the answer says that nothing was carried out) or `unknown`.
"""

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from items import BATCH, PROCEDURE, TRIGGERS, batch_of, kind_of, key_of, names_of

ANSWER_SECONDS_MAX = 60
PAUSE_SECONDS = 0.05
# Answers after which the outcome of a write is not known; 0 is no answer.
UNKNOWN = {0, 408, 500}


class Client:
    """Connections to the nodes of a fleet, one at a time."""

    def __init__(self, endpoints: list[str], key: str, first: int):
        self._places = [urllib.parse.urlparse(endpoint).netloc for endpoint in endpoints]
        self._key, self._at = base64.b64decode(key), first
        self._connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body, headers: dict, signed: tuple[str, str]) -> tuple[int, dict, bytes]:
        """Sends a request once and returns status, headers and body; the status is 0 without an answer."""
        kind, link = signed
        date = email.utils.formatdate(usegmt=True)
        text = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        signature = base64.b64encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest()).decode()
        token = urllib.parse.quote(f"type=master&ver=1.0&sig={signature}", safe="")
        headers = {"x-ms-date": date, "x-ms-version": "2020-07-15", "authorization": token, **headers}
        data = None if body is None else json.dumps(body)
        try:
            if self._connection is None:
                place = self._places[self._at % len(self._places)]
                self._connection = http.client.HTTPConnection(place, timeout=ANSWER_SECONDS_MAX)
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            status, found, content = answer.status, dict(answer.getheaders()), answer.read()
        except (OSError, http.client.HTTPException):
            status, found, content = 0, {}, b""
        if status in (0, 503):
            self.leave()
        return status, found, content

    def leave(self) -> None:
        """Goes on to the next node."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._at += 1

    def write(self, container: str, writer: str, number: int) -> int:
        """Carries out the operation of a number and returns the status."""
        link = f"dbs/writes/colls/{container}"
        key = key_of(writer, number)
        headers = {"x-ms-documentdb-partitionkey": json.dumps([key])}
        docs = ("docs", link)
        match kind_of(number):
            case "batch":
                headers |= {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
                return self.send("POST", f"/{link}/docs", batch_of(writer, number), headers, docs)[0]
            case "procedure":
                path = f"{link}/sprocs/{PROCEDURE}"
                arguments = [key, names_of(writer, number)]
                return self.send("POST", f"/{path}", arguments, headers, ("sprocs", path))[0]
            case "triggers":
                for when, trigger in TRIGGERS.items():
                    headers[f"x-ms-documentdb-{when}-trigger-include"] = trigger
                item = {"id": names_of(writer, number)[0], "pk": key}
                return self.send("POST", f"/{link}/docs", item, headers, docs)[0]


def run_writer(plan: dict, writer: str, first: int, progress: list[int], ended: threading.Event) -> None:
    """Sends one operation after the other until the end."""
    client = Client(plan["endpoints"], plan["key"], first)
    containers = plan["containers"]
    container = containers[first % len(containers)]
    with (Path(plan["histories"]) / f"{container}.{writer}").open("w", buffering=1 << 16) as history:
        number = 0
        while not ended.is_set():
            began = time.time_ns() // 1_000_000
            status = client.write(container, writer, number)
            outcome = "ok" if 200 <= status < 300 else "unknown" if status in UNKNOWN else "not"
            history.write(f"{number} {outcome} {status} {began} {time.time_ns() // 1_000_000}\n")
            if outcome == "ok":
                progress[first] += BATCH if kind_of(number) != "triggers" else 2
            else:
                ended.wait(PAUSE_SECONDS)
            number += 1


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    ended = threading.Event()
    writers = [f"{plan['process']}.{n}" for n in range(plan["threads"])]
    progress = [0] * len(writers)
    threads = [
        threading.Thread(target=run_writer, args=(plan, writer, n, progress, ended)) for n, writer in enumerate(writers)
    ]
    for thread in threads:
        thread.start()

    def report() -> None:
        while not ended.wait(1):
            print(sum(progress), flush=True)

    threading.Thread(target=report, daemon=True).start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(sum(progress), flush=True)


if __name__ == "__main__":
    main()
