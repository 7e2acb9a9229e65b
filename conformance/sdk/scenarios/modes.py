"""The comparison of the answers of a scenario in gateway mode with those in direct mode.

Promises: status, sub-status, charge, message, body, items, pages and results of each step are
compared.
Leaves out: headers but that of the charge (a frame has others), and values that no two runs have in
common: names of databases, resource ids, times, ETags, positions.
"""

import json
import re

# Members that the server makes for each resource anew.
_MADE = {
    "_rid",
    "_self",
    "_etag",
    "_ts",
    "_lsn",
    "lsn",
    "crts",
    "previousImageLSN",
    "resource",
    "etag",
    "_token",
}
# The parts of an answer that are compared.
_PARTS = ("status", "substatus", "message", "body", "items", "pages", "results")
_CHARGE = "x-ms-request-charge"
# Lists of databases cost more the more of them there are, and the modes have them at other times.
_CHARGE_DIFFERENCE_MIN = 0.1
_ERRORS = re.compile(r'(^|"[Ee]rrors":)(?P<errors>\[.*\])')
# The server names databases that are there, and those are of other scenarios.
_OTHER_DATABASES = re.compile(r"(?<=The account has no database 'database').*", re.DOTALL)
_MADE_IN_TEXT = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z?"
    r"|[a-z]{3}, \d\d [a-z]{3} \d{4} [\d:]{8} gmt"
)


def differences(gateway: list[dict], direct: list[dict], bound: dict, others: dict) -> list[str]:
    """Returns a line for each step whose answers differ.

    `bound` and `others` are the names of the resources of the two runs.
    """
    found = []
    for number, (left, right) in enumerate(zip(gateway, direct), 1):
        parts = (_comparable(left, bound), _comparable(right, others))
        for part in parts[0] | parts[1]:
            values = [json.dumps(one.get(part), ensure_ascii=False)[:200] for one in parts]
            if not _alike(parts[0].get(part), parts[1].get(part)):
                found.append(f"answer {number}: {part} {' | '.join(values)}")
    if len(gateway) != len(direct):
        found.append(f"{len(gateway)} | {len(direct)} answers")
    return found


def _alike(left, right) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) < _CHARGE_DIFFERENCE_MIN
    return left == right


def _comparable(answer: dict, bound: dict) -> dict:
    """Returns what is compared of an answer, without what belongs to its run alone."""
    parts = {part: answer[part] for part in _PARTS if part in answer}
    parts["raised"] = "raised" in answer
    if "message" in answer:
        parts["message"] = _text(answer["message"])
    charge = answer.get("headers", {}).get(_CHARGE)
    parts["charge"] = None if charge is None else float(charge)
    parts = _without_names(parts, {bound["database"]: "database", bound["unique"]: "unique"})
    if "items" in parts:
        parts["items"] = _in_order(parts["items"])
    return parts


def _in_order(items):
    """Returns a list of containers by their ids: those of one millisecond come in any order."""
    if isinstance(items, list) and all(isinstance(one, dict) for one in items):
        if items and all("indexingPolicy" in one for one in items):
            return sorted(items, key=lambda one: one.get("id", ""))
    return items


def _text(message: str | None) -> str | None:
    """Returns the server's text of a message, which the SDK shows within JSON of another form."""
    found = _ERRORS.search(message or "")
    if not found:
        return message
    try:
        errors = json.loads(found["errors"])
    except ValueError:
        return message
    return "; ".join(
        error.get("message", "") if isinstance(error, dict) else error for error in errors
    )


def _without_names(value, names: dict[str, str]):
    if isinstance(value, dict):
        return {
            key: _without_names(member, names) for key, member in value.items() if key not in _MADE
        }
    if isinstance(value, list):
        return [_without_names(member, names) for member in value]
    if isinstance(value, str):
        for name, word in names.items():
            value = value.replace(name, word)
        return _OTHER_DATABASES.sub("", _MADE_IN_TEXT.sub("made", value))
    return value
