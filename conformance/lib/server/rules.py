"""The rules that every answer of the server keeps, whatever was asked.

Promises: a rule is a function that returns True if an answer breaks it.
"""

import json
import re
from dataclasses import dataclass

_PLAIN_DECIMAL = re.compile(r"\d+(\.\d+)?")
# The path of a feed ends with the name of the feed, the path of a single resource with its id.
_FEEDS = ("dbs", "colls", "docs", "sprocs", "triggers", "udfs", "users", "permissions", "pkranges", "offers")


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


def has_no_charge(answer: Answer) -> bool:
    return not _PLAIN_DECIMAL.fullmatch(answer.charge)


def is_a_plan(answer: Answer) -> bool:
    """Returns True for the plan of a query, which reads no item and so has no session token; no rule."""
    is_on_items = answer.method == "POST" and answer.path.rstrip("/").endswith("/docs")
    return is_on_items and answer.status in (200, 400) and "x-ms-session-token" not in answer.headers


def is_free(answer: Answer) -> bool:
    # The account document and plans are free, and so is a request that was refused before its operation was known.
    may_be_free = not answer.path.strip("/") or answer.status == 401 or is_a_plan(answer)
    return not may_be_free and float(answer.charge or 0) <= 0


def has_no_activity_id(answer: Answer) -> bool:
    return not answer.headers.get("x-ms-activity-id")


def has_an_empty_header(answer: Answer) -> bool:
    return "" in answer.headers.values()


def has_a_body_without_content(answer: Answer) -> bool:
    return answer.status in (204, 304) and answer.body_bytes > 0


def is_a_feed(answer: Answer) -> bool:
    """Returns True for a page of a feed that was not queried; no rule."""
    parts = answer.path.strip("/").split("/")
    is_read = answer.method == "GET" and answer.status in (200, 304)
    return is_read and len(parts) % 2 == 1 and parts[-1] in _FEEDS


def is_a_feed_without_count(answer: Answer) -> bool:
    return is_a_feed(answer) and not answer.headers.get("x-ms-item-count", "").isdigit()


def is_an_error(answer: Answer) -> bool:
    """Returns True for an error that has a body; no rule."""
    return answer.status >= 400 and answer.method != "HEAD"


def is_a_malformed_error(answer: Answer) -> bool:
    if not is_an_error(answer):
        return False
    try:
        error = json.loads(answer.error_text)
    except ValueError:
        return True
    is_json = answer.headers.get("content-type", "").split(";")[0] == "application/json"
    is_whole = int(answer.headers.get("content-length", -1)) == answer.body_bytes
    return not (is_json and is_whole and isinstance(error, dict) and error.get("code") and error.get("message"))


def has_a_wrong_sub_status(answer: Answer) -> bool:
    sub_status = answer.headers.get("x-ms-substatus")
    return sub_status is not None and (answer.status < 400 or not sub_status.isdigit())


def is_a_fault_of_the_server(answer: Answer) -> bool:
    return answer.status >= 500 and "The fault rule" not in answer.error_text


RULES = (
    has_no_charge,
    is_free,
    has_no_activity_id,
    has_an_empty_header,
    has_a_body_without_content,
    is_a_feed_without_count,
    is_a_malformed_error,
    has_a_wrong_sub_status,
    is_a_fault_of_the_server,
)


def broken_rules(answers: list[dict]) -> list[str]:
    """Returns a sentence for each rule that an answer breaks."""
    found = []
    for answer in (Answer(**fields) for fields in answers):
        found += [f"{answer} {rule.__name__.replace('_', ' ')}" for rule in RULES if rule(answer)]
    return found
