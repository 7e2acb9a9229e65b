"""A transport that records every answer of the server, below the SDK.

A transport is the SDK's own interface to HTTP. This one sends requests like the ordinary one and records the parts that
all answers have, so that a test can check a status that the SDK hides, such as 304, and so that one test can check all
answers of the run.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from azure.core.pipeline.transport import RequestsTransport


@dataclass(frozen=True)
class Answer:
    """One answer: its request line, status and headers (names in lower case), and the body of an error."""

    method: str
    path: str
    status: int
    headers: dict
    body_bytes: int
    error_text: str

    def __str__(self) -> str:
        return f"{self.method} {self.path} -> {self.status}"

    @property
    def charge(self) -> str:
        return self.headers.get("x-ms-request-charge", "")


class Witness(RequestsTransport):
    """The ordinary transport of the SDK, which records each answer."""

    def __init__(self, **options):
        super().__init__(**options)
        self.answers: list[Answer] = []

    def send(self, request, **options):
        response = super().send(request, **options)
        body = response.body() if not options.get("stream") else b""
        self.answers.append(
            Answer(
                method=request.method,
                path=urlsplit(request.url).path,
                status=response.status_code,
                headers={name.lower(): value for name, value in response.headers.items()},
                body_bytes=len(body),
                error_text=body.decode("utf-8", "replace") if response.status_code >= 400 else "",
            )
        )
        return response

    def since(self, mark: int) -> list[Answer]:
        """Returns the answers after the first `mark` answers."""
        return self.answers[mark:]

    @property
    def last(self) -> Answer:
        return self.answers[-1]
