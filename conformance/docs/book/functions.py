"""The page `docs/reference/functions.md`: each function with its arguments, an example, and the result.

    python functions.py          checks the page
    python functions.py --write  writes it

The names and arguments come from `core/sql/src/functions/signatures.rs`, the examples stand below, and the results
are what the program answers. A result that differs from call to call is not shown.

Promises: every function with a signature has an example, and every example belongs to a function.
"""

import argparse
import difflib
import json
import re
import sys
import tempfile
from pathlib import Path

from run import DATA_SET, ROOT, World, query

SIGNATURES = ROOT / "core" / "sql" / "src" / "functions" / "signatures.rs"
PAGE = ROOT / "docs" / "reference" / "functions.md"

POINT = '{"type": "Point", "coordinates": [%s]}'
SQUARE = '{"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]}'

# An expression of each function, by the name in the signatures.
EXAMPLES = {
    "ABS": "ABS(-3)",
    "CEILING": "CEILING(2.1)",
    "FLOOR": "FLOOR(2.9)",
    "SIGN": "SIGN(-7)",
    "SQRT": "SQRT(9)",
    "SQUARE": "SQUARE(3)",
    "EXP": "EXP(0)",
    "LOG10": "LOG10(100)",
    "TRUNC": "TRUNC(-2.7)",
    "SIN": "SIN(0)",
    "COS": "COS(0)",
    "TAN": "TAN(0)",
    "COT": "ROUND(COT(1), 4)",
    "ASIN": "ASIN(0)",
    "ACOS": "ACOS(1)",
    "ATAN": "ATAN(0)",
    "DEGREES": "DEGREES(PI())",
    "RADIANS": "ROUND(RADIANS(180), 4)",
    "ROUND": "ROUND(2.345, 1)",
    "POWER": "POWER(2, 10)",
    "LOG": "LOG(8, 2)",
    "ATN2": "ROUND(ATN2(1, 1), 4)",
    "PI": "ROUND(PI(), 4)",
    "NUMBERBIN": "NumberBin(37, 10)",
    "RAND": "RAND()",
    "INTADD": "IntAdd(7, 5)",
    "INTSUB": "IntSub(7, 5)",
    "INTMUL": "IntMul(7, 5)",
    "INTDIV": "IntDiv(7, 5)",
    "INTMOD": "IntMod(7, 5)",
    "INTBITAND": "IntBitAnd(6, 3)",
    "INTBITOR": "IntBitOr(6, 3)",
    "INTBITXOR": "IntBitXor(6, 3)",
    "INTBITLEFTSHIFT": "IntBitLeftShift(1, 4)",
    "INTBITRIGHTSHIFT": "IntBitRightShift(16, 2)",
    "INTBITNOT": "IntBitNot(0)",
    "CONCAT": 'CONCAT("a", "b", "c")',
    "CONTAINS": 'CONTAINS("Touring Frame", "frame", true)',
    "STARTSWITH": 'STARTSWITH("Touring Frame", "Tour")',
    "ENDSWITH": 'ENDSWITH("Touring Frame", "me")',
    "STRINGEQUALS": 'StringEquals("Bell", "bell", true)',
    "CONTAINS_ALL_CI": 'CONTAINS_ALL_CI("Touring Frame", "frame", "tour")',
    "CONTAINS_ALL_CS": 'CONTAINS_ALL_CS("Touring Frame", "frame", "tour")',
    "CONTAINS_ANY_CI": 'CONTAINS_ANY_CI("Touring Frame", "bell", "tour")',
    "CONTAINS_ANY_CS": 'CONTAINS_ANY_CS("Touring Frame", "bell", "tour")',
    "INDEX_OF": 'INDEX_OF("banana", "n")',
    "LASTINDEXOF": 'LastIndexOf("banana", "n")',
    "LENGTH": 'LENGTH("Bell")',
    "LOWER": 'LOWER("Bell")',
    "UPPER": 'UPPER("Bell")',
    "LEFT": 'LEFT("Frame", 2)',
    "RIGHT": 'RIGHT("Frame", 2)',
    "SUBSTRING": 'SUBSTRING("Frame", 1, 3)',
    "LTRIM": 'LTRIM("  Bell ")',
    "RTRIM": 'RTRIM("  Bell ")',
    "TRIM": 'TRIM("  Bell ")',
    "REPLACE": 'REPLACE("banana", "an", "-")',
    "REPLICATE": 'REPLICATE("ab", 3)',
    "REVERSE": 'REVERSE("Bell")',
    "STRINGJOIN": 'StringJoin(["a", "b"], "-")',
    "STRINGSPLIT": 'StringSplit("a,b", ",")',
    "SUBSTRINGAFTER": 'SubstringAfter("a/b/c", "/")',
    "SUBSTRINGBEFORE": 'SubstringBefore("a/b/c", "/")',
    "LASTSUBSTRINGAFTER": 'LastSubstringAfter("a/b/c", "/")',
    "LASTSUBSTRINGBEFORE": 'LastSubstringBefore("a/b/c", "/")',
    "TOSTRING": "ToString(1.5)",
    "STRINGTONUMBER": 'StringToNumber("1.5")',
    "STRINGTOBOOLEAN": 'StringToBoolean("true")',
    "STRINGTONULL": 'StringToNull("null")',
    "STRINGTOARRAY": 'StringToArray("[1, 2]")',
    "STRINGTOOBJECT": "StringToObject('{\"a\": 1}')",
    "REGEXMATCH": 'RegexMatch("Bell", "^b", "i")',
    "REGEXEXTRACT": 'RegexExtract("a1b22", "[0-9]+")',
    "REGEXEXTRACTALL": 'RegexExtractAll("a1b22", "[0-9]+")',
    "ARRAY_CONCAT": "ARRAY_CONCAT([1], [2, 3])",
    "ARRAY_CONTAINS": 'ARRAY_CONTAINS(["steel", "blue"], "blue")',
    "ARRAY_CONTAINS_ANY": "ARRAY_CONTAINS_ANY([1, 2], 2, 3)",
    "ARRAY_CONTAINS_ALL": "ARRAY_CONTAINS_ALL([1, 2], 2, 3)",
    "ARRAY_LENGTH": "ARRAY_LENGTH([1, 2])",
    "ARRAY_SLICE": "ARRAY_SLICE([1, 2, 3, 4], 1, 2)",
    "ARRAY_SUM": "ARRAY_SUM([1, 2, 3])",
    "ARRAY_AVG": "ARRAY_AVG([1, 2, 3])",
    "ARRAY_MEDIAN": "ARRAY_MEDIAN([1, 2, 9])",
    "ARRAY_MIN": "ARRAY_MIN([3, 1, 2])",
    "ARRAY_MAX": "ARRAY_MAX([3, 1, 2])",
    "SETINTERSECT": "SetIntersect([1, 2], [2, 3])",
    "SETUNION": "SetUnion([1, 2], [2, 3])",
    "SETDIFFERENCE": "SetDifference([1, 2], [2, 3])",
    "SETEQUAL": "SetEqual([1, 2], [2, 1])",
    "OBJECTTOARRAY": 'ObjectToArray({"a": 1})',
    "DOCUMENTID": "DOCUMENTID(c) > 0",
    "IIF": 'IIF(1 < 2, "yes", "no")',
    "CHOOSE": 'CHOOSE(2, "a", "b")',
    "COUNT": "COUNT(1)",
    "COUNTIF": "COUNTIF(c.price > 100)",
    "SUM": "SUM(c.price)",
    "AVG": "AVG(c.price)",
    "MIN": "MIN(c.price)",
    "MAX": "MAX(c.price)",
    "MAKELIST": "MAKELIST(c.category)",
    "MAKESET": "MAKESET(c.category)",
    "IS_ARRAY": "IS_ARRAY([])",
    "IS_BOOL": "IS_BOOL(true)",
    "IS_NULL": "IS_NULL(null)",
    "IS_NUMBER": 'IS_NUMBER("1")',
    "IS_OBJECT": "IS_OBJECT({})",
    "IS_STRING": 'IS_STRING("")',
    "IS_DEFINED": "IS_DEFINED(c.size)",
    "IS_PRIMITIVE": "IS_PRIMITIVE(1)",
    "IS_FINITE_NUMBER": "IS_FINITE_NUMBER(1)",
    "IS_INTEGER": "IS_INTEGER(1.5)",
    "IS_DATETIME": 'IS_DATETIME("2026-03-01T10:00:00Z")',
    "GETCURRENTDATETIME": "GetCurrentDateTime()",
    "GETCURRENTTIMESTAMP": "GetCurrentTimestamp()",
    "GETCURRENTTICKS": "GetCurrentTicks()",
    "GETCURRENTDATETIMESTATIC": "GetCurrentDateTimeStatic()",
    "GETCURRENTTIMESTAMPSTATIC": "GetCurrentTimestampStatic()",
    "GETCURRENTTICKSSTATIC": "GetCurrentTicksStatic()",
    "NOW": "NOW()",
    "AGO": 'AGO("dd", 1)',
    "DATETIMEADD": 'DateTimeAdd("mm", 1, "2026-03-01T10:00:00Z")',
    "DATETIMEDIFF": 'DateTimeDiff("dd", "2026-03-01T10:00:00Z", "2026-03-15T08:30:00Z")',
    "DATETIMEPART": 'DateTimePart("mm", "2026-03-01T10:00:00Z")',
    "DATETIMEBIN": 'DateTimeBin("2026-03-15T08:30:00Z", "hh", 6)',
    "DATETIMEFROMPARTS": "DateTimeFromParts(2026, 3, 1)",
    "DATETIMETOTICKS": 'DateTimeToTicks("2026-03-01T10:00:00Z")',
    "DATETIMETOTIMESTAMP": 'DateTimeToTimestamp("2026-03-01T10:00:00Z")',
    "TICKSTODATETIME": "TicksToDateTime(17723592000000000)",
    "TIMESTAMPTODATETIME": "TimestampToDateTime(1772359200000)",
    "DATETIMEFORMAT": 'DateTimeFormat("2026-03-01T10:00:00Z", "yyyy-MM")',
    "YEAR": 'YEAR("2026-03-01T10:00:00Z")',
    "MONTH": 'MONTH("2026-03-01T10:00:00Z")',
    "DAY": 'DAY("2026-03-01T10:00:00Z")',
    "ST_DISTANCE": f"ROUND(ST_DISTANCE({POINT % '0, 0'}, {POINT % '0, 1'}))",
    "ST_AREA": f"ST_AREA({SQUARE}) > 0",
    "ST_WITHIN": f"ST_WITHIN({POINT % '1, 1'}, {SQUARE})",
    "ST_INTERSECTS": f"ST_INTERSECTS({POINT % '3, 3'}, {SQUARE})",
    "ST_ISVALID": f"ST_ISVALID({POINT % '31, 131'})",
    "ST_ISVALIDDETAILED": f"ST_ISVALIDDETAILED({POINT % '1, 1'})",
    "VECTORDISTANCE": 'VectorDistance([1, 0], [0, 1], true, {"distanceFunction": "euclidean", "dataType": "float32"})',
}

# Functions that need a policy of the container, or a clause of their own.
SEARCH = {
    "FULLTEXTCONTAINS": 'FullTextContains(c.name, "frame")',
    "FULLTEXTCONTAINSALL": 'FullTextContainsAll(c.name, "racing", "frame")',
    "FULLTEXTCONTAINSANY": 'FullTextContainsAny(c.name, "bell", "frame")',
    "FULLTEXTSCORE": 'ORDER BY RANK FullTextScore(c.name, "frame")',
    "RRF": 'ORDER BY RANK RRF(FullTextScore(c.name, "frame"), VectorDistance(c.vector, [1, 0]))',
}
# Functions whose results differ from call to call.
CHANGING = re.compile(r"^(RAND|GETCURRENT.*|NOW|AGO)$")
AGGREGATES = {"COUNT", "COUNTIF", "SUM", "AVG", "MIN", "MAX"}


def signatures() -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns the groups of the table: a heading, and functions with their arguments."""
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    for line in SIGNATURES.read_text().splitlines():
        heading = re.match(r"^    // (.+)\.$", line)
        row = re.match(r'^    \("([A-Z0-9_]+)", "([^"]*)"\),$', line)
        if heading:
            groups.append((heading.group(1), []))
        elif row:
            groups[-1][1].append((row.group(1), row.group(2)))
    return groups


def usage(name: str, arguments: str, example: str) -> str:
    """Returns `Name(first, [second])`, with the name as the example spells it."""
    spelled = re.search(name, example, re.IGNORECASE)
    listed = ", ".join(word.replace("...", ", …") for word in arguments.split())
    return f"{spelled.group(0) if spelled else name}({listed})"


def result(world: World, name: str, example: str) -> str:
    """Returns the cell with the result of an example."""
    if CHANGING.match(name):
        return "changes"
    if name in SEARCH:
        return "[a container with a policy](../compat.md)"
    where = "" if name in AGGREGATES else ' WHERE c.id = "p1"'
    rows, problem = query(world, f"SELECT VALUE {example} FROM c{where}")
    if problem is not None:
        raise SystemExit(f"{name}: {example} was refused: {problem}")
    cell = json.dumps(rows[0]) if rows else "undefined"
    return f"`{cell}`"


def page(world: World) -> str:
    """Returns the text of the page."""
    lines = [
        "# Functions of the query language",
        "",
        "The arguments come from the table of the program, and the results are what the program answered.",
        "A name in brackets may be left out, and `…` stands for more of the same kind.",
        "A function of a wrong type gives undefined, which a list of rows leaves out.",
        "",
        "The examples run on these items, as `SELECT VALUE … FROM c`; COUNT, SUM and their kin run over all of them, the others over the first:",
        "",
        "```json",
        DATA_SET.read_text().rstrip(),
        "```",
        "",
        "```sql",
        'SELECT c.name, ARRAY_LENGTH(c.tags) AS tags FROM c WHERE c.category = "bikes" ORDER BY c.price',
        "```",
        "",
        "```json,rows",
        '[{"name": "Touring Frame", "tags": 2}, {"name": "Racing Frame", "tags": 1}]',
        "```",
        "",
    ]
    examples = EXAMPLES | SEARCH
    known = {name for _, functions in signatures() for name, _ in functions}
    if known != set(examples):
        raise SystemExit(f"functions and examples differ: {sorted(known ^ set(examples))}")
    for heading, functions in signatures():
        lines += [f"## {heading}", "", "| function | example | result |", "|---|---|---|"]
        for name, arguments in functions:
            example = examples[name]
            cells = (f"`{usage(name, arguments, example)}`", f"`{example}`", result(world, name, example))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def compare(write: bool) -> list[str]:
    """Returns the complaints about the page; with `write`, writes it."""
    with tempfile.TemporaryDirectory(prefix="orrery-functions-") as directory:
        world = World(Path(directory))
        try:
            made = page(world)
        finally:
            world.close()
    if write:
        PAGE.write_text(made)
        return []
    found = PAGE.read_text() if PAGE.is_file() else ""
    if found == made:
        return []
    changes = [line for line in difflib.ndiff(found.splitlines(), made.splitlines()) if line[0] in "+-"]
    name = PAGE.relative_to(ROOT)
    return [f"{name} differs from the program; `cargo xtask book --write` writes it:\n" + "\n".join(changes[:10])]


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the page of functions, or write it")
    parser.add_argument("--write", action="store_true")
    complaints = compare(parser.parse_args().write)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
