"""The plans of queries that the .NET SDK's own library makes, against those of the server.

Windows clients, and Linux clients that ask for it, make plans with a native library and the member
`queryEngineConfiguration` of the account document. Its plans and its errors should be those of the server.

Promises: each query of `texts.txt` and of the SQL cases has the same plan, or the same errors at the same places, except for the
differences of `KNOWN`; a known difference that no query shows is an AssertionError.
Leaves out: the ranges of the partition key, which have another form there.
"""

import base64
import contextlib
import ctypes
import email.utils
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from orrery_server import Endpoints, Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sql-cases"))

import cases  # noqa: E402

LIBRARY = "libQueryPlanInterop.so"
TEXTS = Path(__file__).resolve().parent / "texts.txt"
_BUFFER_TOO_SMALL = 0x80020013
_FEATURES = (
    "Aggregate, CompositeAggregate, CountIf, DCount, Distinct, GroupBy, HybridSearch, "
    "HybridSearchSkipOrderByRewrite, ListAndSetAggregate, MultipleAggregates, MultipleOrderBy, NonStreamingOrderBy, "
    "NonValueAggregate, OffsetAndLimit, OrderBy, Top, WeightedRankFusion"
)
# The members of a plan that a client reads.
_MEMBERS = (
    "aggregates",
    "dCountInfo",
    "distinctType",
    "groupByAliases",
    "groupByAliasToAggregateType",
    "groupByExpressions",
    "hasNonStreamingOrderBy",
    "hasSelectValue",
    "limit",
    "offset",
    "orderBy",
    "orderByExpressions",
    "rewrittenQuery",
    "top",
)
# Differences that stay, by the reason, each with the queries that show it.
KNOWN = {
    "the rewritten text keeps DISTINCT of a single aggregate row": re.compile(r"^SELECT DISTINCT VALUE \w+\("),
    "groups with aggregates are sorted by the server": re.compile(r"GROUP BY .* ORDER BY"),
    "an aggregate over distinct rows of a subquery is merged by the server": re.compile(r"^SELECT VALUE (SUM|MAX)\(r0"),
    "distinct rows that are sorted by their only member may be compared in order": re.compile(
        r"^SELECT DISTINCT c\.a FROM c ORDER BY c\.a$"
    ),
    "the server checks an inner query and its outer query together": re.compile(r"^SELECT c\.b, \("),
    "the server sorts by the distance to any vector": re.compile(r'VectorDistance\(c\.v, "a"\)'),
    "the server knows the parameters of the request": re.compile(r"@p"),
    "the server folds the constant in the brackets": re.compile(r"c\[1 \+ 1\]"),
    "counts of rows fit 31 bits": re.compile(r"RANK .* LIMIT 2147483647"),
    "the server takes NULL and TRUE in capitals": re.compile(r"NULL, TRUE"),
}


class _Options(ctypes.Structure):
    """The options of a plan, 64 bytes as in the library's public header."""

    _fields_ = [
        ("require_formattable_order_by", ctypes.c_int32),
        ("is_continuation_expected", ctypes.c_int32),
        ("allow_non_value_aggregate", ctypes.c_int32),
        ("has_logical_partition_key", ctypes.c_int32),
        ("allow_dcount", ctypes.c_int32),
        ("use_system_prefix", ctypes.c_int32),
        ("partition_kind", ctypes.c_int32),
        ("geospatial_type", ctypes.c_int32),
        ("hybrid_search_skip_order_by_rewrite", ctypes.c_int32),
        ("reserved", ctypes.c_uint8 * 28),
    ]


class Planner:
    """The native library with the configuration of an account."""

    def __init__(self, library: Path, configuration: str):
        loaded = ctypes.CDLL(str(library))
        self._provider = ctypes.c_void_p()
        create = loaded.CreateServiceProvider
        create.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
        create.restype = ctypes.c_uint32
        code = create(configuration.encode(), ctypes.byref(self._provider))
        assert code == 0, f"the library refuses the configuration of the account: {code:#x}"
        self._plan = loaded.GetPartitionKeyRangesFromQuery4
        self._plan.restype = ctypes.c_uint32
        self._plan.argtypes = [
            *(ctypes.c_void_p, ctypes.c_wchar_p, _Options),
            *(ctypes.POINTER(ctypes.c_wchar_p), ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32),
            *(ctypes.c_wchar_p, ctypes.c_uint32),
            *(ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)),
        ]

    def plan(self, query: str, parameters: list) -> dict:
        """Returns the plan of a query, or its errors."""
        spec = json.dumps({"query": query, "parameters": parameters}, ensure_ascii=False)
        options = _Options(
            require_formattable_order_by=1,
            is_continuation_expected=1,
            allow_non_value_aggregate=1,
            allow_dcount=1,
            hybrid_search_skip_order_by_rewrite=1,
        )
        path = (ctypes.c_wchar_p * 1)("pk")
        lengths = (ctypes.c_uint32 * 1)(1)
        length = ctypes.c_uint32(1 << 16)
        while True:
            buffer = ctypes.create_string_buffer(length.value)
            answer = ctypes.byref(length)
            code = self._plan(self._provider, spec, options, path, lengths, 1, None, 0, buffer, len(buffer), answer)
            if code != _BUFFER_TOO_SMALL:
                return json.loads(buffer.raw[: length.value])


class Service:
    """The plans of a server, over HTTP."""

    def __init__(self, endpoints: Endpoints):
        self._endpoint, self._key = endpoints.http.rstrip("/"), base64.b64decode(endpoints.key)

    def configuration(self) -> str:
        return self._ask("GET", "", "", None, {})["queryEngineConfiguration"]

    def create(self) -> None:
        """Creates the container of the queries."""
        self._ask("POST", "dbs", "", {"id": "plans"}, {})
        key = {"paths": ["/pk"], "kind": "Hash", "version": 2}
        self._ask("POST", "colls", "dbs/plans", {"id": "items", "partitionKey": key}, {})

    def plan(self, query: str, parameters: list) -> dict:
        """Returns the plan of a query, or its errors."""
        headers = {
            "content-type": "application/query+json",
            "x-ms-documentdb-isquery": "True",
            "x-ms-documentdb-query-enablecrosspartition": "True",
            "x-ms-cosmos-is-query-plan-request": "True",
            "x-ms-cosmos-supported-query-features": _FEATURES,
        }
        body = {"query": query, "parameters": parameters}
        return self._ask("POST", "docs", "dbs/plans/colls/items", body, headers)

    def _ask(self, method: str, kind: str, link: str, body: dict | None, headers: dict) -> dict:
        date = email.utils.formatdate(time.time(), usegmt=True)
        signed = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        signature = base64.b64encode(hmac.new(self._key, signed.encode(), hashlib.sha256).digest()).decode()
        token = urllib.parse.quote(f"type=master&ver=1.0&sig={signature}", safe="")
        own = {"authorization": token, "x-ms-date": date, "x-ms-version": "2020-07-15"}
        path = "/".join(part for part in (link, kind) if part)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._endpoint}/{path}", data, own | headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            return _errors(json.load(refused)["message"])


def _errors(message: str) -> dict:
    """Returns the errors in the message of a refusal."""
    at = message.find("{")
    assert at >= 0, f"a refusal without errors: {message}"
    return json.JSONDecoder().raw_decode(message[at:])[0]


def run_plans(program: Path, directory: Path) -> str:
    """Compares the plans of all queries. Returns a summary."""
    source = cases.directory(required=True)
    library = unpacked(program, directory)
    server = Server.start(directory / "server.log", "--memory")
    try:
        service = Service(server.endpoints)
        service.create()
        planner = Planner(library, service.configuration())
        found, known, count = [], Counter(), 0
        for query, parameters in queries(source):
            count += 1
            with quiet():
                theirs = planner.plan(query, parameters)
            different = difference(theirs, service.plan(query, parameters))
            if different:
                reason = next((reason for reason, shown in KNOWN.items() if shown.search(query)), None)
                known[reason] += 1
                found += [f"{query}\n    {different}"] if reason is None else []
    finally:
        server.stop()
    found += [f"no query shows that {reason}" for reason in KNOWN if not known[reason]]
    assert not found, "\n  ".join([f"{len(found)} differences", *found])
    return f"{count} plans are equal, {sum(known.values())} of them but for {len(KNOWN)} known differences"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Takes the standard error of the library away: it writes lines there for each text that it refuses."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def unpacked(program: Path, directory: Path) -> Path:
    """Returns the native library, which the program unpacks when it starts."""
    variables = os.environ | {"DOTNET_BUNDLE_EXTRACT_BASE_DIR": str(directory)}
    subprocess.run([str(program), "scenarios", "--list"], env=variables, stdout=subprocess.DEVNULL, check=True)
    libraries = list(directory.rglob(LIBRARY))
    assert libraries, f"{program} contains no {LIBRARY}"
    return libraries[0]


def queries(source: Path | None) -> Iterator[tuple[str, list]]:
    """Returns each query of `texts.txt` and of the cases once, with its parameters."""
    for line in TEXTS.read_text().splitlines():
        if line and not line.startswith("#"):
            yield line, []
    seen = set()
    for case in cases.cases(source):
        query, parameters = case.query, case.parameters or []
        text = json.dumps([query, parameters])
        if text not in seen:
            seen.add(text)
            yield query, parameters


def difference(library: dict, server: dict) -> str | None:
    """Returns what differs between two plans, or between two lists of errors."""
    theirs, ours = _comparable(library), _comparable(server)
    if theirs == ours:
        return None
    differing = sorted(key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key))
    return "; ".join(f"{key}: {ours.get(key)} and not {theirs.get(key)}" for key in differing)


def _comparable(plan: dict) -> dict:
    """Returns the parts of a plan or of errors that count, in one form."""
    errors = plan.get("errors") or plan.get("Errors")
    if errors:
        return {"errors": [_comparable_error(error) for error in errors]}
    hybrid = plan.get("hybridSearchQueryInfo")
    if hybrid:
        return {
            "globalStatisticsQuery": _text(hybrid.get("globalStatisticsQuery")),
            "components": [_comparable_info(info) for info in hybrid["componentQueryInfos"]],
            "weights": hybrid.get("componentWeights") or [],
            "requiresGlobalStatistics": hybrid["requiresGlobalStatistics"],
            **{key: hybrid.get(key) for key in ("skip", "take")},
        }
    return _comparable_info(plan["queryInfo"])


def _comparable_info(info: dict) -> dict:
    """Returns the members of a plan; absent and empty are one."""
    members = {key: info.get(key) or None for key in _MEMBERS}
    members["rewrittenQuery"] = _text(members["rewrittenQuery"])
    if members["groupByAliasToAggregateType"]:
        members["groupByAliasToAggregateType"] = {
            alias: kind or None for alias, kind in members["groupByAliasToAggregateType"].items()
        }
    return members


def _text(query: str | None) -> str | None:
    """Returns the text of a query without its line ends and indentation, in small letters, with short numbers."""
    if not query:
        return None
    plain = re.sub(r"\s+(?=\))|(?<=\()\s+", "", re.sub(r"\s+", " ", query)).lower()
    return plain.replace("1.7976900000000001e+308", "1.79769e+308")


def _comparable_error(error: dict | str) -> list:
    """Returns the code and the place of an error, or the text of one without a place."""
    if isinstance(error, str):
        return [error]
    location = error.get("location") or {}
    return [error.get("code"), location.get("start"), location.get("end")]
