"""The management API of the server, for tests that want faults."""

import json
import urllib.error
import urllib.request


class Management:
    """A connection to the management API; it bears the key."""

    def __init__(self, endpoint: str, key: str):
        self._endpoint = endpoint.rstrip("/")
        self._key = key

    def call(self, method: str, path: str, body=None):
        """What a request gives: JSON, or None where there is nothing. A refusal is an error with its message."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._endpoint + path, data=data, method=method, headers={"authorization": f"Bearer {self._key}"}
        )
        try:
            with urllib.request.urlopen(request) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        return json.loads(text) if text else None

    def fault(self, **rule) -> str:
        """Puts a fault rule in force, and gives its path."""
        return f"/faults/{self.call('POST', '/faults', rule)['id']}"

    def struck(self, fault: str) -> int:
        """How many requests a rule struck."""
        return self.call("GET", fault)["struck"]
