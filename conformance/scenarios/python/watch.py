"""Which public methods there are to ask the service for something, and which of them the driver called."""

from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, ScriptsProxy, UserProxy

CLASSES = (CosmosClient, DatabaseProxy, ContainerProxy, ScriptsProxy, UserProxy)

reached: set[str] = set()


def methods() -> set[str]:
    """Every public method by `Class.name`."""
    return {
        f"{kind.__name__}.{name}"
        for kind in CLASSES
        for name, member in vars(kind).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, classmethod))
    }


class _Watched:
    """An object of the SDK as the driver holds it: every method that it calls is noted; the SDK's own calls are not."""

    def __init__(self, target):
        self._target = target

    def __getattr__(self, name):
        value = getattr(self._target, name)
        if not callable(value):
            return watch(value)

        def call(*words, **options):
            reached.add(f"{type(self._target).__name__}.{name}")
            return watch(value(*words, **options))

        return call


def watch(target):
    """The object itself, unless it is one of those whose methods count."""
    return _Watched(target) if isinstance(target, CLASSES) else target
