"""The management API of the server, for tests that need faults."""

import json
import urllib.error
import urllib.request


class Management:
    """A connection to the management API, with its key."""

    def __init__(self, endpoint: str, key: str):
        self._endpoint = endpoint.rstrip("/")
        self._key = key

    def call(self, method: str, path: str, body=None):
        """Sends a request and returns its JSON, or None for an empty answer. Raises a refusal with its message."""
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
        """Creates a fault rule and returns its path."""
        return f"/faults/{self.call('POST', '/faults', rule)['id']}"

    def struck(self, fault: str) -> int:
        """Returns the number of requests to which a rule was applied."""
        return self.call("GET", fault)["struck"]
