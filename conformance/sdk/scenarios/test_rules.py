"""The rules of all answers: each is broken by an answer, and a good answer breaks none."""

import pytest

from rules import broken_rules

GOOD = {
    "method": "GET",
    "path": "/dbs/d/colls/c/docs",
    "status": 200,
    "headers": {"x-ms-request-charge": "2.5", "x-ms-activity-id": "a", "x-ms-item-count": "3"},
    "body_bytes": 10,
    "error_text": "",
}
ERROR = GOOD | {
    "status": 404,
    "body_bytes": 41,
    "error_text": '{"code":"NotFound","message":"It is gone"}',
    "headers": GOOD["headers"] | {"content-type": "application/json", "content-length": "41", "x-ms-substatus": "0"},
}


def with_header(answer, name, value):
    return answer | {"headers": answer["headers"] | {name: value}}


def test_good_answers_break_no_rule():
    free = with_header(GOOD, "x-ms-request-charge", "0") | {"path": "/"}
    plan = with_header(GOOD, "x-ms-request-charge", "0") | {"method": "POST"}
    assert broken_rules([GOOD, ERROR, free, plan]) == []


@pytest.mark.parametrize(
    "answer, words",
    [
        (with_header(GOOD, "x-ms-request-charge", "1e-3"), "has no charge"),
        (with_header(GOOD, "x-ms-request-charge", "0"), "is free"),
        (with_header(with_header(GOOD, "x-ms-request-charge", "0"), "x-ms-session-token", "0:1") | {"method": "POST"}, "is free"),
        (GOOD | {"headers": {"x-ms-request-charge": "1", "x-ms-item-count": "1"}}, "has no activity id"),
        (with_header(GOOD, "etag", ""), "has an empty header"),
        (GOOD | {"status": 304}, "has a body without content"),
        (with_header(GOOD, "x-ms-item-count", "many"), "is a feed without count"),
        (ERROR | {"error_text": "<html>"}, "is a malformed error"),
        (ERROR | {"error_text": '{"code":"NotFound"}'}, "is a malformed error"),
        (with_header(ERROR, "content-length", "40"), "is a malformed error"),
        (with_header(GOOD, "x-ms-substatus", "1002"), "has a wrong sub status"),
        (ERROR | {"status": 503}, "is a fault of the server"),
    ],
)
def test_a_broken_rule_is_named(answer, words):
    assert any(words in sentence for sentence in broken_rules([answer]))
