"""The faults: a table of what is broken, for how long, and the longest gap that a writer may see.

Each fault has a name, a function that breaks something and returns the function that repairs it, the seconds between
the two, and the longest gap of a writer in seconds that counts as expected. The gap of a failover is the TTL of
Patroni, one turn of its loop, the promotion, and the time in which the store finds the new primary.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from lab import Lab, Machine

Repair = Callable[[], None]
FAILOVER_SECONDS_MAX = 45


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    what: str
    undone: str
    make: Callable[[Lab], Repair]
    hold: float
    gap_max: float


def nothing() -> None:
    """The repair of a fault that the fleet repairs itself."""


def kill_postgres(lab: Lab) -> Repair:
    lab.clusters[0].leader().signal_postgres(signal.SIGKILL)
    return nothing


def pause_postgres(lab: Lab) -> Repair:
    machine = lab.clusters[0].leader()
    paused = machine.postgres()
    machine.signal_postgres(signal.SIGSTOP)
    return lambda: resume(paused)


def resume(processes: list[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass


def kill_machine(lab: Lab) -> Repair:
    return kill_both(lab, lab.clusters[0].leader())


def kill_standby(lab: Lab) -> Repair:
    return kill_both(lab, lab.clusters[0].standby())


def kill_both(lab: Lab, machine: Machine) -> Repair:
    """Kills Patroni and PostgreSQL of a machine."""
    machine.send("patroni", signal.SIGKILL)
    machine.signal_postgres(signal.SIGKILL)
    return lambda: lab.clusters[0].start_patroni(machine)


def pause_patroni(lab: Lab) -> Repair:
    machine = lab.clusters[0].leader()
    machine.send("patroni", signal.SIGSTOP)
    return lambda: machine.send("patroni", signal.SIGCONT)


def pause_machine(lab: Lab) -> Repair:
    machine = lab.clusters[0].leader()
    machine.send("patroni", signal.SIGSTOP)
    paused = machine.postgres()
    machine.signal_postgres(signal.SIGSTOP)

    def repair() -> None:
        machine.send("patroni", signal.SIGCONT)
        resume(paused)

    return repair


def pause_standby(lab: Lab) -> Repair:
    machine = lab.clusters[0].standby()
    paused = machine.postgres()
    machine.signal_postgres(signal.SIGSTOP)
    return lambda: resume(paused)


def kill_etcd(lab: Lab) -> Repair:
    machine = lab.clusters[0].leader()
    machine.send("etcd", signal.SIGKILL)
    return lambda: lab.clusters[0].start_etcd(machine)


def cut_primary(lab: Lab) -> Repair:
    machine = lab.clusters[0].leader()
    machine.cut()
    return machine.heal


def cut_node(lab: Lab) -> Repair:
    machine = lab.clients[0]
    machine.cut()
    return machine.heal


def cut_between(node: Machine, others: list[Machine]) -> Repair:
    """Cuts the ways between a node and some machines; all others reach the node."""
    for other in others:
        node.drop(other, True)

    def repair() -> None:
        for other in others:
            node.drop(other, False)

    return repair


def cut_node_from_primary(lab: Lab) -> Repair:
    return cut_between(lab.clients[0], [lab.clusters[0].leader()])


def cut_nodes(lab: Lab) -> Repair:
    return cut_between(lab.clients[0], [lab.clients[1]])


def cut_holder_from_cluster(lab: Lab) -> Repair:
    return cut_between(lab.clients[0], lab.clusters[0].machines)


def cut_other_from_cluster(lab: Lab) -> Repair:
    return cut_between(lab.clients[1], lab.clusters[0].machines)


def cut_other_node(lab: Lab) -> Repair:
    machine = lab.clients[1]
    machine.cut()
    return machine.heal


def switch_over(lab: Lab) -> Repair:
    lab.clusters[0].switch_over()
    return nothing


FAULTS = [
    Fault("switchover", "planned change of the primary", "by itself", switch_over, 10, 20),
    Fault("kill-postgres", "kill -9 of the primary's PostgreSQL", "Patroni starts it", kill_postgres, 20, 30),
    Fault("kill-etcd", "kill -9 of the etcd beside the primary", "started again", kill_etcd, 10, 5),
    Fault("kill-standby", "kill -9 of a synchronous standby and its Patroni", "started again", kill_standby, 10, 5),
    Fault("cut-node", "no network at the node for 10 s", "link up", cut_node, 10, 25),
    Fault("kill-machine", "kill -9 of the primary and its Patroni", "started again", kill_machine, 35,
          FAILOVER_SECONDS_MAX),
    Fault("cut-primary", "no network at the primary for 40 s", "link up", cut_primary, 40, FAILOVER_SECONDS_MAX),
    Fault("pause-patroni", "SIGSTOP of the primary's Patroni for 60 s", "SIGCONT", pause_patroni, 60, 70),
    Fault("pause-machine", "SIGSTOP of the primary and its Patroni for 45 s", "SIGCONT", pause_machine, 45,
          FAILOVER_SECONDS_MAX),
    Fault("pause-postgres", "SIGSTOP of the primary's PostgreSQL for 45 s", "SIGCONT", pause_postgres, 45, 60),
    Fault("pause-standby", "SIGSTOP of a standby's PostgreSQL for 20 s", "SIGCONT", pause_standby, 20, 10),
    Fault("cut-node-primary", "no network between node and primary for 20 s", "rule removed",
          cut_node_from_primary, 20, 35),
]

# Faults that need several nodes; `lab.clients[0]` is the machine of the node that holds the lease. Gaps are those of the
# client that suffers most, which may use only the node that is cut.
FAULTS_WITH_NODES = [
    Fault("cut-holder-cluster", "no network between the holder and the cluster for 20 s", "rules removed",
          cut_holder_from_cluster, 20, 60),
    Fault("cut-other-cluster", "no network between another node and the cluster for 20 s", "rules removed",
          cut_other_from_cluster, 20, 60),
    Fault("cut-nodes", "no network between the holder and another node for 20 s", "rule removed", cut_nodes, 20, 60),
    Fault("cut-other-node", "no network at another node for 10 s", "link up", cut_other_node, 10, 60),
]
