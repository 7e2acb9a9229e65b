"""Requests written by hand, as a program without an SDK would send them: the driver of the table's `send`.

Each request is signed with the account key, with the slip that the table asks for. The other operations, which prepare
a mistake, are left to the driver of an SDK.
"""

import base64
import hashlib
import hmac
import http.client
import json
import time
from email.utils import formatdate
from urllib.parse import quote, urlsplit

VERSION = "2020-07-15"
# The words of a path that name a feed.
FEEDS = ("dbs", "colls", "docs")


class Rest:
    """Sends requests to one server, over HTTP."""

    def __init__(self, endpoint: str, key: str):
        self._host = urlsplit(endpoint).netloc
        self._key = key

    def send(self, a: dict) -> dict:
        """Sends a request and returns the server's answer as a driver does."""
        method, path, slip = a["method"], a["path"], a.get("slip", "")
        date = formatdate(time.time() - (3600 if slip == "slow clock" else 0), usegmt=True)
        headers = {"x-ms-date": date, "x-ms-version": VERSION, "content-type": "application/json"}
        authorization = a.get("authorization", self._signature(method, path, date, slip))
        if authorization:
            headers["authorization"] = authorization
        connection = http.client.HTTPConnection(self._host, timeout=30)
        try:
            connection.request(method, path, a.get("body"), headers | a.get("headers", {}))
            response = connection.getresponse()
            body = json.loads(response.read() or b"{}")
        finally:
            connection.close()
        substatus = int(response.headers.get("x-ms-substatus", 0))
        return {"status": response.status, "substatus": substatus, "message": body.get("message", "")}

    def _signature(self, method: str, path: str, date: str, slip: str) -> str:
        segments = path.strip("/").split("/")
        kind = segments[-1] if segments[-1] in FEEDS else segments[-2]
        link = "/".join(segments[:-1] if segments[-1] in FEEDS else segments)
        if slip != "upper case":
            method, date = method.lower(), date.lower()
        key = self._key.encode() if slip == "undecoded key" else base64.b64decode(self._key)
        text = f"{method}\n{kind}\n{link}\n{date}\n\n"
        signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
        return quote(f"type=master&ver=1.0&sig={signature}", safe="")
