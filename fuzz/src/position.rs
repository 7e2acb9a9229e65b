//! The bytes of a position in the continuation of a query.

use crate::fixture::check_refusal;
use orrery_engine::fuzzing::{rewritten_position, shortened_position};

/// Checks an input: a position that is read is written as itself, but for the spelling of JSON
/// values in it, and a shortened position cannot be shortened further.
pub(crate) fn check(input: &[u8]) {
    let rewritten = match rewritten_position(input) {
        Ok(rewritten) => rewritten,
        Err(error) => {
            check_refusal(&error, input.len());
            assert!(shortened_position(input).is_err());
            return;
        }
    };
    if !has_values(input) {
        assert_eq!(rewritten, input);
    }
    assert_eq!(
        rewritten_position(&rewritten).expect("own bytes"),
        rewritten
    );
    let shortened = shortened_position(input).expect("a position");
    assert!(shortened.len() <= rewritten.len().max(input.len()));
    assert_eq!(
        shortened_position(&shortened).expect("own bytes"),
        shortened
    );
    assert_eq!(
        rewritten_position(&shortened).expect("own bytes"),
        shortened
    );
}

/// Returns true for a position in a run of equal encodings, which has the values as JSON.
fn has_values(position: &[u8]) -> bool {
    let start = match position {
        [4, length, ..] => 2 + usize::from(*length),
        _ => 0,
    };
    // The form, the range, the number and the index.
    position.get(start + 1 + 4 + 8 + 4) == Some(&3)
}
