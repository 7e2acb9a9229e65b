"""The operations by their numbers, and the items that each of them leaves.

    triggers    a create whose pre-trigger stamps the item and whose post-trigger creates a second item
    procedure   creates `BATCH` items, and adds 1 to the counter of the logical partition
    batch       a transactional batch of `BATCH` creates

The counter finds a procedure that was carried out twice, which creates alone would refuse.
"""

BATCH = 10
# Logical partitions of one writer, so that a writer goes through all physical partitions.
KEYS_OF_A_WRITER = 24
KINDS = ("batch", "procedure", "triggers", "batch", "procedure")

PROCEDURE = "fill"
TRIGGERS = {"pre": "stamp", "post": "pair"}

FILL = """
function fill(key, names) {
  const items = getContext().getCollection();
  const create = (at) => {
    if (at === names.length) return count();
    items.createDocument(items.getSelfLink(), { id: names[at], pk: key }, (error) => {
      if (error) throw error;
      create(at + 1);
    });
  };
  const count = () => {
    items.readDocument(`${items.getAltLink()}/docs/counter`, (error, found) => {
      if (error && error.number !== 404) throw error;
      const counter = found ?? { id: "counter", pk: key, count: 0 };
      counter.count += 1;
      items.upsertDocument(items.getSelfLink(), counter, (error) => { if (error) throw error; });
    });
  };
  create(0);
}
"""
STAMP = """
function stamp() {
  const request = getContext().getRequest();
  const item = request.getBody();
  item.stamped = item.id;
  request.setBody(item);
}
"""
PAIR = """
function pair() {
  const items = getContext().getCollection();
  const item = getContext().getResponse().getBody();
  items.createDocument(items.getSelfLink(), { id: `${item.id}+`, pk: item.pk }, (error) => { if (error) throw error; });
}
"""


def kind_of(number: int) -> str:
    return KINDS[number % len(KINDS)]


def key_of(writer: str, number: int) -> str:
    """Returns the value of the partition key of an operation."""
    # Two primes, so that each logical partition gets operations of each kind.
    return f"{writer}/{number % (KEYS_OF_A_WRITER - 1)}"


def names_of(writer: str, number: int) -> list[str]:
    """Returns the ids of all items that an operation leaves, without the counter."""
    if kind_of(number) == "triggers":
        return [f"{writer}-{number}", f"{writer}-{number}+"]
    return [f"{writer}-{number}-{n}" for n in range(BATCH)]


def batch_of(writer: str, number: int) -> list[dict]:
    """Returns the body of a batch."""
    key = key_of(writer, number)
    return [
        {"operationType": "Create", "resourceBody": {"id": name, "pk": key}} for name in names_of(writer, number)
    ]
