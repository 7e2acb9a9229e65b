"""The comparison of an answer with its expectation.

An answer is the report of a driver about a request: `status`, `substatus`, `headers`, `body` of one resource or `items`
of a feed with the sizes of its `pages`, the `continuation` behind the last one, `results` of a batch, the `message` of a
refusal, or `raised` if the SDK failed without an answer of the server.

Promises: every word of an expectation is checked; a mismatch contains the value that was found.
"""

import json
import re
from typing import Any

from values import PATTERN, Mismatch, position

# The words of an expectation.
EXPECTATIONS = {
    "status",  # the number
    "substatus",  # the number; 0 where there is none
    "body",  # a part of the resource
    "items",  # the items of all pages, in this order, each a part
    "items_in_any_order",
    "includes",  # parts of some of the items
    "count",  # the number of items
    "pages",  # the sizes of the pages that have items
    "page_max",  # the number of items that no page exceeds
    "continuation",  # true if there is one
    "results",  # the results of a batch, each a part
    "headers",  # a part of the headers
    "message",  # words of the refusal
    "different",  # paths whose values are not these
    "later",  # paths of session tokens whose positions are later than those of these tokens
    "ascending",  # the path of a number that is larger in each item than in the item before
    "continues",  # `from` and then the items are `whole`
    "charges_add_up",  # true: the charge of a batch is the sum of the charges of its results
}

_MISSING = object()

# Matchers: texts in an expectation that stand for many values. So does a text that begins with `~`, a regular
# expression for the whole value.
MATCHERS = {
    "${any}": lambda found: found is not _MISSING,
    "${absent}": lambda found: found is _MISSING,
    "${null}": lambda found: found is None,
    "${nothing}": lambda found: found is None or found is _MISSING or found == {},
    "${text}": lambda found: isinstance(found, str) and found != "",
    "${integer}": lambda found: isinstance(found, int) and not isinstance(found, bool),
    "${positive}": lambda found: _number(found) is not None and _number(found) > 0,
}


def at(answer: Any, path: str) -> Any:
    """Returns the value at a dotted path, `body._etag` or `items.0.id`; header names have no dots."""
    found = _look(answer, path)
    if found is _MISSING:
        raise Mismatch(f"there is no {path} in {_short(answer)}")
    return found


def check(answer: dict, expect: dict) -> None:
    """Raises `Mismatch` unless the answer is as expected."""
    if "raised" in answer:
        raise Mismatch(f"the SDK raised {answer['raised']}")
    for word, wanted in expect.items():
        _CHECKS[word](answer, wanted)
    if "status" not in expect and answer.get("status", 200) >= 400:
        raise Mismatch(f"refused with {answer['status']}: {answer.get('message', '')[:300]}")


def _status(answer, wanted):
    if answer.get("status") != wanted:
        raise Mismatch(f"status {answer.get('status')}, not {wanted}: {answer.get('message', '')[:300]}")


def _continuation(answer, wanted):
    if bool(answer.get("continuation")) != wanted:
        raise Mismatch(f"a continuation is {'missing' if wanted else 'there: ' + _short(answer['continuation'])}")


def _in_any_order(answer, wanted):
    left = list(answer.get("items") or [])
    for part in wanted:
        place = next((place for place, item in enumerate(left) if _is_part(item, part)), None)
        if place is None:
            raise Mismatch(f"no item is like {_short(part)} in {_short(answer.get('items'))}")
        del left[place]
    return left


def _exactly_in_any_order(answer, wanted):
    left = _in_any_order(answer, wanted)
    if left:
        raise Mismatch(f"items that nobody expects: {_short(left)}")


def _sequence(name):
    def check_sequence(answer, wanted):
        found = answer.get(name) or []
        if len(found) != len(wanted):
            raise Mismatch(f"{len(found)} {name}, not {len(wanted)}: {_short(found)}")
        for place, (part_found, part_wanted) in enumerate(zip(found, wanted)):
            _part(part_found, part_wanted, f"{name}.{place}")

    return check_sequence


def _page_max(answer, most):
    sizes = answer.get("pages") or []
    if not sizes or max(sizes) > most:
        raise Mismatch(f"pages {_short(sizes)}, of which none may exceed {most}")


def _message(answer, wanted):
    if wanted not in answer.get("message", ""):
        raise Mismatch(f"the message does not say {wanted!r}: {answer.get('message', '')[:400]}")


def _different(answer, wanted):
    for path, value in wanted.items():
        if _look(answer, path) == value:
            raise Mismatch(f"{path} is still {value!r}")


def _later(answer, wanted):
    for path, token in wanted.items():
        found = at(answer, path)
        if position(found) <= position(token):
            raise Mismatch(f"{path} is {found}, which is not later than {token}")


def _ascending(answer, path):
    numbers = [at(item, path) for item in answer.get("items") or []]
    if numbers != sorted(set(numbers)):
        raise Mismatch(f"{path} does not ascend: {_short(numbers)}")


def _continues(answer, wanted):
    items = wanted["from"] + (answer.get("items") or [])
    if items != wanted["whole"]:
        raise Mismatch(f"{_short(items)} is not {_short(wanted['whole'])}")


def _charges_add_up(answer, _):
    whole, parts = _number(at(answer, "headers.x-ms-request-charge")), [at(one, "charge") for one in answer["results"]]
    if whole is None or abs(whole - sum(parts)) > 0.01:
        raise Mismatch(f"the charge {whole} is not the sum of {_short(parts)}")


def _equal(name, found_in):
    def check_equal(answer, wanted):
        found = found_in(answer)
        if found != wanted:
            raise Mismatch(f"{name} {_short(found)}, not {wanted}: {_short(answer.get('items'))}")

    return check_equal


_CHECKS = {
    "status": _status,
    "substatus": _equal("sub-status", lambda answer: answer.get("substatus") or 0),
    "body": lambda answer, wanted: _part(answer.get("body"), wanted, "body"),
    "items": _sequence("items"),
    "items_in_any_order": _exactly_in_any_order,
    "includes": _in_any_order,
    "count": _equal("count", lambda answer: len(answer.get("items") or [])),
    "pages": _equal("pages", lambda answer: [size for size in answer.get("pages") or [] if size]),
    "page_max": _page_max,
    "continuation": _continuation,
    "results": _sequence("results"),
    "headers": lambda answer, wanted: _part(answer.get("headers"), wanted, "headers"),
    "message": _message,
    "different": _different,
    "later": _later,
    "ascending": _ascending,
    "continues": _continues,
    "charges_add_up": _charges_add_up,
}


def _part(found: Any, wanted: Any, where: str) -> None:
    """Checks that every expected member exists, lists have the same length, and other values are equal."""
    if isinstance(wanted, str) and wanted in MATCHERS:
        if not MATCHERS[wanted](found):
            raise Mismatch(f"{where} is {'missing' if found is _MISSING else _short(found)}, not {wanted}")
    elif isinstance(wanted, str) and wanted.startswith(PATTERN):
        if not isinstance(found, str) or not re.fullmatch(wanted[1:], found):
            raise Mismatch(f"{where} is {'missing' if found is _MISSING else _short(found)}, not like {wanted[1:]}")
    elif isinstance(wanted, dict):
        if not isinstance(found, dict):
            raise Mismatch(f"{where} is {_short(None if found is _MISSING else found)}, not an object")
        for key, inner in wanted.items():
            _part(found.get(key, _MISSING), inner, f"{where}.{key}")
    elif isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            raise Mismatch(f"{where} is {'missing' if found is _MISSING else _short(found)}, not {_short(wanted)}")
        for place, (part_found, part_wanted) in enumerate(zip(found, wanted)):
            _part(part_found, part_wanted, f"{where}.{place}")
    elif found is _MISSING or found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
        raise Mismatch(f"{where} is {'missing' if found is _MISSING else _short(found)}, not {_short(wanted)}")


def _is_part(found: Any, wanted: Any) -> bool:
    try:
        _part(found, wanted, "item")
    except Mismatch:
        return False
    return True


def _look(answer: Any, path: str) -> Any:
    found = answer
    for name in path.split("."):
        if isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict):
            found = found.get(name, _MISSING)
        else:
            return _MISSING
    return found


def _number(found: Any) -> float | None:
    try:
        return None if isinstance(found, bool) else float(found)
    except (TypeError, ValueError):
        return None


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 400 else text[:400] + "…"
