//! Containers without a partition key, as clients of 2016 create them: one physical partition, at
//! most 10,000 RU/s, and the id alone as primary key.

use orrery_examples::client::{Method, Request, Response};
use orrery_examples::container::{Container, Database};
use orrery_examples::table::{Table, heading, quote, ru, text};
use orrery_examples::{Result, check};
use serde_json::json;

/// A version of the protocol of 2016.
const VERSION: &str = "2016-07-11";
/// Highest throughput of one physical partition, in RU/s.
const THROUGHPUT_MAX: u32 = 10_000;

/// Shows a container without a partition key.
pub(crate) async fn show(database: &Database) -> Result<()> {
    heading("6. A container without a partition key");
    let creation = |name: &str, throughput: u32| {
        let request = database.creation(throughput).version(VERSION);
        request.body(&json!({"id": name}))
    };
    let refused = creation("too-much", THROUGHPUT_MAX + 100).send().await?;
    check(
        refused.status == 400,
        "a container without a partition key has at most 10,000 RU/s",
    )?;
    let created = creation("single", THROUGHPUT_MAX).send().await?;
    created.expect(201)?;
    let single = database.container("single");
    let partitions = single.partitions().await?.len();
    check(
        partitions == 1,
        "a container without a partition key has one physical partition",
    )?;
    text(&format!(
        "The client speaks the version {VERSION} of the protocol. A container of {} RU/s is \
         refused with {}:",
        THROUGHPUT_MAX + 100,
        refused.status
    ));
    quote(&refused.message());
    text(&format!(
        "With {THROUGHPUT_MAX} RU/s the container has {partitions} physical partition."
    ));
    show_requests(&single).await
}

async fn show_requests(single: &Container) -> Result<()> {
    let mut table = Table::new(&["request, without a word about partitions", "status", "RU"]);
    let mut add = |request: &str, response: &Response| {
        let status = response.status.to_string();
        table.row([request.to_owned(), status, ru(response.charge())]);
    };
    let item = |id: &str, device: &str| json!({"id": id, "deviceId": device});
    let create = |item: &serde_json::Value| single.docs(Method::POST).version(VERSION).body(item);
    let created = create(&item("1", "XMS-0001")).send().await?.expect(201)?;
    add("create the item 1", &created);
    create(&item("2", "XMS-0002")).send().await?.expect(201)?;

    let taken = create(&item("1", "XMS-0002")).send().await?;
    add("create an item 1 of another device", &taken);
    check(
        taken.status == 409,
        "the id alone is the primary key of a container without a partition key",
    )?;
    let read = single.doc(Method::GET, "1").version(VERSION);
    let read = read.send().await?.expect(200)?;
    add("read the item 1", &read);
    check(
        read.charge() == 1.0,
        "a read of one item of at most 1 KB costs 1 RU",
    )?;
    for (shown, query) in [
        ("ORDER BY over all items", "SELECT * FROM c ORDER BY c.id"),
        ("COUNT of all items", "SELECT VALUE COUNT(1) FROM c"),
    ] {
        let found = query_of_2016(single, query).send().await?.expect(200)?;
        add(shown, &found);
    }
    table.print();
    text(
        "One partition needs no choice of a key, and no growth beyond it is possible: such \
         data move to a container with a partition key when they outgrow it.",
    );
    Ok(())
}

/// Returns a query that says nothing about partitions.
fn query_of_2016(single: &Container, text: &str) -> Request {
    single
        .docs(Method::POST)
        .version(VERSION)
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .body(&json!({"query": text}))
}
