"""Makes the texts and embeddings of `bench search` from packages: the glosses of WordNet (the
Debian package wordnet-base), embedded with the static table of 256 dimensions inside the PyPI
package wordllama. A text is embedded as the mean of the rows of its tokens, with length 1.

    python3 -m venv venv && venv/bin/pip install numpy tokenizers safetensors
    venv/bin/python bench/search_data.py DIRECTORY [--synthetic N]

The directory gets `texts.txt`, a text a line, and `vectors.f32`, a vector for each text: 256
little-endian floats. Nothing of them is committed.

`--synthetic N` adds `synthetic.txt` and `synthetic.f32` of the same form, with N vectors. Each lies
between those of two random texts, moved a little, and has length 1; its text is the beginning of
one text and the end of the other. They are no embeddings of texts, so the benchmark says how many
of its items are synthetic. The last real texts, which are its queries, have no part in them. With
`--synthetic` alone, data that exists is not made again.
"""

import argparse
import pathlib
import subprocess
import sys
import zipfile

import numpy
from safetensors.numpy import load
from tokenizers import Tokenizer

TABLE = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
BATCH = 4096
# The last texts are left out of the synthetic ones: they are the queries of a large run.
QUERIES = 2_000
# The length that a synthetic vector is moved by, in a random direction.
NOISE = 0.1


def glosses(directory):
    """Returns the distinct glosses of WordNet in the order of their files."""
    subprocess.run(["apt-get", "download", "-q", "wordnet-base"], cwd=directory, check=True)
    package = next(directory.glob("wordnet-base_*.deb"))
    subprocess.run(["dpkg", "-x", package.name, "wordnet"], cwd=directory, check=True)
    texts = {}
    for part in ["noun", "verb", "adj", "adv"]:
        path = directory / "wordnet/usr/share/wordnet" / f"data.{part}"
        for line in path.read_text("utf-8").splitlines():
            if not line.startswith(" ") and "| " in line:
                texts[line.split("| ", 1)[1].strip()] = None
    return list(texts)


def members(directory):
    """Returns the files of the package wordllama that hold the table and the tokenizer."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "wordllama"]
    subprocess.run(command, cwd=directory, check=True)
    wheel = zipfile.ZipFile(next(directory.glob("wordllama-*.whl")))

    def find(end):
        return wheel.read(next(name for name in wheel.namelist() if name.endswith(end)))

    return find(TABLE), find(TOKENIZER)


def embedded(texts, table, tokenizer):
    """Returns the vectors of some texts."""
    vectors = numpy.zeros((len(texts), table.shape[1]), dtype="<f4")
    for row, encoding in enumerate(tokenizer.encode_batch(texts, add_special_tokens=False)):
        mean = table[encoding.ids].mean(axis=0) if encoding.ids else table[0]
        vectors[row] = mean / numpy.linalg.norm(mean)
    return vectors


def make_real(directory):
    """Writes the texts and their embeddings."""
    texts = glosses(directory)
    table, tokenizer = members(directory)
    table = next(iter(load(table).values())).astype(numpy.float32)
    tokenizer = Tokenizer.from_str(tokenizer.decode())
    # A permutation with a fixed seed, so that any first texts are a sample of all.
    order = numpy.random.default_rng(1).permutation(len(texts))
    texts = [texts[at] for at in order]
    (directory / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    with open(directory / "vectors.f32", "wb") as file:
        for first in range(0, len(texts), BATCH):
            file.write(embedded(texts[first : first + BATCH], table, tokenizer).tobytes())
            print(f"\r{min(first + BATCH, len(texts))} of {len(texts)} texts", end="", flush=True)
    print()


def joined(first, second):
    """Returns the beginning of one text and the end of another."""
    first, second = first.split(), second.split()
    return " ".join(first[: (len(first) + 1) // 2] + second[len(second) // 2 :])


def make_synthetic(directory, count):
    """Writes synthetic texts and vectors, a batch at a time."""
    texts = (directory / "texts.txt").read_text("utf-8").splitlines()
    vectors = numpy.memmap(directory / "vectors.f32", "<f4", "r").reshape(len(texts), -1)
    sources, dimensions = len(texts) - QUERIES, vectors.shape[1]
    random = numpy.random.default_rng(2)
    with (
        open(directory / "synthetic.txt", "w", encoding="utf-8") as text_file,
        open(directory / "synthetic.f32", "wb") as vector_file,
    ):
        for done in range(0, count, BATCH):
            size = min(BATCH, count - done)
            first = random.integers(sources, size=size)
            second = random.integers(sources, size=size)
            part = random.random((size, 1), dtype="f4")
            noise = random.standard_normal((size, dimensions), dtype="f4")
            made = part * vectors[first] + (1 - part) * vectors[second]
            made += noise * (NOISE / dimensions**0.5)
            made /= numpy.linalg.norm(made, axis=1, keepdims=True)
            vector_file.write(made.astype("<f4").tobytes())
            for one, other in zip(first, second):
                text_file.write(joined(texts[one], texts[other]) + "\n")
            print(f"\r{done + size} of {count} synthetic vectors", end="", flush=True)
    print()


def main():
    parser = argparse.ArgumentParser(description="Makes the data of `bench search`.")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument(
        "--synthetic", type=int, default=0, metavar="N", help="number of synthetic vectors"
    )
    arguments = parser.parse_args()
    directory = arguments.directory
    directory.mkdir(parents=True, exist_ok=True)
    if not arguments.synthetic or not (directory / "vectors.f32").exists():
        make_real(directory)
    if arguments.synthetic:
        make_synthetic(directory, arguments.synthetic)


main()
