"""The fenced code blocks of a Markdown page, and the rules for their info strings.

    ```sh                  run, in the order of the page
    ```sh,server           starts the server of the page; it goes on while the later blocks run
    ```sh,norun            not run; the line before the block says why: <!-- norun: needs an account -->
    ```python,raises=Name  ends with this exception
    ```json,rows           the rows of the `sql` block before
    ```sql,raises=Text     refused with this text
    ```toml,file=NAME      written to this file of the page's directory
    ```toml,end-of=NAME    added to the end of this file
    <!-- from examples/x/main.go -->
    ```go                  equal to the file, which another test runs

CONTRIBUTING.md describes the conventions.
Leaves out: running the blocks, which is in `run.py`.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

# Languages whose blocks are run, and the tags that each knows.
RUN = {
    "sh": {"server", "norun"},
    "python": {"norun", "raises"},
    "javascript": {"norun"},
    "java": {"norun"},
    "sql": {"norun", "raises"},
}
# Languages whose blocks are parsed.
PARSED = {"json": {"rows", "norun"}, "toml": {"norun", "file", "end-of"}, "xml": {"norun"}}
# Languages whose blocks are files of the repository that other tests run, or are explained by a reason.
SHOWN = {"go": {"norun"}, "rust": {"norun"}, "csharp": {"norun"}, "yaml": {"norun"}, "dockerfile": {"norun"}}
# Blocks for people: outputs, layouts and drawings.
SAMPLE = "text"

KNOWN = RUN | PARSED | SHOWN | {SAMPLE: set()}
NORUN = re.compile(r"<!-- norun: (.+) -->")
# The page needs the container `blog/posts` with a few items.
CONTAINER = "<!-- with the container blog/posts -->"
# The page needs machines with PostgreSQL, and runs on names and ports as they stand.
FLEET = "<!-- with the machines of a fleet -->"
FROM = re.compile(r"<!-- from (\S+) -->")


class Malformed(Exception):
    """A block does not keep to the rules; the message says how to mend it."""


@dataclass
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    tags: dict[str, str]
    text: str
    reason: str | None = None
    source: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in RUN and "norun" not in self.tags and self.source is None


@dataclass
class Page:
    """The blocks of a page in their order, and the complaints about those that could not be read."""

    path: str
    blocks: list[Block] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    has_posts: bool = False
    has_fleet: bool = False


def read(path: str, text: str) -> Page:
    """Returns the blocks of a page; a malformed block becomes a complaint that names its line."""
    page = Page(path, has_posts=CONTAINER in text, has_fleet=FLEET in text)
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opened = re.match(r"^( *)```(.*)$", lines[at])
        if opened is None:
            at += 1
            continue
        indent, info = len(opened.group(1)), opened.group(2).strip()
        first = at + 1
        end = first
        while end < len(lines) and lines[end].strip() != "```":
            end += 1
        if end == len(lines):
            page.complaints.append(f"{path}:{first}: the block is not closed")
            break
        body = "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines[first:end])
        try:
            page.blocks.append(block(path, first, info, body + "\n", before(lines, at)))
        except Malformed as complaint:
            page.complaints.append(f"{path}:{first}: {complaint}")
        at = end + 1
    return page


def before(lines: list[str], at: int) -> str:
    """Returns the last line before a block that is not empty."""
    while at > 0 and not lines[at - 1].strip():
        at -= 1
    return lines[at - 1] if at > 0 else ""


def block(path: str, line: int, info: str, text: str, preceding: str) -> Block:
    """Returns the block of an info string and a body."""
    language, *words = info.split(",")
    if language not in KNOWN:
        languages = ", ".join(sorted(KNOWN))
        named = f"`{language}`" if language else "no language"
        raise Malformed(f"the block names {named}; known are {languages} (`text` for outputs and layouts)")
    tags = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in KNOWN[language]:
            raise Malformed(f"a block of `{language}` has no tag `{name}`; it has {sorted(KNOWN[language]) or 'none'}")
        tags[name] = value
    source, reason = FROM.search(preceding), NORUN.search(preceding)
    if "norun" in tags and reason is None:
        raise Malformed("a block that is not run needs its reason in the line before: <!-- norun: REASON -->")
    if language in SHOWN and source is None and "norun" not in tags:
        raise Malformed(
            f"a block of `{language}` is either a file that a test runs, with <!-- from PATH --> in the line before, "
            "or has the tag `norun` and a reason"
        )
    return Block(
        path, line, language, tags, text, reason and reason.group(1), source.group(1) if source else None
    )


def pages(root: Path, chosen: list[str]) -> list[Page]:
    """Returns the chosen pages, or all of the site, README.md and CONTRIBUTING.md."""
    if not chosen:
        found = sorted((root / "docs").rglob("*.md"))
        paths = [root / "README.md", root / "CONTRIBUTING.md", *found]
    else:
        paths = [root / name for name in chosen]
    read_pages = []
    for path in paths:
        name = str(path.relative_to(root))
        # Records of decisions are of their day; their samples are not kept up to date.
        if not name.startswith("docs/decisions/"):
            read_pages.append(read(name, path.read_text()))
    return read_pages
