"""The checker finds each kind of fault, and nothing in a history without one."""

from check import Found, gap, judge, read_history
from items import key_of, names_of

BATCH_OPERATION, PROCEDURE_OPERATION, TRIGGERS_OPERATION = 0, 1, 2


def history(*outcomes: str):
    statuses = {"ok": 200, "not": 503, "unknown": 408}
    lines = [f"{n} {outcome} {statuses[outcome]} 0 1" for n, outcome in enumerate(outcomes)]
    return read_history("w", "\n".join(lines))


def everything(operations) -> Found:
    found = Found()
    for operation in operations:
        key = key_of("w", operation.number)
        for name in names_of("w", operation.number):
            found.add({"id": name, "pk": key, "stamped": name})
        if operation.number == PROCEDURE_OPERATION:
            found.add({"id": "counter", "pk": key, "count": 1})
    return found


def test_a_history_without_a_fault_has_none():
    operations = history("ok", "ok", "ok")
    assert judge(operations, everything(operations)) == []


def test_an_unknown_operation_may_be_there_or_not():
    operations = history("unknown", "unknown", "unknown")
    assert judge(operations, everything(operations)) == []
    assert judge(operations, Found()) == []


def test_lost_refused_and_partial_operations_are_found():
    assert "not there" in judge(history("ok"), Found())[0]
    refused = history("not")
    assert "refused and is there" in judge(refused, everything(refused))[0]
    operations = history("ok")
    found = everything(operations)
    del found.names["w-0-3"]
    assert "9 of 10" in judge(operations, found)[0]


def test_items_that_are_there_twice_or_without_a_write_are_found():
    operations = history("ok")
    found = everything(operations)
    found.add({"id": "w-0-0", "pk": "w/0"})
    found.add({"id": "w-9-0", "pk": "w/9"})
    assert [fault.split(",")[0] for fault in judge(operations, found)] == ["w-0-0 is there 2 times", "w-9-0 is there"]


def test_a_procedure_that_was_carried_out_twice_and_a_trigger_that_did_not_run_are_found():
    operations = history("ok", "ok", "ok")
    found = everything(operations)
    found.counters[key_of("w", PROCEDURE_OPERATION)] = 2
    found.stamped.clear()
    faults = judge(operations, found)
    assert "pre-trigger" in faults[0] and "counter" in faults[1]


def test_a_gap_begins_and_ends_with_the_window():
    assert gap([10, 20, 50], (0, 60)) == 30
    assert gap([], (0, 60)) == 60
