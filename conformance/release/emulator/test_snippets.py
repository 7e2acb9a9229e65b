"""The page about Testcontainers: each snippet that names a program is in that program, which the suite runs."""

import re
import textwrap

import pytest
from consumers import HERE, ROOT

PAGE = ROOT / "docs" / "how-to" / "use-testcontainers.md"
SNIPPETS = re.findall(r"<!-- from (\S+) -->\n```\w+\n(.*?)```\n", PAGE.read_text(), re.DOTALL)
BEGIN_OR_END = re.compile(r"^\s*(?://|#) (?:snippet: \w+|end)\n", re.MULTILINE)


def snippets_of(path: str) -> list[str]:
    """The snippets that a program marks."""
    parts = BEGIN_OR_END.split((ROOT / path).read_text())
    return [textwrap.dedent(part) for part in parts[1::2]]


@pytest.mark.parametrize(("program", "snippet"), SNIPPETS)
def test_a_snippet_of_the_page_is_run_by_its_program(program, snippet):
    assert snippet in snippets_of(program)


def test_every_snippet_of_the_programs_is_on_the_page():
    shown = [snippet for _, snippet in SNIPPETS]
    programs = {program for program, _ in SNIPPETS}
    assert len(programs) == 4 and all(program.startswith(f"conformance/release/{HERE.name}/") for program in programs)
    assert sorted(shown) == sorted(snippet for program in programs for snippet in snippets_of(program))
