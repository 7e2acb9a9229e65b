"""Finds functions of Python's standard library by meaning, by words, and by both.

    python search.py [--endpoint URL] [--key KEY] QUESTION ...

The texts are the first lines of the documentation of Python's own functions, so nothing is downloaded but the
packages. A text is embedded with the static table of 256 dimensions that the package wordllama ships. The program
stores the functions in two containers, with a vector and a full-text index and without them, asks each question in
three ways, and prints the answers with what they cost in both containers.
"""

import argparse
import importlib
import inspect
import pathlib
import pkgutil
import sys
import time
import warnings

import numpy
from azure.cosmos import CosmosClient, PartitionKey
from safetensors.numpy import load_file
from tokenizers import Tokenizer

EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
QUESTIONS = ["copy a directory with all its files", "wait until a thread has finished", "choose a random element of a list"]
DIMENSIONS = 256
BATCH = 100

# Modules that print, open windows or start something when they are imported.
LOUD = {"antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo"}

EMBEDDINGS = {
    "vectorEmbeddings": [
        {"path": "/vector", "dataType": "float32", "dimensions": DIMENSIONS, "distanceFunction": "cosine"}
    ]
}
TEXTS = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text", "language": "en-US"}]}
# The vectors and texts have indexes of their own: the index of all paths would hold each component.
PATHS = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/vector/*"}, {"path": "/text/?"}]}
INDEXES = {"vectorIndexes": [{"path": "/vector", "type": "quantizedFlat"}], "fullTextIndexes": [{"path": "/text"}]}


class Embedder:
    """Embeds a text as the mean of the rows of its tokens, with length 1."""

    def __init__(self):
        package = pathlib.Path(importlib.util.find_spec("wordllama").origin).parent
        table = load_file(package / "weights" / "l2_supercat_256.safetensors")
        self.table = next(iter(table.values())).astype(numpy.float32)
        self.tokenizer = Tokenizer.from_file(str(package / "tokenizers" / "l2_supercat_tokenizer_config.json"))

    def embed(self, text):
        tokens = self.tokenizer.encode(text, add_special_tokens=False).ids
        mean = self.table[tokens].mean(axis=0) if tokens else self.table[0]
        return (mean / numpy.linalg.norm(mean)).tolist()


def standard_functions():
    """Returns the documented functions of the standard library as pairs of a name and a text."""
    functions = {}
    for module_info in pkgutil.iter_modules([pathlib.Path(inspect.__file__).parent]):
        name = module_info.name
        if name.startswith("_") or name in LOUD:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = importlib.import_module(name)
            except Exception:  # a module that this platform cannot import
                continue
            add_functions(module, name, functions)
    return sorted(functions.items())


def add_functions(module, prefix, functions):
    """Adds the public functions of a module, and the methods of its classes."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        members = vars(value).items() if inspect.isclass(value) else []
        for full_name, function in [(name, value), *((f"{name}.{member}", code) for member, code in members)]:
            text = (getattr(function, "__doc__", None) or "").strip().split("\n\n")[0]
            if callable(function) and len(text) > 20 and not full_name.rpartition(".")[2].startswith("_"):
                functions[f"{prefix}.{full_name}"] = " ".join(text.split())


def fill(container, functions, embedder):
    """Stores the functions in batches of a logical partition each, and returns the charge."""
    charges = []

    def count(headers, _):
        charges.append(float(headers["x-ms-request-charge"]))

    for first in range(0, len(functions), BATCH):
        batch = []
        for at, (name, text) in enumerate(functions[first : first + BATCH], first):
            vector = embedder.embed(text)
            batch.append(("create", ({"id": str(at), "batch": first, "name": name, "text": text, "vector": vector},)))
        container.execute_item_batch(batch, partition_key=first, response_hook=count)
    return sum(charges)


def searches(question, embedder):
    """Returns the query and the parameters of each way to search."""
    vector = {"name": "@vector", "value": embedder.embed(question)}
    # Terms of a ranking are literals.
    words = ", ".join(f"'{word}'" for word in question.split() if word.isalnum())
    return {
        "by meaning": ("SELECT TOP 3 c.name, c.text FROM c ORDER BY VectorDistance(c.vector, @vector)", [vector]),
        "by words": (f"SELECT TOP 3 c.name, c.text FROM c ORDER BY RANK FullTextScore(c.text, {words})", []),
        "by both": (
            "SELECT TOP 3 c.name, c.text FROM c ORDER BY RANK "
            f"RRF(VectorDistance(c.vector, {vector['value']}), FullTextScore(c.text, {words}))",
            [],
        ),
    }


def ask(container, text, parameters):
    """Runs a query over all partitions. Returns the rows, the charge and the milliseconds."""
    charges = []

    def count(headers, _):
        charges.append(float(headers["x-ms-request-charge"]))

    begun = time.perf_counter()
    rows = list(
        container.query_items(
            text, parameters=parameters, enable_cross_partition_query=True, response_hook=count
        )
    )
    return rows, sum(charges), (time.perf_counter() - begun) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", default="http://127.0.0.1:8081", help="the server")
    parser.add_argument("--key", default=EMULATOR_KEY, help="the key of the account")
    parser.add_argument("questions", nargs="*", default=QUESTIONS, metavar="QUESTION")
    arguments = parser.parse_args()

    embedder = Embedder()
    functions = standard_functions()
    client = CosmosClient(arguments.endpoint, arguments.key)
    database = client.create_database_if_not_exists("search")
    containers = {}
    for name, indexes in [("with indexes", INDEXES), ("without", {})]:
        container_id = name.replace(" ", "-")
        if container_id in [container["id"] for container in database.list_containers()]:
            database.delete_container(container_id)
        containers[name] = database.create_container(
            container_id,
            partition_key=PartitionKey(path="/batch"),
            vector_embedding_policy=EMBEDDINGS,
            full_text_policy=TEXTS,
            indexing_policy={**PATHS, **indexes},
        )
        charge = fill(containers[name], functions, embedder)
        print(f"{len(functions)} functions stored {name}: {charge / len(functions):.2f} RU each")

    for question in arguments.questions:
        print(f"\n{question}?")
        for way, (text, parameters) in searches(question, embedder).items():
            answers = {name: ask(container, text, parameters) for name, container in containers.items()}
            costs = [f"{name} {charge:.2f} RU, {ms:.0f} ms" for name, (_, charge, ms) in answers.items()]
            print(f"  {way:<11} {'; '.join(costs)}")
            rows = [answer[0] for answer in answers.values()]
            if rows[0] != rows[1]:
                sys.exit("the answers of the two containers differ")
            for row in rows[0]:
                print(f"      {row['name']:<34} {row['text'][:74]}")


main()
