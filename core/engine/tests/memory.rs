//! The memory that items take in the memory store.

use crate::support::*;
use orrery_engine::Profile;

#[test]
fn the_smallest_items_take_less_memory_than_twice_the_text_that_clients_read() {
    const ITEMS: u64 = 3_000;
    let bench = Bench::new(Profile::Modern, 1);
    let body = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let container = bench.container(body, 1);
    let empty = bench.engine.store_bytes();
    let mut text_bytes = 0;
    for n in 0..ITEMS {
        let text = format!(r#"{{"id":"{n}","pk":"{n}"}}"#);
        text_bytes += create(&bench.engine, &container, &text).len() as u64;
    }
    let bytes = bench.engine.store_bytes() - empty;
    assert!(
        bytes < 2 * text_bytes,
        "{} bytes for an item of {}",
        bytes / ITEMS,
        text_bytes / ITEMS
    );
}
