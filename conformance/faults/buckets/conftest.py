"""A service with the protocol of Amazon S3 for all tests, and for each test a prefix of its bucket and a data directory."""

import logging
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import pytest
from azure.cosmos import CosmosClient, PartitionKey
from moto.server import ThreadedMotoServer

from orrery_server import Server, program

BUCKET = "backups"
# The service takes any key.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "writer", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
COMMAND_SECONDS_MAX = 120


@dataclass
class Place:
    """A prefix of the bucket: what a person names, and what the service has."""

    client: object
    prefix: str
    variables: dict[str, str]
    _servers: list[Server] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    def keys(self, below: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/{below}")
        return [found["Key"].removeprefix(f"{self.prefix}/") for page in pages for found in page.get("Contents", [])]

    def content(self, name: str) -> bytes:
        return self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")["Body"].read()

    def put(self, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}", Body=content)

    def delete(self, name: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")

    def run(self, *arguments: str, **changed: str) -> subprocess.CompletedProcess:
        """Runs a command of the program with the variables of the service."""
        return subprocess.run(
            [str(program()), *arguments],
            env={**self.variables, **changed},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )

    def succeed(self, *arguments: str) -> str:
        ended = self.run(*arguments)
        assert ended.returncode == 0, f"{arguments}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def start(self, log: Path, *arguments: str) -> Server:
        """Starts a server with the variables of the service."""
        server = Server.start(log, *arguments, defaults=self.variables)
        self._servers.append(server)
        return server


@pytest.fixture(scope="session")
def service():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    service = ThreadedMotoServer(port=0, verbose=False)
    service.start()
    host, port = service.get_host_and_port()
    yield f"http://{host}:{port}"
    service.stop()


@pytest.fixture(scope="session")
def bucket(service):
    client = boto3.client(
        "s3",
        endpoint_url=service,
        region_name=CREDENTIALS["AWS_REGION"],
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def place(service, bucket, tmp_path):
    variables = {**CREDENTIALS, "AWS_ENDPOINT_URL": service, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    place = Place(bucket, f"shop/{uuid.uuid4().hex[:8]}", variables)
    yield place
    for server in place._servers:
        if server.exit_code() is None:
            server.kill()


def container_of(server: Server):
    client = CosmosClient(server.endpoints.http, credential=server.endpoints.key)
    database = client.create_database_if_not_exists("shop")
    return database.create_container_if_not_exists("orders", PartitionKey(path="/pk"))


def ids_of(server: Server) -> list[str]:
    return sorted(item["id"] for item in container_of(server).read_all_items())
