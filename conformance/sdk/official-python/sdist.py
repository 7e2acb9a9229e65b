"""The SDK's source distribution with its test suite: downloaded once, checked against its hash, unpacked.

Promises: the unpacked files come from an archive with the pinned hash, and are replaced when the pin changes.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

PIN = Path(__file__).with_name("sdist.txt")


class NoSuite(Exception):
    """The suite is not available; the message has the reason and the remedy."""


def tests_of_the_sdk(cache: Path) -> Path:
    """Returns the directory of the suite's test files below `cache`."""
    stamp, source = cache / "unpacked.stamp", cache / "source"
    if not (stamp.is_file() and stamp.read_text() == PIN.read_text()):
        for left_over in (source, cache / "archive"):
            shutil.rmtree(left_over, ignore_errors=True)
        with tarfile.open(_fetched(cache / "archive")) as archive:
            archive.extractall(source, filter="data")
        stamp.write_text(PIN.read_text())
    found = list(source.glob("*/tests/test_config.py"))
    if len(found) != 1:
        raise NoSuite(f"the archive below {cache} has no directory of tests; remove it and run again")
    return found[0].parent


def _fetched(directory: Path) -> Path:
    """Returns the archive, downloaded by pip, which refuses any hash but the pinned one."""
    directory.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--no-binary", "azure-cosmos", "--require-hashes", "-r", str(PIN), "--dest", str(directory)]
    if subprocess.run(pip, check=False).returncode != 0:
        raise NoSuite("pip could not download the SDK's source distribution; is the package registry reachable?")
    archives = list(directory.glob("*.tar.gz"))
    if len(archives) != 1:
        raise NoSuite(f"pip left {len(archives)} archives in {directory}, not one")
    return archives[0]
