"""The checks of the table of mistakes, and of the parts of texts that users see."""

from pathlib import Path

import pytest

from mistakes import parse, read
from seen import masked, sentences
from table import BadTable

GOOD = '[[mistake]]\nname = "n"\ndo = "read_item"\nwith = { id = "1" }\nstatus = 404\nsays = "x"'


def test_the_table_has_at_least_forty_mistakes():
    assert len(read(Path(__file__).parent / "table")) >= 40


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('"read_item"', '"read_itm"', "no operation `read_itm`"),
        ("status = 404", "", "`status` is missing"),
        ("says", "said", "`said` is not one of"),
        ("id =", "idd =", "`idd` is not one of"),
        ('name = "n"', 'name = "n"\ngiven = "luck"', "is given one of"),
        ("=", "", "a.toml: "),
    ],
)
def test_a_slip_of_the_pen_is_refused_by_name(old, new, words):
    with pytest.raises(BadTable) as problem:
        parse("a.toml", GOOD.replace(old, new, 1))
    assert words in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        'Message: {"Errors":["a \\"b\\" c."]}\r\nActivityId: 1',
        '(BadRequest) Message: {"errors":[{"severity":"Error","message":"a \\"b\\" c."}]}',
        'RESPONSE 400\n{\n  "code": "BadRequest",\n  "message": "Message: {\\"Errors\\":[\\"a \\\\\\"b\\\\\\" c.\\"]}"\n}',
        '400: Cosmos DB returned HTTP 400: Unknown. Details: a "b" c.',
    ],
)
def test_the_sentences_are_found_in_every_form(text):
    assert sentences(text) == 'a "b" c.'


def test_parts_that_differ_from_run_to_run_are_masked():
    text = "db-1 has no container\r\nActivityId: 0f8fad5b-d9cb-469f-a165-70867728950e at Mon, 23 Nov 2026 01:02:03 GMT"
    assert masked(text, "db-1") == "shop has no container at <date>"
