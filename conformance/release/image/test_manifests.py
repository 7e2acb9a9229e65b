"""The files for compose, Kubernetes and GitHub: valid by their published schemas, and true of the image."""

import os
import subprocess
import sys
import urllib.error
import urllib.request

import kubernetes_validate
import pytest
import yaml
from azure.cosmos import CosmosClient

from conftest import ROOT
from container import Settings

KUBERNETES = ROOT / "packaging/kubernetes/orrery.yaml"
COMPOSE = ROOT / "compose.yaml"
FLEET = ROOT / "packaging/fleet/compose-fleet.yaml"
WORKFLOWS = [ROOT / ".github/workflows/release.yml", ROOT / "examples/github-actions/test.yml"]


def status_of(address: str) -> int | None:
    """Returns the status of the answer to a GET, or None if there is none."""
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return None


def valid(schema: str, *files) -> None:
    """Checks files by a schema that check-jsonschema contains."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    check = subprocess.run(command, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.fixture(scope="module")
def objects():
    return list(yaml.safe_load_all(KUBERNETES.read_text()))


@pytest.fixture(scope="module")
def pod(objects):
    [stateful_set] = [one for one in objects if one["kind"] == "StatefulSet"]
    return stateful_set["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def service():
    [service] = yaml.safe_load(COMPOSE.read_text())["services"].values()
    return service


def test_the_compose_files_are_valid():
    valid("vendor.compose-spec", COMPOSE, FLEET)


def test_the_nodes_of_the_fleet_reach_each_other():
    services = yaml.safe_load(FLEET.read_text())["services"]
    nodes = {name: service for name, service in services.items() if name.startswith("node-")}
    assert len(nodes) == 2
    for name, service in nodes.items():
        assert service["environment"]["ORRERY_ADVERTISE"] == f"http://{name}:8081"
        # Compose refuses configs with `content` in a service without writes.
        assert "read_only" not in service


def test_the_compose_file_is_true_of_the_image(image, service):
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    exposed = {port.removesuffix("/tcp") for port in image.config["ExposedPorts"]}
    for mapping in service["ports"]:
        host, _, port = mapping.split(":")
        assert host == "127.0.0.1", "the key is public, so the port is for this machine only"
        assert port in exposed
    assert {volume.split(":")[1] for volume in service["volumes"]} == set(image.config["Volumes"])
    assert service["read_only"] and service["tmpfs"] == ["/tmp"]


def test_the_workflows_are_valid():
    valid("vendor.github-workflows", *WORKFLOWS)


def test_the_objects_of_kubernetes_are_valid(objects):
    for one in objects:
        kubernetes_validate.validate(one, "1.30", strict=True)


def test_the_pod_can_be_admitted_under_the_restricted_policy(pod):
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_the_volumes_of_the_pod_are_declared(objects, pod):
    [stateful_set] = [one for one in objects if one["kind"] == "StatefulSet"]
    declared = {volume["name"] for volume in pod["volumes"]}
    declared |= {claim["metadata"]["name"] for claim in stateful_set["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == declared


def test_the_command_of_the_pod_runs_and_its_probes_succeed(image, run, pod, tmp_path):
    [container] = pod["containers"]
    user = (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"])
    keys = tmp_path / "account.key"
    subprocess.run([image.root / "usr/bin/orrery", "keys", "create", "--key-file", keys], check=True)
    # A secret's files belong to the group of the pod.
    keys.chmod(0o440)
    os.chown(keys, 0, user[1])
    server = run(
        Settings(
            entry_point=container["command"],
            arguments=container["args"],
            user=user,
            mounts={keys: "/etc/orrery/account.key"},
        )
    )
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        request = container[probe]["httpGet"]
        address = f"http://127.0.0.1:{ports[request['port']]}{request['path']}"
        server.wait_for(lambda: status_of(address) == 200, address)

    primary = dict(line.split(": ", 1) for line in keys.read_text().splitlines())["primary"]
    client = CosmosClient(f"http://127.0.0.1:{ports['clients']}/", primary)
    client.create_database("shop")
    assert server.stop() < pod["terminationGracePeriodSeconds"]
