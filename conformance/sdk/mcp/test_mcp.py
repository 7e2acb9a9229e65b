"""`orrery mcp` through the official client: versions, tools, resources, prompts, and a session that only reads."""

import asyncio
import json
import os
import tempfile
from contextlib import asynccontextmanager

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from orrery_server import program
from serving import endpoints  # noqa: F401

VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@pytest.fixture(params=list(VERSIONS))
def mode(request):
    return request.param


@pytest.fixture
def session(endpoints, mode):
    """Returns a function that opens a session: `async with session("--allow-writes") as client`."""

    @asynccontextmanager
    async def opened(*options):
        with tempfile.NamedTemporaryFile("w", suffix=".key") as key_file:
            key_file.write(endpoints.key)
            key_file.flush()
            arguments = ["mcp", "--endpoint", endpoints.http, "--key-file", key_file.name, *options]
            server = StdioServerParameters(command=str(program()), args=arguments)
            async with Client(server, mode=mode, read_timeout_seconds=30) as client:
                yield client

    return opened


def told(result):
    """The JSON that a tool answered."""
    assert not result.is_error, result.content[0].text
    said = json.loads(result.content[0].text)
    assert result.structured_content == said
    return said


async def filled(client, database):
    """Creates a database with a container and three items, through tools."""
    place = {"database": database, "container": "orders"}
    told(await client.call_tool("create_database", {"database": database}))
    told(await client.call_tool("create_container", {**place, "partition_key_paths": ["/customer"]}))
    for number, customer in enumerate(["ada", "bob", "cy"]):
        item = {"id": str(number), "customer": customer, "n": number}
        told(await client.call_tool("create_item", {**place, "partition_key": customer, "item": item}))
    return place


def name():
    return f"mcp-{os.urandom(6).hex()}"


def test_a_version_is_negotiated(session, mode):
    async def run():
        async with session() as client:
            assert client.protocol_version == VERSIONS[mode]
            assert client.server_capabilities.tools is not None

    asyncio.run(run())


def test_a_session_without_writes_lists_no_tool_that_writes_and_refuses_calls_to_them(session):
    async def run():
        async with session() as client:
            tools = (await client.list_tools()).tools
            assert {"query", "describe_container"} <= {tool.name for tool in tools}
            assert all(tool.annotations.read_only_hint for tool in tools)
            with pytest.raises(MCPError, match="--allow-writes"):
                await client.call_tool("create_database", {"database": "never"})
            assert "never" not in told(await client.call_tool("list_databases"))["databases"]

    asyncio.run(run())


def test_an_assistant_writes_describes_and_queries(session):
    async def run():
        async with session("--allow-writes") as client:
            place = await filled(client, name())
            described = told(await client.call_tool("describe_container", place))
            assert described["partitionKey"]["paths"] == ["/customer"]
            assert "/n" in [each["path"] for each in described["schema"]["properties"]]
            query = {**place, "query": "SELECT VALUE c.n FROM c WHERE c.n > @least", "parameters": {"least": 0}}
            first = told(await client.call_tool("query", {**query, "max_rows": 1}))
            rest = told(await client.call_tool("query", {**query, "continuation": first["continuation"]}))
            assert sorted(first["rows"] + rest["rows"]) == [1, 2]
            assert first["requestCharge"] > 0
            explained = told(await client.call_tool("explain_query", query))
            assert explained["requestCharge"] > 0
            statistics = told(await client.call_tool("partition_statistics", place))
            assert len(statistics["physicalPartitions"]) >= 1

    asyncio.run(run())


def test_a_wrong_query_is_an_error_of_the_tool_with_the_words_of_the_server(session):
    async def run():
        async with session("--allow-writes") as client:
            place = await filled(client, name())
            result = await client.call_tool("query", {**place, "query": "SELEKT * FROM c"})
            assert result.is_error
            assert "400" in result.content[0].text

    asyncio.run(run())


def test_schemas_are_resources_and_prompts_have_words(session):
    async def run():
        async with session("--allow-writes") as client:
            place = await filled(client, name())
            uri = f"orrery:///{place['database']}/orders/schema"
            resources = (await client.list_resources()).resources
            assert uri in [str(resource.uri) for resource in resources]
            contents = (await client.read_resource(uri)).contents
            assert json.loads(contents[0].text)["schema"]["sampledItems"] == 3
            with pytest.raises(MCPError):
                await client.read_resource("orrery:///nowhere")
            prompts = (await client.list_prompts()).prompts
            assert "choose_partition_key" in [prompt.name for prompt in prompts]
            prompt = await client.get_prompt("choose_partition_key", place)
            assert "describe_container" in prompt.messages[0].content.text

    asyncio.run(run())


def test_a_spent_cap_refuses_by_name(session):
    async def run():
        async with session("--max-request-charge", "0.5") as client:
            first = await client.call_tool("list_databases")
            assert not first.is_error
            result = await client.call_tool("list_databases")
            assert result.is_error
            assert "max-request-charge" in result.content[0].text

    asyncio.run(run())
