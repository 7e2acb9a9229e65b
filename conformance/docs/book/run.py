"""Runs every code block of the documents against the real program.

    python run.py [PAGE...] [--list] [--verbose]

Each page gets an empty directory, an empty home and, at the first block that needs one, a server on free ports with its
data in `data`. The addresses 127.0.0.1:8081 and 127.0.0.1:8082 in a block become those of the server. Variables that
an `sh` block sets are known to the later blocks of the page; so are the names of `python` blocks. A page with the
comment `<!-- with the container blog/posts -->` finds that container with a few items, and the admin key in `KEY`;
`ADMIN_KEY` has it everywhere. A page with the comment `<!-- with the machines of a fleet -->` runs on those of
`fleet.py`, with names, ports and folders as they stand.

Promises: every block is run, parsed, compared with a file, or listed with the reason why not; every command of
`orrery` in a block, run or not, names a sub-command and options that its `--help` has.
Leaves out: the rules of info strings, which are in `blocks.py`.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from blocks import PARSED, Block, Page, pages

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "conformance" / "lib" / "server"))

from orrery_server import EMULATOR_KEY, Server, ServerFailed, program  # noqa: E402
from fleet import NEEDS, DatabaseFailed, Fleet, is_possible  # noqa: E402
from session import Session  # noqa: E402

DATA_SET = ROOT / "docs" / "reference" / "data-set.json"
BLOCK_SECONDS_MAX = 120
# A word behind `orrery` that is a sub-command, and the options of a command line.
COMMAND = re.compile(r"(?:^|[;&|(] *|\$\()(?:\./)?orrery((?: +[a-z][a-z-]*)*)([^|;&)#>\n]*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


class Failed(Exception):
    """A block did not do what its page says."""


class World:
    """What the blocks of one page share: a directory, a server, variables, and the names of Python."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.fleet: Fleet | None = None
        self.server: Server | None = None
        self.python: Session | None = None
        self.has_data_set = False
        self.has_posts = False
        (directory / "home").mkdir()
        (directory / "bin").mkdir()
        # A refused request fails the block that sent it.
        (directory / "home" / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
        (directory / "bin" / "orrery").symlink_to(program().resolve())
        modules = ROOT / "conformance" / "sdk" / "javascript" / "node_modules"
        if modules.is_dir():
            (directory / "node_modules").symlink_to(modules)
        self.environment = {
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "HOME": str(directory / "home"),
            "LANG": "C.UTF-8",
            "ORRERY_KEY": EMULATOR_KEY,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def serve(self, arguments: list[str]) -> None:
        """Starts the server of the page, in place of an earlier one."""
        self.stop_server()
        before = Path.cwd()
        os.chdir(self.directory)
        try:
            self.server = Server.start(self.directory / "server.log", *arguments)
        finally:
            os.chdir(before)

    def aimed(self, text: str) -> str:
        """Returns the text with the addresses of the server, which is started if the text needs one."""
        if self.fleet is not None or "127.0.0.1:808" not in text:
            return text
        endpoints = self.endpoints()
        self.make_container(endpoints)
        text = text.replace("127.0.0.1:8081", endpoints.http.removeprefix("http://").rstrip("/"))
        return text.replace("127.0.0.1:8082", endpoints.admin.removeprefix("http://").rstrip("/"))

    def endpoints(self):
        if self.server is None:
            self.serve(["--data-dir", "data"])
        return self.server.endpoints

    def make_container(self, endpoints) -> None:
        """Creates the container `blog/posts` with a few items, if the page says that there is one.

        A block may delete it, so this comes before each.
        """
        self.environment["ADMIN_KEY"] = endpoints.admin_key
        if not self.has_posts:
            return
        self.environment["KEY"] = endpoints.admin_key
        from azure.cosmos import CosmosClient, PartitionKey

        database = CosmosClient(endpoints.http, endpoints.key).create_database_if_not_exists("blog")
        database.create_container_if_not_exists("leases", PartitionKey("/id"))
        posts = database.create_container_if_not_exists("posts", PartitionKey("/postId"))
        for n in range(20):
            posts.upsert_item({"id": f"i{n}", "postId": f"p{n}", "userId": f"u{n % 5}", "type": "post", "date": n})
        list(posts.query_items("SELECT * FROM c WHERE c.userId = 'u1'", enable_cross_partition_query=True))

    def stop_server(self) -> None:
        if self.server is not None:
            server, self.server = self.server, None
            server.stop()

    def close(self) -> None:
        if self.python is not None:
            self.python.close()
        self.stop_server()
        if self.fleet is not None:
            self.fleet.close()

    def command(self, words: list[str], text: str | None = None) -> str:
        """Runs a program in the directory of the page and returns what it printed."""
        try:
            run = subprocess.run(
                words,
                cwd=self.directory,
                env=self.environment,
                input=text,
                stdin=None if text is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=BLOCK_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            raise Failed(
                f"it did not end within {BLOCK_SECONDS_MAX} s; a server is started by a block with the tag `server`"
            ) from None
        if run.returncode != 0:
            raise Failed(f"it ended with {run.returncode}:\n{run.stdout.rstrip()}")
        return run.stdout


def run_sh(world: World, block: Block) -> str:
    """Runs a block of commands, or starts the server that it names."""
    if "server" in block.tags:
        words = shlex.split(block.text.replace("\\\n", " "))
        if words[:2] != ["orrery", "start"]:
            raise Failed("a block with the tag `server` is one command that begins with `orrery start`")
        if world.fleet is not None:
            world.fleet.serve(words)
        else:
            world.serve(words[2:])
        return ""
    # Every variable that the block sets is exported, and read again by the next block.
    state = world.directory / ".variables"
    state.touch()
    # Blocks of a page with a fleet run as several users.
    state.chmod(0o666)
    script = f'. "{state}"\nset -a -e -o pipefail\n{world.aimed(block.text)}\nset +a\nexport -p > "{state}"\n'
    words = ["bash", "-c", script]
    return world.command(words if world.fleet is None else world.fleet.words(block, words))


def run_python(world: World, block: Block) -> str:
    """Runs a block in the Python of the page, which knows the names of the blocks before."""
    if world.python is None:
        world.python = Session(world.directory, world.environment)
    printed, raised = world.python.run(world.aimed(block.text), BLOCK_SECONDS_MAX)
    expected = block.tags.get("raises")
    if expected is None and raised:
        raise Failed(f"it raised:\n{printed}{raised}")
    if expected is not None and expected not in (raised or ""):
        raise Failed(f"it should end with {expected}, and ended with {raised or 'success'}")
    return printed


def run_javascript(world: World, block: Block) -> str:
    """Runs a block as a module of Node.js."""
    file = world.directory / "block.mjs"
    file.write_text(world.aimed(block.text))
    return world.command(["node", file.name])


def run_java(world: World, block: Block) -> str:
    """Compiles and runs a block, whose class has the method `main`."""
    file = world.directory / "Block.java"
    file.write_text(world.aimed(block.text))
    class_path = os.environ.get("ORRERY_JAVA_CLASS_PATH", "")
    return world.command(["java", "-cp", class_path, file.name])


def run_sql(world: World, block: Block, rows: Block | None) -> str:
    """Runs a query over the data set of the reference, and compares its rows with the block that follows.

    On a page with a fleet, runs a statement in PostgreSQL.
    """
    if world.fleet is not None:
        return world.fleet.sql(block.text)
    found, problem = query(world, block.text)
    expected = block.tags.get("raises")
    if expected is not None:
        if problem is None or expected not in problem:
            raise Failed(f"it should be refused with {expected}, and gave {problem or found}")
        return ""
    if problem is not None:
        raise Failed(f"it was refused: {problem}")
    if rows is not None and json.loads(rows.text) != found:
        raise Failed(f"it gives other rows than the page says:\n{json.dumps(found)}")
    return json.dumps(found)


def query(world: World, text: str) -> tuple[list | None, str | None]:
    """Returns the rows of a query, or the message with which it was refused."""
    from azure.cosmos import CosmosClient, PartitionKey
    from azure.cosmos.exceptions import CosmosHttpResponseError

    endpoints = world.endpoints()
    client = CosmosClient(endpoints.http, endpoints.key)
    database = client.create_database_if_not_exists("reference")
    if not world.has_data_set:
        world.has_data_set = True
        for container in json.loads(DATA_SET.read_text()):
            made = database.create_container_if_not_exists(container["id"], PartitionKey(container["partitionKey"]))
            for item in container["items"]:
                made.upsert_item(item)
    container = database.get_container_client("products")
    try:
        return list(container.query_items(text, enable_cross_partition_query=True)), None
    except CosmosHttpResponseError as error:
        return None, str(error)


def parse(block: Block) -> None:
    """Parses a block of data."""
    try:
        match block.language:
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "xml":
                ElementTree.fromstring(block.text)
    except (ValueError, ElementTree.ParseError) as error:
        raise Failed(f"it is no {block.language}: {error}") from None


def write(world: World, block: Block) -> None:
    """Writes a block to the file that it names, or adds it to the end of that file."""
    for tag, mode in (("file", "w"), ("end-of", "a")):
        if tag in block.tags:
            with (world.directory / block.tags[tag]).open(mode) as file:
                file.write(block.text)


# The lines around a snippet: `# snippet: name` and `# end`, as comments of the language.
SNIPPET = re.compile(r"^[ \t]*(?://|#) (?:snippet: \w+|end)\n", re.MULTILINE)


def snippets_of(text: str) -> list[str]:
    """The snippets that a program marks, without their indentation."""
    return [textwrap.dedent(part) for part in SNIPPET.split(text)[1::2]]


def compare(block: Block) -> None:
    """Compares a block with the file that it shows, or with the snippets that the file marks."""
    file = ROOT / block.source
    if not file.is_file():
        raise Failed(f"there is no file {block.source}")
    if block.text not in [file.read_text(), *snippets_of(file.read_text())]:
        raise Failed(f"it differs from {block.source}, which it shows")


class Help:
    """The help texts of the program, each asked for once."""

    def __init__(self):
        self._texts: dict[tuple[str, ...], str | None] = {}

    def of(self, words: tuple[str, ...]) -> str | None:
        """Returns the help text of a sub-command, `None` if there is no such sub-command."""
        if words not in self._texts:
            run = subprocess.run([program(), *words, "--help"], capture_output=True, text=True)
            self._texts[words] = run.stdout if run.returncode == 0 else None
        return self._texts[words]

    def check(self, block: Block) -> None:
        """Checks the sub-commands and options of every command line of `orrery` in a block."""
        for words, rest in COMMAND.findall(block.text.replace("\\\n", " ")):
            command: tuple[str, ...] = ()
            for word in words.split():
                # A word behind the sub-command may be its argument.
                text = self.of(command)
                if re.search(rf"^  {re.escape(word)}(  |$)", text or "", re.MULTILINE) is None:
                    if not command:
                        raise Failed(f"`orrery --help` has no command `{word}`")
                    break
                command += (word,)
            text = self.of(command)
            for option in OPTION.findall(rest):
                if re.search(rf"(?<![\w-]){option}(?![\w-])", text or "") is None:
                    raise Failed(f"`orrery {' '.join(command)} --help` has no option `{option}`")


def run_page(page: Page, helps: Help, ends: Counter, verbose: bool) -> list[str]:
    """Runs the blocks of a page and returns the complaints. A failed block does not stop the page."""
    complaints = list(page.complaints)
    with tempfile.TemporaryDirectory(prefix="orrery-book-") as directory:
        world = World(Path(directory))
        world.has_posts = page.has_posts
        try:
            if page.has_fleet and is_possible():
                world.fleet = Fleet(Path(directory), world.environment)
            for place, block in enumerate(page.blocks):
                rest = page.blocks[place + 1 :]
                rows = rest[0] if rest and "rows" in rest[0].tags else None
                try:
                    is_shown = block.is_run and page.has_fleet and world.fleet is None
                    ends[NEEDS if is_shown else run_block(world, block, rows, helps)] += 1
                except (Failed, ServerFailed, DatabaseFailed) as failure:
                    complaints.append(f"{block.place}: the {block.language} block: {failure}")
                    ends["failed"] += 1
                if verbose:
                    print(f"  {block.place}: {block.language}")
        finally:
            world.close()
    return complaints


def run_block(world: World, block: Block, rows: Block | None, helps: Help) -> str:
    """Runs, parses or compares a block, and returns which of them."""
    if block.language == "sh":
        helps.check(block)
    if block.source is not None:
        compare(block)
        return "equal to a file"
    if "norun" in block.tags:
        return "not run"
    if block.language in PARSED:
        parse(block)
        write(world, block)
        return "parsed"
    if world.fleet is not None:
        world.fleet.prepare(block)
    match block.language:
        case "sh":
            run_sh(world, block)
        case "python":
            run_python(world, block)
        case "javascript":
            run_javascript(world, block)
        case "java":
            run_java(world, block)
        case "sql":
            run_sql(world, block, rows)
        case _:
            return "for people"
    return "run"


def main() -> int:
    """Runs the chosen pages and returns the exit code."""
    import functions

    parser = argparse.ArgumentParser(description="Run the code blocks of the documents")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as docs/tutorial.md; all if none")
    parser.add_argument("--list", action="store_true", help="list the blocks that are not run, and run nothing")
    parser.add_argument("--verbose", action="store_true", help="print each block as it ends")
    arguments = parser.parse_args()
    chosen = pages(ROOT, arguments.pages)
    reasons = [block for page in chosen for block in page.blocks if block.reason is not None]
    if arguments.list:
        for block in reasons:
            print(f"{block.place}: {block.language}: {block.reason}")
        return 0

    helps, ends, complaints = Help(), Counter(), []
    begun = time.monotonic()
    if not arguments.pages:
        complaints += functions.compare(write=False)
    for page in chosen:
        if page.blocks or page.complaints:
            complaints += run_page(page, helps, ends, arguments.verbose)
    counts = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"{sum(ends.values())} blocks of {len(chosen)} pages in {time.monotonic() - begun:.1f} s: {counts}")
    for reason, count in Counter(block.reason for block in reasons).most_common():
        print(f"not run: {count}, {reason}")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
