"""The cases and their data sets, which are files of a directory outside the repository.

The directory is the one that `ORRERY_SQL_CASES` names, else `../shared/data/sql` beside the repository. A line of
`datasets.jsonl` is one data set; a line of any other file is one case: a query on a data set and the rows that the
service answers.
"""

import copy
import json
import os
from dataclasses import dataclass
from pathlib import Path

DIRECTORY_VARIABLE = "ORRERY_SQL_CASES"
REPOSITORY = Path(__file__).resolve().parents[3]
DATASETS = "datasets.jsonl"

# Properties that the suite adds to items without a partition key or id, and removes from answers.
ADDED_KEY = "__pk"
ADDED_ID = "__added_"
# The number of logical partitions of a data set without a partition key of its own.
LOGICAL_PARTITIONS = 4


@dataclass(frozen=True)
class Dataset:
    """Items and the definition of their container."""

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
        """Returns the items, each with an id and a partition key, and the path of the partition key.

        With `spread`, the items are in several logical partitions; otherwise all are in the one with the key `p`.
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

    `ordered`: the order of the rows counts. `arrays_as_sets`: the order of elements of arrays in rows does not count.
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


class NoCases(Exception):
    """The directory of the cases is missing although the run needs it."""


def directory(required: bool, repository: Path = REPOSITORY) -> Path | None:
    """Returns the directory of the cases, or None if there is none.

    Raises NoCases if the variable names a directory without cases, or if the run requires the cases, `shared` stands
    beside the repository and holds none.
    """
    named = os.environ.get(DIRECTORY_VARIABLE)
    shared = repository.parent / "shared"
    chosen = Path(named) if named else shared / "data" / "sql"
    if (chosen / DATASETS).is_file():
        return chosen
    if named:
        raise NoCases(f"{DIRECTORY_VARIABLE} names {chosen}, which holds no {DATASETS}")
    if required and shared.is_dir():
        raise NoCases(f"the cases are required, and {chosen} holds no {DATASETS}")
    return None


def datasets(source: Path) -> dict[str, Dataset]:
    """Returns the data sets of a directory by name."""
    return {row["name"]: Dataset.of(row) for row in _rows(source / DATASETS)}


def cases(source: Path | None) -> list[Case]:
    """Returns every case of a directory, file after file; none without a directory."""
    if source is None:
        return []
    files = sorted(file for file in source.glob("*.jsonl") if file.name != DATASETS)
    return [Case.of(row) for file in files for row in _rows(file)]


def _rows(file: Path) -> list[dict]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
