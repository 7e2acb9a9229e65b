"""The text that a user sees: the server's sentences within the message of an SDK.

The SDKs show the body of an answer in their own ways: as it is, as JSON within a text, or within JSON once more.
"""

import json
import re

_LIST = re.compile(r'\{"[Ee]rrors":\s*\[')
_MESSAGE = re.compile(r'"message":\s*"')
# The frame of the Rust SDK: `400: Cosmos DB returned HTTP 400: Unknown. Details: `.
_FRAME = re.compile(r"\A\d{3}\b.{0,300}?Cosmos DB returned HTTP .*? Details: ", re.DOTALL)
_DECODER = json.JSONDecoder()
# Parts of a text that differ from run to run.
_MASKS = (
    (re.compile(r"\s*,?\s*ActivityId: [0-9a-f-]{36}"), ""),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "00000000-0000-0000-0000-000000000000"),
    (re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", re.IGNORECASE), "<date>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "localhost:8081"),
    (re.compile(r"(\d{7,}) bytes"), "<size> bytes"),
    (re.compile(r"\s*Stack trace:.*", re.DOTALL), ""),
)


def sentences(text: str) -> str:
    """Returns the sentences of the server in a message; the message itself if it has no list of errors."""
    for _ in range(4):
        found = _LIST.search(text)
        if found:
            return _joined(_DECODER.raw_decode(text, found.start())[0])
        found = _MESSAGE.search(text)
        if not found:
            break
        # A body of JSON within the text: its message is a text in quotes.
        text = _DECODER.raw_decode(text, found.end() - 1)[0]
    return _FRAME.sub("", text, count=1).strip()


def _joined(listed: dict) -> str:
    errors = listed.get("errors") or listed.get("Errors") or []
    return " ".join(error["message"] if isinstance(error, dict) else str(error) for error in errors)


def masked(text: str, database: str) -> str:
    """Returns a text without what differs from run to run; the database is called shop."""
    text = text.replace(database, "shop")
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return " ".join(text.split())
