//! Batches as JSON: the reader of the gateway, and the engine that carries the operations out.

use crate::batch_forms::check_both_forms;
use crate::fixture::{Fixture, ITEMS, check_refusal, key};
use bytes::Bytes;
use orrery_engine::request::{BatchAction, BatchMode, BatchOperation};
use orrery_gateway::fuzzing::batch_operations;
use std::sync::LazyLock;

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| Fixture::new(1));

/// Checks an input, the body of a batch: it is refused, or its operations mean the same in either
/// form and an engine answers them.
pub(crate) fn check(input: &[u8]) {
    match batch_operations(&Bytes::copy_from_slice(input)) {
        Err(error) => check_refusal(&error, input.len()),
        Ok(operations) => {
            check_both_forms(&operations);
            check_answer(operations, input.len());
        }
    }
}

/// Carries operations out as one transaction that fails at its end: every answer is one for a
/// client, and the container keeps its items.
fn check_answer(mut operations: Vec<BatchOperation>, input_bytes: usize) {
    let missing = BatchAction::Read("missing".into());
    operations.push(BatchOperation::new(missing, None));
    let count = operations.len();
    let Fixture { engine, container } = &*FIXTURE;
    let mode = BatchMode::Atomic(key(0));
    let outcome = engine.batch(container, &mode, operations, None::<&str>);
    match outcome.wait().result {
        Err(error) => check_refusal(&error, input_bytes),
        Ok(answer) => {
            assert_eq!(answer.results.len(), count);
            let failures = answer.results.iter().filter_map(|one| {
                let error = one.result.as_ref().err()?;
                check_refusal(error, input_bytes);
                (error.status() != 424).then_some(())
            });
            assert_eq!(failures.count(), 1, "one operation has the reason");
        }
    }
    let inventory = engine.partition_inventory(container).expect("the counters");
    let items: u64 = inventory.iter().map(|partition| partition.items).sum();
    assert_eq!(items, ITEMS as u64);
}
