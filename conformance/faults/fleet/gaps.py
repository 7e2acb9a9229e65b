"""The longest time without an acknowledged commit, from the histories of `numbered`."""

from pathlib import Path


def read_history(file: Path) -> list[float]:
    """Returns the times of acknowledged commits in seconds since 1970."""
    lines = (line.split() for line in file.read_text().splitlines())
    return [int(words[3]) / 1e6 for words in lines if words[0] == "ok"]


def longest_gap(times: list[float], began: float, ended: float) -> float:
    """Returns the longest gap between two acknowledgements, of which a part lies after `began`.

    A writer that never comes back has a gap until `ended`.
    """
    before = [at for at in times if at <= began]
    inside = [at for at in times if began < at <= ended]
    points = [before[-1] if before else began, *inside, ended]
    return max(later - earlier for earlier, later in zip(points, points[1:]))
