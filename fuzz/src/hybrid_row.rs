//! Batches in the binary form of the .NET SDK.
//!
//! ```text
//! 0  rows       each with its length in two bytes; the stream around them is written here, with
//!               the checksums, which no mutation would hit
//! 1  stream     the whole body as it is
//! ```

use crate::batch_forms::{check_both_forms, stream};
use crate::fixture::check_refusal;
use bytes::Bytes;
use orrery_gateway::fuzzing::batch_operations;

/// Checks an input: a batch that is read means the same when it is written in either form.
pub(crate) fn check(input: &[u8]) {
    let Some((form, rest)) = input.split_first() else {
        return;
    };
    let body = match form % 2 {
        0 => stream(rows(rest).into_iter()),
        _ => Bytes::copy_from_slice(rest),
    };
    match batch_operations(&body) {
        Ok(operations) => check_both_forms(&operations),
        Err(error) => check_refusal(&error, body.len()),
    }
}

/// Splits bytes into rows; the last one may be shorter than its length says.
fn rows(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut rows = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (row, after) = after.split_at(length);
        rows.push(row);
        rest = after;
    }
    rows
}
