"""The comparison of the rows of an answer with those of a case.

Types count (1 and true differ, 1 and 1.0 do not), numbers may differ by the tolerance of the case, and rows without
an order are compared as a bag.
"""

import math

from cases import ADDED_ID, ADDED_KEY, Case

SYSTEM = frozenset({"_rid", "_self", "_etag", "_attachments", "_ts"})


def is_answer(rows: list, case: Case) -> bool:
    """Returns True if these rows are the ones that the case expects."""
    rows = without_additions(rows, kept=SYSTEM & _names(case.expected))
    if case.undefined_as_none and rows == [None] and case.expected == []:
        return True
    comparison = Comparison(case.tolerance, case.arrays_as_sets)
    return comparison.sequences(rows, case.expected) if case.ordered else comparison.bags(rows, case.expected)


def without_additions(value, kept: frozenset | set = frozenset()):
    """Returns the value without properties that server and suite added; `kept` are system properties that stay."""
    if isinstance(value, list):
        return [without_additions(element, kept) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: without_additions(member, kept)
        for name, member in value.items()
        if name != ADDED_KEY
        and (name not in SYSTEM or name in kept)
        and not (name == "id" and isinstance(member, str) and member.startswith(ADDED_ID))
    }


def _names(value) -> set:
    """Returns the names of all properties in a value."""
    if isinstance(value, list):
        return set().union(*map(_names, value))
    if isinstance(value, dict):
        return set(value).union(*map(_names, value.values()))
    return set()


class Comparison:
    """Equality of JSON values, with the exactness that a case states."""

    def __init__(self, tolerance: float, arrays_as_sets: bool):
        self._tolerance = tolerance
        self._arrays_as_sets = arrays_as_sets

    def values(self, left, right) -> bool:
        if _kind(left) is not _kind(right):
            return False
        if _kind(left) is float:
            return self._numbers(left, right)
        if isinstance(left, list):
            return self.bags(left, right) if self._arrays_as_sets else self.sequences(left, right)
        if isinstance(left, dict):
            return left.keys() == right.keys() and all(self.values(left[name], right[name]) for name in left)
        return left == right

    def sequences(self, left: list, right: list) -> bool:
        return len(left) == len(right) and all(map(self.values, left, right))

    def bags(self, left: list, right: list) -> bool:
        """Returns True if the values on the left and on the right can be paired."""
        if len(left) != len(right):
            return False
        unpaired = list(right)
        # Exact pairs first: otherwise a value within the tolerance could take the exact partner of another value.
        for same in (_identical, self.values):
            left, unpaired = _without_pairs(left, unpaired, same)
        return not unpaired

    def _numbers(self, left, right) -> bool:
        if left == right:
            return True
        try:
            return math.isclose(left, right, rel_tol=self._tolerance, abs_tol=self._tolerance)
        except OverflowError:
            return False  # an integer beyond any double is equal to itself only


def _without_pairs(left: list, right: list, same) -> tuple[list, list]:
    alone, unpaired = [], list(right)
    for value in left:
        partner = next((place for place, other in enumerate(unpaired) if same(value, other)), None)
        if partner is None:
            alone.append(value)
        else:
            unpaired.pop(partner)
    return alone, unpaired


def _identical(left, right) -> bool:
    return repr(left) == repr(right)


def _kind(value) -> type:
    """Returns the JSON type: one type for all numbers, another for booleans."""
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)
