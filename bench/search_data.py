"""Makes the texts and embeddings of `bench search` from packages: the glosses of WordNet (the Debian
package wordnet-base), embedded with the static table of 256 dimensions inside the PyPI package
wordllama. A text is embedded as the mean of the rows of its tokens, with length 1.

    python3 -m venv venv && venv/bin/pip install numpy tokenizers safetensors
    venv/bin/python bench/search_data.py DIRECTORY

The directory gets `texts.txt`, a text a line, and `vectors.f32`, a vector for each text: 256
little-endian floats. Nothing of them is committed.
"""

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


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
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


main()
