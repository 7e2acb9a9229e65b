"""Aspire's `AddAzureCosmosDB(…).RunAsPreviewEmulator()` replayed: readiness, a certificate of the host, the explorer.

Read from src/Aspire.Hosting.Azure.CosmosDB of Aspire, commit d44e195 of 21 March 2026.
"""

import os
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from docker_calls import Docker
from dotnet_sdk import CosmosClient
from operations import Program

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
PASSWORD = "a passphrase of the run"


def main() -> None:
    replay = Program("Aspire: RunAsPreviewEmulator (replay)", "13.2")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        with replay.operation("with a developer's certificate as a PFX file, https on the data port and the explorer"):
            with_certificate(Path(directory))
        with replay.operation("without a certificate, plain http"):
            without_certificate()
    replay.end()


def with_certificate(directory: Path) -> None:
    pem = certificate(directory)
    settings = {
        "PROTOCOL": "https", "EXPLORER_PROTOCOL": "https", "CERT_PATH": "/certificates/emulator.pfx",
        "CERT_SECRET": PASSWORD, "NODE_EXTRA_CA_CERTS": "/certificates/emulator.pem", "ENABLE_EXPLORER": "true",
        "AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE": "true",
    }  # fmt: skip
    docker = Docker()
    binds = [f"{directory}:/certificates:ro"]
    with docker.run(os.environ["ORRERY_IMAGE"], settings, [8081, 8080, 1234], binds) as container:
        wait_until_ready(docker, container)
        # The certificate is the developer's: no other is trusted.
        context = ssl.create_default_context(cadata=pem)
        text = f"AccountKey={KEY};AccountEndpoint=https://localhost:{container.port(8081)}"
        stores_and_finds(CosmosClient(text, context, limit_to_endpoint=True))
        explorer = f"https://localhost:{container.port(1234)}/"
        assert urllib.request.urlopen(explorer, context=context, timeout=10).status == 200


def without_certificate() -> None:
    docker = Docker()
    with docker.run(os.environ["ORRERY_IMAGE"], {}, [8081, 8080]) as container:
        wait_until_ready(docker, container)
        text = f"AccountKey={KEY};AccountEndpoint=http://localhost:{container.port(8081)}"
        stores_and_finds(CosmosClient(text, limit_to_endpoint=True))


def wait_until_ready(docker: Docker, container) -> None:
    """`WithHttpHealthCheck(path: "/ready")`: asked until it answers 200."""
    url = f"http://{docker.host}:{container.port(8080)}/ready"
    until = time.monotonic() + 60
    while True:
        try:
            assert urllib.request.urlopen(url, timeout=5).status == 200
            return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < until, f"not ready: {container.log()}"
            threading.Event().wait(0.05)


def stores_and_finds(client: CosmosClient) -> None:
    client.read_account()
    assert client.create_database_if_not_exists("shop") == 201
    assert client.create_container_if_not_exists("shop", "items", "/pk") == 201
    items = "dbs/shop/colls/items"
    client.create_item(items, {"id": "1", "pk": "a", "name": "first"}, ["a"])
    assert client.read_item(items, "1", ["a"])["name"] == "first"
    assert client.query(items, "SELECT VALUE c.name FROM c") == ["first"]


def certificate(directory: Path) -> str:
    """Makes a certificate for localhost as `dotnet dev-certs` does; returns its text."""
    key, pem, pfx = directory / "key.pem", directory / "emulator.pem", directory / "emulator.pfx"
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, "-days", "1",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:*.dev.localhost,IP:127.0.0.1")  # fmt: skip
    openssl("pkcs12", "-export", "-in", pem, "-inkey", key, "-out", pfx, "-passout", f"pass:{PASSWORD}")
    pfx.chmod(0o644)
    return pem.read_text()


def openssl(*words) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


main()
