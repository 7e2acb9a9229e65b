"""A short run of the demonstration, with assertions that hold on any machine."""

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib" / "server"))

from orrery_server import Server  # noqa: E402
from run import too_much  # noqa: E402
from workload import Attempt, most_in_a_window, run_load  # noqa: E402

RU = 2000


@pytest.fixture(scope="module")
def endpoints(tmp_path_factory):
    server = Server.start(tmp_path_factory.mktemp("hot-key") / "server.log", "--memory", "--enforce-throughput", "on")
    yield server.endpoints
    server.stop()


def load(endpoints, seconds, hot):
    return asyncio.run(run_load(endpoints.http, endpoints.key, RU, RU * 0.9, seconds, hot))


def refused(outcome, partition):
    return sum(attempt.status == 429 for attempt in outcome.of(partition))


def test_one_hot_key_throttles_its_own_partition_and_no_other(endpoints):
    outcome = load(endpoints, 12, 0.9)
    hot = max(range(4), key=lambda partition: len(outcome.of(partition)))
    assert refused(outcome, hot) > 100
    assert [refused(outcome, partition) for partition in range(4) if partition != hot] == [0, 0, 0]
    assert not too_much(outcome)
    served = sum(attempt.status == 201 for attempt in outcome.attempts)
    assert served + sum(outcome.given_up.values()) == outcome.operations


def test_the_same_load_on_even_keys_gets_through(endpoints):
    outcome = load(endpoints, 3, 0.0)
    assert not outcome.given_up
    assert not too_much(outcome)


def test_a_window_counts_what_is_surely_inside():
    at = [Attempt("k", sent, sent + 0.5, 201, 10.0) for sent in (0.0, 5.0, 9.4, 9.6, 10.2)]
    assert most_in_a_window([*at, Attempt("k", 1.0, 1.1, 429, 0.38)]) == 40.0
