//! The codec of positions in continuation tokens, for the fuzz targets in `fuzz`. Nothing else uses
//! this module, and it promises nothing to other crates.
//!
//! It is part of every build: with a feature of cargo the tests of the workspace and the program
//! would compile this crate twice.

use crate::query::position::QueryPosition;
use orrery_model::Result;

/// Reads the bytes of a position of a query and writes them again, in full.
///
/// # Errors
/// 400 for bytes that are no position.
pub fn rewritten_position(bytes: &[u8]) -> Result<Vec<u8>> {
    Ok(match QueryPosition::read(bytes)? {
        Some(position) => position.write(false),
        None => bytes.to_vec(),
    })
}

/// Returns the bytes of a position in the form for clients that limit the length of tokens.
///
/// # Errors
/// 400 for bytes that are no position.
pub fn shortened_position(bytes: &[u8]) -> Result<Vec<u8>> {
    QueryPosition::shortened(bytes)
}
