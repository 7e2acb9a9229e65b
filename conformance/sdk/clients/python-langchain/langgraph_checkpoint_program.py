"""langgraph-checkpoint-cosmosdb, a checkpointer of a third party: threads of a graph, their history, their end."""

import asyncio
import os

from langgraph.types import Command
from langgraph_checkpoint_cosmosdb import CosmosDBSaver
from operations import ENDPOINT, KEY, Program, equal
from question_graph import graph, thread

program = Program("langgraph-checkpoint-cosmosdb")
os.environ |= {"COSMOSDB_ENDPOINT": ENDPOINT, "COSMOSDB_KEY": KEY}

saver = None
with program.operation("a checkpointer creates its database and container, and opens them again"):
    CosmosDBSaver(program.database, "checkpoints")
    saver = CosmosDBSaver(program.database, "checkpoints")

with program.operation("a graph stops with a question, and its checkpoint is read"):
    graph(saver).invoke({"steps": ["start"]}, thread("a"))
    equal(graph(saver).get_state(thread("a")).next, ("ask",))

with program.operation("another checkpointer goes on where the first stopped"):
    another = CosmosDBSaver(program.database, "checkpoints")
    equal(graph(another).invoke(Command(resume="yes"), thread("a"))["steps"], ["start", "first", "yes"])

with program.operation("the history of a thread is listed from its end, with a limit"):
    steps = [len(state.values.get("steps", [])) for state in graph(saver).get_state_history(thread("a"))]
    equal(steps, sorted(steps, reverse=True))
    equal((steps[0], len(list(saver.list(thread("a"), limit=2)))), (3, 2))

with program.operation("the history before a checkpoint is listed"):
    listed = list(saver.list(thread("a")))
    before = [found.config for found in saver.list(thread("a"), before=listed[0].config)]
    equal(before, [found.config for found in listed[1:]])

with program.operation("a thread is copied"):
    saver.copy_thread("a", "copy")
    equal(graph(saver).get_state(thread("copy")).values["steps"], ["start", "first", "yes"])

with program.operation("old checkpoints of a thread are pruned"):
    saver.prune(["copy"])
    equal(len(list(saver.list(thread("copy")))), 1)
    equal(graph(saver).get_state(thread("copy")).values["steps"], ["start", "first", "yes"])

with program.operation("a thread is deleted, and no other"):
    saver.delete_thread("copy")
    equal(saver.get_tuple(thread("copy")), None)
    assert saver.get_tuple(thread("a"))

with program.operation("an asynchronous graph stops and goes on"):

    async def asynchronously() -> list[str]:
        await graph(saver).ainvoke({"steps": ["start"]}, thread("b"))
        return (await graph(saver).ainvoke(Command(resume="yes"), thread("b")))["steps"]

    equal(asyncio.run(asynchronously()), ["start", "first", "yes"])

program.end()
