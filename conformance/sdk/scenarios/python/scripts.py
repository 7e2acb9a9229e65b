"""Stored procedures, triggers and user-defined functions."""

from feeds import pages


def _kind(name: str) -> dict:
    """The operations that the three kinds of scripts share."""

    def scripts(clients, a):
        return clients.container(a).scripts

    def method(verb, *arguments):
        def carry_out(clients, a):
            done = getattr(scripts(clients, a), f"{verb}_{name}")(*(a.take(argument) for argument in arguments))
            return clients.answer(done)

        return carry_out

    def listed(clients, a):
        return pages(clients, a, getattr(scripts(clients, a), f"list_{name}s"))

    def queried(clients, a):
        method = getattr(scripts(clients, a), f"query_{name}s")
        return pages(clients, a, method, a.take("query"), a.take("parameters"))

    return {
        f"create_{name}": method("create", "properties"),
        f"read_{name}": method("get", "id"),
        f"replace_{name}": method("replace", "id", "properties"),
        f"delete_{name}": method("delete", "id"),
        f"list_{name}s": listed,
        f"query_{name}s": queried,
    }


def execute_stored_procedure(clients, a):
    scripts = clients.container(a).scripts
    options = a.options(params="arguments", enable_script_logging="log")
    return clients.answer(scripts.execute_stored_procedure(a.take("id"), partition_key=a.key(), **options))


SCRIPTS = (
    _kind("stored_procedure")
    | _kind("trigger")
    | _kind("user_defined_function")
    | {"execute_stored_procedure": execute_stored_procedure}
)
