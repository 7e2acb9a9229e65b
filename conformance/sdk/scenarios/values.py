"""The values of a step: names that are bound, and values that are made.

    "${name}"                        what is bound to the name, with its type where it stands alone
    { repeat = 12, of = VALUE }      a list of 12 values; in VALUE, ${n} is 0, 1, … and ${nn} the text 00, 01, …
    { characters = 5, of = "ü" }     a text of 5 characters; without `of`, of the letter x
    { ahead_of = "${token}" }        a session token that no server has reached

Promises: a name that nothing is bound to is a `Mismatch`.
"""

import re
from typing import Any

_VARIABLE = re.compile(r"\$\{(\w+)\}")

# The session token of one partition: its range, the version, the position, and the positions of regions.
SESSION_TOKEN = re.compile(r"(?P<before>\d+:(?:-?\d+#)?)(?P<position>\d+)(?P<after>(?:#\d+=\d+)*)")

# The first character of an expected text that is a regular expression.
PATTERN = "~"

_FAR_AHEAD = 1_000_000


class Mismatch(Exception):
    """The answer differs from the expectation; the message has the place and the values."""


def resolve(value: Any, bound: dict[str, Any], *, keep: frozenset[str] = frozenset()) -> Any:
    """Returns the value with every `${name}` replaced and every value made; texts of `keep` stay as they are."""
    if isinstance(value, dict):
        return _made(value, bound, keep)
    if isinstance(value, list):
        return [resolve(inner, bound, keep=keep) for inner in value]
    if not isinstance(value, str) or value in keep:
        return value
    if value == "${null}":
        return None
    whole = _VARIABLE.fullmatch(value)
    if whole:
        return _bound(whole[1], bound)
    # In a pattern the replaced texts stand for themselves.
    quote = re.escape if keep and value.startswith(PATTERN) else str
    return _VARIABLE.sub(lambda name: quote(str(_bound(name[1], bound))), value)


def position(token: Any) -> int:
    """Returns the position in a session token of one partition."""
    return int(_token(token)["position"])


def _made(value: dict, bound: dict[str, Any], keep: frozenset[str]) -> Any:
    if set(value) == {"repeat", "of"}:
        numbers = range(value["repeat"])
        return [resolve(value["of"], bound | {"n": n, "nn": f"{n:02}"}, keep=keep) for n in numbers]
    if "characters" in value and set(value) <= {"characters", "of"}:
        return value.get("of", "x") * value["characters"]
    if set(value) == {"ahead_of"}:
        token = _token(resolve(value["ahead_of"], bound))
        return f"{token['before']}{int(token['position']) + _FAR_AHEAD}{token['after']}"
    return {key: resolve(inner, bound, keep=keep) for key, inner in value.items()}


def _token(token: Any) -> re.Match:
    match = SESSION_TOKEN.fullmatch(str(token))
    if match is None:
        raise Mismatch(f"{token!r} is not the session token of one partition")
    return match


def _bound(name: str, bound: dict[str, Any]) -> Any:
    if name not in bound:
        raise Mismatch(f"nothing is bound to ${{{name}}}")
    return bound[name]
