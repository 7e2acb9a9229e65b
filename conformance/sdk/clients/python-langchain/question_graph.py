"""The graph that the programs for checkpointers of LangGraph run."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict):
    steps: Annotated[list[str], operator.add]


def ask(state: State) -> State:
    return {"steps": [interrupt("go on?")]}


def graph(saver):
    """A graph that stops between its two steps to ask a person."""
    graph = StateGraph(State)
    graph.add_node("first", lambda state: {"steps": ["first"]})
    graph.add_node("ask", ask)
    graph.add_edge(START, "first")
    graph.add_edge("first", "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def thread(name: str) -> dict:
    return {"configurable": {"thread_id": name}}
