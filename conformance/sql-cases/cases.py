"""The cases and their data sets, as the files below `data` hold them.

A line of `datasets.jsonl` is one data set; a line of any other file is one case: a query on a data set and the rows
that the service answers.
"""

import copy
import json
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).with_name("data")
DATASETS = "datasets.jsonl"

# What the suite adds to items that come without a partition key or an id, and takes away again from answers.
ADDED_KEY = "__pk"
ADDED_ID = "__added_"
# Over how many logical partitions a data set without a partition key of its own is spread.
LOGICAL_PARTITIONS = 4


@dataclass(frozen=True)
class Dataset:
    """Items, and what their container must have."""

    name: str
    documents: list
    partition_key_path: str | None
    indexing_policy: dict | None
    vector_embedding_policy: dict | None

    @classmethod
    def of(cls, row: dict) -> "Dataset":
        return cls(
            name=row["name"],
            documents=row["documents"],
            partition_key_path=row.get("partitionKeyPath"),
            indexing_policy=row.get("indexingPolicy"),
            vector_embedding_policy=row.get("vectorEmbeddingPolicy"),
        )

    def items(self, spread: bool) -> tuple[list[dict], str]:
        """The items with an id and a partition key each, and the path of the partition key.

        Spread, they lie in several logical partitions; otherwise all in the one whose key is `p`.
        """
        path = self.partition_key_path if spread else None
        items = []
        for place, document in enumerate(self.documents):
            item = copy.deepcopy(document)
            if not isinstance(item.get("id"), str):
                item["id"] = f"{ADDED_ID}{place}"
            if path is None:
                item[ADDED_KEY] = f"p{place % LOGICAL_PARTITIONS}" if spread else "p"
            items.append(item)
        return items, path or f"/{ADDED_KEY}"


@dataclass(frozen=True)
class Case:
    """A query and its rows.

    `ordered`: the order of the rows counts. `arrays_as_sets`: that of elements of arrays in them does not.
    `undefined_as_none`: the SDK gives one None for an aggregate that is undefined, where the service has no row.
    `spread`: the items may lie in several logical partitions; False where the answer depends on the order in which
    they were written, or where this SDK cannot merge.
    """

    name: str
    dataset: str
    query: str
    parameters: list | None
    expected: list
    ordered: bool
    tolerance: float
    arrays_as_sets: bool
    undefined_as_none: bool
    spread: bool

    @classmethod
    def of(cls, row: dict) -> "Case":
        return cls(
            name=row["name"],
            dataset=row["dataset"],
            query=row["query"],
            parameters=row["parameters"] or None,
            expected=row["expected"],
            ordered=row["ordered"],
            tolerance=row.get("tolerance", 1e-9),
            arrays_as_sets=row.get("arraysAsSets", False),
            undefined_as_none=row.get("undefinedAsNone", False),
            spread=row.get("sdkCross", True) and not row.get("insertionOrder", False),
        )


def datasets() -> dict[str, Dataset]:
    """The data sets by name."""
    return {row["name"]: Dataset.of(row) for row in _rows(DATA / DATASETS)}


def cases() -> list[Case]:
    """Every case, file after file."""
    files = sorted(file for file in DATA.glob("*.jsonl") if file.name != DATASETS)
    return [Case.of(row) for file in files for row in _rows(file)]


def _rows(file: Path) -> list[dict]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
