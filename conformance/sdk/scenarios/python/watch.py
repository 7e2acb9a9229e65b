"""The SDK's public methods that send requests, and those that the driver called."""

from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, ScriptsProxy, UserProxy

CLASSES = (CosmosClient, DatabaseProxy, ContainerProxy, ScriptsProxy, UserProxy)

reached: set[str] = set()


def methods() -> set[str]:
    """Returns every public method as `Class.name`."""
    return {
        f"{kind.__name__}.{name}"
        for kind in CLASSES
        for name, member in vars(kind).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, classmethod))
    }


class _Watched:
    """A proxy of an SDK object that records every method call of the driver, and no call of the SDK itself."""

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
    """Returns a proxy for objects whose methods are recorded, else the object itself."""
    return _Watched(target) if isinstance(target, CLASSES) else target
