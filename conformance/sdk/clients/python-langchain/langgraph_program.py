"""langchain-azure-cosmosdb for LangGraph: checkpoints of a graph, the long-term store, the cache of nodes."""

import asyncio

from langchain_azure_cosmosdb import AsyncCosmosDBStore, CosmosDBCacheSync, CosmosDBSaver, CosmosDBSaverSync, CosmosDBStore
from langgraph.types import Command
from operations import ENDPOINT, KEY, Program, equal
from question_graph import graph, thread
from words import DIMENSIONS, vector

program = Program("langchain-azure-cosmosdb")
HERE = {"endpoint": ENDPOINT, "key": KEY, "database_name": program.database}

with program.operation("a graph stops with a question, and its checkpoint is read"):
    saver = CosmosDBSaverSync(program.database, "checkpoints", endpoint=ENDPOINT, key=KEY)
    graph_at_work = graph(saver)
    graph_at_work.invoke({"steps": ["start"]}, thread("a"))
    equal(graph_at_work.get_state(thread("a")).next, ("ask",))
    equal(graph_at_work.get_state(thread("a")).values["steps"], ["start", "first"])

with program.operation("another process's graph goes on where the first stopped"):
    another = CosmosDBSaverSync(program.database, "checkpoints", endpoint=ENDPOINT, key=KEY)
    answer = graph(another).invoke(Command(resume="yes"), thread("a"))
    equal(answer["steps"], ["start", "first", "yes"])

with program.operation("the history of a thread is listed from its end, with a limit"):
    steps = [len(state.values.get("steps", [])) for state in graph_at_work.get_state_history(thread("a"))]
    equal(steps, sorted(steps, reverse=True))
    equal((steps[0], len(list(saver.list(thread("a"), limit=2)))), (3, 2))

with program.operation("threads do not see each other's checkpoints"):
    equal(saver.get_tuple(thread("b")), None)
    graph_at_work.invoke({"steps": ["other"]}, thread("b"))
    equal(graph_at_work.get_state(thread("b")).values["steps"], ["other", "first"])

with program.operation("a thread is continued from an earlier checkpoint with another state"):
    earlier = next(state for state in graph_at_work.get_state_history(thread("a")) if state.next == ("ask",))
    changed = graph_at_work.update_state(earlier.config, {"steps": ["changed"]})
    graph_at_work.invoke(None, changed)
    equal(graph_at_work.get_state(thread("a")).values["steps"], ["start", "first", "changed"])

index = {"dims": DIMENSIONS, "embed": lambda texts: [vector(text) for text in texts], "fields": ["text"]}
store = CosmosDBStore.from_endpoint(
    ENDPOINT, credential=KEY, database_name=program.database, container_name="store", index=index, ttl={"default_ttl": 5}
)

with program.operation("a store is set up twice"):
    store.setup()
    store.setup()

with program.operation("values are put, read, replaced and deleted"):
    store.put(("users", "ann"), "pet", {"text": "ann has cats", "age": 3})
    store.put(("users", "ann"), "pet", {"text": "ann has dogs", "age": 4})
    equal(store.get(("users", "ann"), "pet").value["age"], 4)
    store.put(("users", "ann"), "gone", {"text": "nothing"})
    store.delete(("users", "ann"), "gone")
    equal(store.get(("users", "ann"), "gone"), None)

with program.operation("values are searched by condition below a prefix of their namespace"):
    store.put(("users", "bob"), "ride", {"text": "bob drives a car", "age": 9})
    store.put(("teams", "red"), "ship", {"text": "the team has a ship", "age": 9})
    found = store.search(("users",), filter={"age": {"$gte": 5}})
    equal([item.key for item in found], ["ride"])
    equal(len(store.search((), limit=2)), 2)

with program.operation("values are searched by meaning"):
    found = store.search(("users",), query="animals", limit=1)
    equal([item.key for item in found], ["pet"])

with program.operation("namespaces are listed"):
    equal(sorted(store.list_namespaces(prefix=("users",))), [("users", "ann"), ("users", "bob")])
    equal(sorted(store.list_namespaces(max_depth=1)), [("teams",), ("users",)])

with program.operation("results of nodes are cached and cleared"):
    cache = CosmosDBCacheSync(program.database, "cache", endpoint=ENDPOINT, key=KEY)
    keys = [(("node", "one"), "k1"), (("node", "two"), "k2")]
    cache.set({keys[0]: ({"a": 1}, 60), keys[1]: ({"b": 2}, None)})
    equal(cache.get(keys), {keys[0]: {"a": 1}, keys[1]: {"b": 2}})
    cache.clear([("node", "one")])
    equal(cache.get(keys), {keys[1]: {"b": 2}})


async def asynchronously() -> None:
    with program.operation("an asynchronous graph stops and goes on"):
        async with CosmosDBSaver.from_conn_info(**HERE, container_name="asynchronous") as saver:
            working = graph(saver)
            await working.ainvoke({"steps": ["start"]}, thread("a"))
            answer = await working.ainvoke(Command(resume="yes"), thread("a"))
            equal(answer["steps"], ["start", "first", "yes"])
            equal(len([state async for state in saver.alist(thread("a"), limit=3)]), 3)

    with program.operation("the asynchronous store puts, searches and lists"):
        where = {"credential": KEY, "database_name": program.database, "container_name": "asynchronous-store"}
        async with AsyncCosmosDBStore.from_endpoint(ENDPOINT, **where, index=index) as store:
            await store.setup()
            await store.aput(("users", "ann"), "pet", {"text": "ann has cats"})
            await store.aput(("users", "ann"), "ride", {"text": "ann has a car"})
            found = await store.asearch(("users",), query="engine", limit=1)
            equal([item.key for item in found], ["ride"])
            equal(await store.alist_namespaces(), [("users", "ann")])


asyncio.run(asynchronously())
program.end()
