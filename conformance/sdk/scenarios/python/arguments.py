"""The arguments of one operation. An argument that no code reads is reported as missing in the SDK."""

from azure.core import MatchConditions
from azure.cosmos import ThroughputProperties
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue


class Missing(Exception):
    """The SDK has no public method or option for a request."""


class Arguments:
    def __init__(self, given: dict):
        self._given = given
        self._names = set(given)

    def unused(self) -> str:
        return ", ".join(sorted(self._names))

    def has(self, name: str) -> bool:
        return name in self._given

    def take(self, name: str, otherwise=None):
        self._names.discard(name)
        return self._given.get(name, otherwise)

    def key(self):
        """Returns the argument `partition_key` in the SDK's form."""
        return key(self.take("partition_key"))

    def options(self, **names: str) -> dict:
        """Returns the arguments that are given, under the SDK's names: `session_token="session_token"`."""
        found = {ours: self.take(theirs) for ours, theirs in names.items() if self.has(theirs)}
        if self.has("if_match"):
            found |= {"etag": self.take("if_match"), "match_condition": MatchConditions.IfNotModified}
        if self.has("if_none_match"):
            found |= {"etag": self.take("if_none_match"), "match_condition": MatchConditions.IfModified}
        return found

    def throughput(self):
        """Returns the throughput of a new container or database, or of an offer."""
        manual, autoscale = self.take("throughput"), self.take("autoscale")
        if autoscale is None:
            return manual
        increment = autoscale.get("increment")
        return ThroughputProperties(
            auto_scale_max_throughput=autoscale["max"],
            **({} if increment is None else {"auto_scale_increment_percent": increment}),
        )


def key(values: list | None):
    """Returns a partition key, given as a JSON array, in the SDK's form: none, one value, or a list of several."""
    if values is None:
        return None
    if values in ([], [None]):
        return NullPartitionKeyValue if values else NonePartitionKeyValue
    return values[0] if len(values) == 1 else values
