"""The page of mistakes: made of the table and of what the users of each SDK saw."""

import json
from pathlib import Path

NAMES = {
    "python": "Python",
    "javascript": "JavaScript",
    "java": "Java",
    "go": "Go",
    "rust": "Rust",
    "HTTP": "a request written by hand",
}

HEAD = """# Mistakes and their messages

<!-- Made by `cargo xtask conformance mistakes --write`; do not edit. -->

Each heading is a mistake that beginners make, and the text below it is what they read.
The first sentence is the service's, because tools look for it; the sentences behind it are this server's and say how to
mend the request.
Each text was seen through the SDKs for Python, JavaScript, Java, Go and Rust in their pinned versions
(`conformance/sdk/mistakes`), and a run of the suite compares this page with what they show.
An SDK puts its own words around a text, such as `400: Cosmos DB returned HTTP 400: Unknown. Details:` in Rust.
In the texts the database is called `shop` and the container `items`, with the partition key `/pk`.

A plain HTTP address in place of an HTTPS address is no mistake here: the port for clients serves both.
"""


def page(mistakes: list, seen: dict, table: Path) -> str:
    """Returns the text of the page."""
    parts, file = [HEAD], None
    for mistake in mistakes:
        if mistake.file != file:
            file = mistake.file
            first = (table / file).read_text().splitlines()[0]
            parts.append(f"## {first.lstrip('# ').rstrip('.')}\n")
        parts.append(_section(mistake, seen[mistake.name]))
    return "\n".join(parts)


def _section(mistake, seen) -> str:
    lines = [f"### {mistake.name}\n", f"`{_request(mistake)}`\n"]
    number = str(mistake.expect["status"])
    if mistake.expect.get("substatus"):
        number += f"/{mistake.expect['substatus']}"
    # Usually all SDKs show the same text.
    by_text: dict[str, list[str]] = {}
    for sdk, text in seen.texts.items():
        by_text.setdefault(text, []).append(sdk)
    for text, sdks in sorted(by_text.items(), key=lambda entry: -len(entry[1])):
        who = "" if len(by_text) == 1 else f" ({_listed(sdks)})"
        lines.append(f"**{number}**{who}\n\n```text\n{text}\n```\n")
    for sdk, text in seen.own.items():
        lines.append(f"{_listed([sdk])}: the SDK refuses it before it asks the server.\n\n```text\n{text}\n```\n")
    if seen.silent:
        lines.append(f"{_listed(seen.silent)}: the SDK returns the status without the text.\n")
    if seen.impossible:
        lines.append(f"Not possible with the SDK for {_listed(seen.impossible)}.\n")
    return "\n".join(lines)


def _request(mistake) -> str:
    """Returns the request in a line."""
    a = mistake.arguments
    if mistake.is_by_hand:
        words = [a["method"], a["path"].replace("${database}", "shop")]
        words += [f"{name}: {value}" for name, value in a.get("headers", {}).items()]
        words += [" ".join(a["body"].split())] if "body" in a else []
        return " ".join(words)
    if "query" in a:
        return a["query"]
    shown = {name: value for name, value in a.items() if name not in ("if_match",)}
    text = json.dumps(shown, ensure_ascii=False).replace("${large}", "…") if shown else ""
    return f"{mistake.operation} {text}".strip()


def _listed(sdks: list[str]) -> str:
    return ", ".join(NAMES[sdk] for sdk in sdks)
