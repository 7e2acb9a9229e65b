//! Fuzz targets: readers of what clients send, each with a property that holds for every input.
//!
//! A [`Target`] is a function from bytes to nothing that panics if its property does not hold.
//! `cargo xtask long fuzz` runs the targets under libFuzzer with inputs that reach new code; the
//! test of [`corpus`] runs every committed input on every compiler.
//!
//! Promises: a target is deterministic but for the order of threads, reads nothing but its input,
//! and keeps nothing from one input to the next that changes a result. Left out: requests over
//! connections (`program/cli/tests/fuzz.rs`), and the bytes of stores (`core/storage/tests`).

mod authorization;
mod batch;
mod batch_forms;
mod binary_json;
mod continuation;
pub mod corpus;
mod feed_etag;
mod fixture;
mod hybrid_row;
mod patch;
mod position;
mod rntbd;
mod session;
mod sql;

/// A fuzz target.
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// The property that holds for every input, beside that nothing panics or hangs.
    pub property: &'static str,
    /// Checks the property on an input.
    pub check: fn(&[u8]),
    /// The name of the corpus in the folder `corpus`, without its ending.
    pub corpus: &'static str,
}

/// All targets. `docs/testing.md` has the figures of their last runs.
pub const TARGETS: &[Target] = &[
    Target {
        name: "binary-json",
        property: "a body that is read is JSON of bounded length, and encodes and reads again",
        check: binary_json::check,
        corpus: "binary-json",
    },
    Target {
        name: "hybrid-row",
        property: "a batch that is read means the same when written in either form",
        check: hybrid_row::check,
        corpus: "hybrid-row",
    },
    Target {
        name: "batch",
        property: "as hybrid-row, for JSON; an engine answers it, and commits nothing if it fails",
        check: batch::check,
        corpus: "batch",
    },
    Target {
        name: "patch",
        property: "operations one by one give the item of the patch, in an engine too",
        check: patch::check,
        corpus: "patch",
    },
    Target {
        name: "continuation",
        property: "a changed token is refused, or its pages end; tokens decode and encode",
        check: continuation::check,
        corpus: "continuation",
    },
    Target {
        name: "position",
        property: "a position that is read is written as itself, and shortened once",
        check: position::check,
        corpus: "position",
    },
    Target {
        name: "feed-etag",
        property: "an etag that is read is written as itself, and its pages end",
        check: feed_etag::check,
        corpus: "feed-etag",
    },
    Target {
        name: "session",
        property: "a session token is accepted, refused or not reached as a second reader says",
        check: session::check,
        corpus: "session",
    },
    Target {
        name: "rntbd",
        property: "a head of direct mode that is read is written with the same tokens",
        check: rntbd::check,
        corpus: "rntbd",
    },
    Target {
        name: "authorization",
        property: "only the signature or the token is accepted, and no refusal shows it",
        check: authorization::check,
        corpus: "authorization",
    },
    Target {
        name: "sql-parse",
        property: "a query compiles, plans and prints; what is printed prints as itself",
        check: sql::check_parse,
        corpus: "sql",
    },
    Target {
        name: "sql-run",
        property: "the rows are the same on every page size, with and without an index",
        check: sql::check_run,
        corpus: "sql",
    },
];

/// Returns the target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
