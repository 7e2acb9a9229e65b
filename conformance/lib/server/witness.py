"""A transport that records every answer of the server, below the SDK.

A transport is the SDK's own interface to HTTP. This one sends requests like the ordinary one and records the parts that
all answers have, so that a test can check a status that the SDK hides, such as 304, and so that one test can check all
answers of the run.
"""

from urllib.parse import urlsplit

from azure.core.pipeline.transport import RequestsTransport

from rules import Answer


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

    def taken(self) -> list[Answer]:
        """Returns all answers and forgets them."""
        answers, self.answers = self.answers, []
        return answers

    @property
    def last(self) -> Answer:
        return self.answers[-1]
