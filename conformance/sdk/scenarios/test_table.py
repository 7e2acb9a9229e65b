"""The checks of the table of scenarios."""

from pathlib import Path

import pytest

from table import BadTable, parse, read

GOOD = '[[scenario]]\nname = "n"\nsteps = [{ do = "read_item", with = { id = "1" }, expect = { status = 404 } }]'


def test_every_file_of_the_table_is_read():
    table = Path(__file__).parent / "table"
    assert {scenario.file for scenario in read(table)} == {file.name for file in table.glob("*.toml")}


def test_a_scenario_is_given_a_container_unless_it_says_otherwise():
    (scenario,) = parse("a.toml", GOOD)
    assert (scenario.id, scenario.given, scenario.steps[0].operation) == ("a.toml::n", "container", "read_item")


def test_a_scenario_that_is_given_one_of_several_is_a_scenario_with_each():
    text = "[let]\nmany = { repeat = 2, of = 1 }\n" + GOOD
    text = text.replace('name = "n"', 'name = "n"\ngiven = ["container", "wide container"]\nitems = "${many}"\neach = [1, 2]')
    one, other = parse("a.toml", text)
    assert (one.id, other.id) == ("a.toml::n, in a container", "a.toml::n, in a wide container")
    assert (other.given, other.items, other.each) == ("wide container", "${many}", (1, 2))
    assert other.let == {"many": {"repeat": 2, "of": 1}}


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('"read_item"', '"read_itm"', "no operation `read_itm`"),
        ("with = { id", "with = { idd", "`idd` is not one of"),
        ("status", "statsu", "`statsu` is not one of"),
        ("expect = { status = 404 }", "expect = {}", "expects nothing"),
        ('name = "n"', 'name = "n"\ngiven = "luck"', "is given one of"),
        ('name = "n"', 'name = "n"\ngiven = ["container", "luck"]', "is given one of"),
        ('name = "n"', 'name = "n"\ngiven = "database"\nitems = [{ id = "1" }]', "items need a container"),
        ('name = "n"', "", "has a name"),
        (GOOD, GOOD + "\n" + GOOD, "two scenarios"),
        ("[[scenario]]", "[[scenari]]", "`scenari` is not one of"),
        ("=", "", "a.toml: "),
    ],
)
def test_a_slip_of_the_pen_is_refused_by_name(old, new, words):
    with pytest.raises(BadTable) as problem:
        parse("a.toml", GOOD.replace(old, new, 1))
    assert words in str(problem.value)
