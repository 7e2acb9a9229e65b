"""The rules of info strings, and the check of commands."""

import pytest

from blocks import read
from run import Failed, Help


def block_of(text: str):
    page = read("docs/page.md", text)
    assert page.complaints == []
    return page.blocks[0]


def complaint_of(text: str) -> str:
    (complaint,) = read("docs/page.md", text).complaints
    return complaint


def test_a_block_has_its_language_its_tags_and_its_line():
    block = block_of("words\n\n```python,raises=ValueError\nint('x')\n```\n")
    assert (block.language, block.tags, block.text) == ("python", {"raises": "ValueError"}, "int('x')\n")
    assert block.place == "docs/page.md:3" and block.is_run


def test_the_indent_of_a_block_in_a_list_is_no_part_of_it():
    assert block_of("1. do\n\n   ```sh\n   ls\n   ```\n").text == "ls\n"


def test_a_block_without_a_language_is_refused_with_the_known_ones():
    assert "names no language" in complaint_of("```\nls\n```\n")
    assert "`cobol`" in complaint_of("```cobol\n```\n")


def test_a_block_that_is_not_run_says_why():
    block = block_of("<!-- norun: needs an account -->\n```sh,norun\norrery\n```\n")
    assert block.reason == "needs an account" and not block.is_run
    assert "needs its reason" in complaint_of("```sh,norun\norrery\n```\n")


def test_a_language_that_is_not_run_here_shows_a_file():
    assert block_of("<!-- from examples/a.go -->\n```go\n```\n").source == "examples/a.go"
    assert "<!-- from PATH -->" in complaint_of("```go\n```\n")


def test_a_block_of_toml_may_name_the_file_that_it_becomes():
    assert block_of("```toml,file=clusters.toml\na = 1\n```\n").tags == {"file": "clusters.toml"}
    assert block_of("```toml,end-of=clusters.toml\na = 1\n```\n").tags == {"end-of": "clusters.toml"}


def test_a_page_says_that_it_needs_machines():
    assert read("docs/page.md", "<!-- with the machines of a fleet -->\n").has_fleet
    assert not read("docs/page.md", "with the machines of a fleet\n").has_fleet


def test_an_unknown_tag_is_refused():
    assert "no tag `fast`" in complaint_of("```sh,fast\n```\n")


def test_a_block_that_is_not_closed_is_refused():
    assert "not closed" in complaint_of("```sh\nls\n")


@pytest.mark.parametrize(
    ("commands", "missing"),
    [
        ("orrery start --memory\n", None),
        ("orrery keys create --key-file a \\\n  # a comment on --colour\n", None),
        ("KEY=1; orrery stert\n", "`stert`"),
        ("orrery start --colour blue\n", "`--colour`"),
    ],
)
def test_a_command_names_what_the_help_has(commands, missing):
    block = block_of(f"```sh\n{commands}```\n")
    if missing is None:
        Help().check(block)
    else:
        with pytest.raises(Failed, match=missing):
            Help().check(block)
