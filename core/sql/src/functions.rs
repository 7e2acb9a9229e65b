//! The built-in functions: one table with names, number of arguments, index use, a line of
//! documentation and the implementation of each.
//!
//! To add a function, write it in the file of its kind and add an entry to that file's table. Names
//! are looked up when a query is compiled; calls go through the function pointer.

mod arrays;
mod checks;
pub(crate) mod compiled_regex;
mod dates;
pub(crate) mod full_text;
mod integers;
pub(crate) mod like;
mod maths;
mod pattern;
mod refused;
pub(crate) mod signatures;
mod spatial;
pub(crate) mod strings;
mod structure;
pub(crate) mod vector;

use crate::error::QueryError;
use crate::run::frame::Context;
use orrery_model::json::Json;
use std::borrow::Cow;
use std::fmt;

/// One built-in function.
pub(crate) struct Function {
    /// The name in capitals, then other spellings.
    pub names: &'static [&'static str],
    /// Smallest and largest number of arguments.
    pub arity: (usize, usize),
    pub index_use: IndexUse,
    /// The result, in a line.
    pub doc: &'static str,
    pub run: Implementation,
}

/// The largest number of arguments of a function that takes any number of them.
pub(crate) const ANY: usize = usize::MAX;

/// The best that an index can do for a filter with the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexUse {
    /// Look-up of one value.
    Seek,
    /// Scan of a range of values.
    Range,
    /// Scan of every distinct value of the path.
    IndexScan,
    /// None: the items are read.
    FullScan,
}

/// The implementation of a function.
///
/// A strict function is undefined, and not called, if an argument is undefined. All variants are
/// strict except `NonStrict` and `Metered`.
#[derive(Clone, Copy)]
pub(crate) enum Implementation {
    Strict(fn(Arguments<'_, '_>) -> Option<Json>),
    /// Handles undefined arguments.
    NonStrict(fn(Arguments<'_, '_>) -> Option<Json>),
    /// Needs the clock or random numbers.
    Context(fn(&mut Context<'_>, Arguments<'_, '_>) -> Option<Json>),
    /// Can take so long, or make so large a value, that it checks the limits of the page itself.
    /// Handles undefined arguments.
    Metered(MeteredFunction),
    /// As `Metered`, but strict. The binder puts the language of the text before the arguments.
    FullText(MeteredFunction),
    /// The binder replaces the arguments after the two vectors by the names of a distance function
    /// and of a data type.
    Vector(fn(Arguments<'_, '_>) -> Option<Json>),
    /// Allowed in ORDER BY RANK only.
    Rank,
    Aggregate(AggregateKind),
    /// IIF, which has an expression of its own.
    Conditional,
    /// CHOOSE, which has an expression of its own.
    Choose,
    /// A function that this engine does not offer, with the name of its family.
    Refused(&'static str),
}

/// A function that can exceed the limits of time and memory.
pub(crate) type MeteredFunction =
    fn(&mut Context<'_>, Arguments<'_, '_>) -> Result<Option<Json>, QueryError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Count,
    CountIf,
    Sum,
    Average,
    Min,
    Max,
    MakeList,
    MakeSet,
}

/// The quantifier of a function that searches for several values.
#[derive(Clone, Copy, PartialEq)]
enum Quantifier {
    All,
    Any,
}

pub(crate) const TABLES: &[&[Function]] = &[
    maths::TABLE,
    integers::TABLE,
    strings::TABLE,
    pattern::TABLE,
    arrays::TABLE,
    structure::TABLE,
    checks::TABLE,
    dates::TABLE,
    spatial::TABLE,
    vector::TABLE,
    full_text::TABLE,
    refused::TABLE,
];

/// The family of the functions of each table.
const FAMILIES: [&str; TABLES.len()] = [
    "mathematics",
    "integers",
    "text",
    "patterns",
    "arrays",
    "objects and aggregates",
    "types",
    "dates",
    "spatial",
    "vectors",
    "full text",
    "refused",
];

/// Returns the family of the functions of the table at this place of [`TABLES`].
pub(crate) fn family(table: usize) -> &'static str {
    FAMILIES.get(table).copied().unwrap_or_default()
}

/// Finds a function by its name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    TABLES
        .iter()
        .flat_map(|table| table.iter())
        .find(|function| function.names.iter().any(|n| n.eq_ignore_ascii_case(name)))
}

/// Finds an aggregate by its name, in any case.
pub(crate) fn aggregate(name: &str) -> Option<AggregateKind> {
    match find(name)?.run {
        Implementation::Aggregate(kind) => Some(kind),
        _ => None,
    }
}

/// Returns the built-in functions as a Markdown table: name, other spellings, number of arguments,
/// result, and the index use of a filter with the function. Documents are made from the table.
pub fn function_reference() -> String {
    let mut out = String::from(
        "| function | also | arguments | gives | in a filter |\n|---|---|---|---|---|\n",
    );
    for function in TABLES.iter().flat_map(|table| table.iter()) {
        let (min, max) = function.arity;
        let arguments = match max {
            ANY => format!("{min} or more"),
            _ if min == max => min.to_string(),
            _ => format!("{min} to {max}"),
        };
        let filter = match function.index_use {
            IndexUse::Seek => "index seek",
            IndexUse::Range => "index range",
            IndexUse::IndexScan => "index scan",
            IndexUse::FullScan => "loads the items",
        };
        let name = function.names[0];
        let also = function.names[1..].join(", ");
        let doc = function.doc;
        out.push_str(&format!(
            "| {name} | {also} | {arguments} | {doc} | {filter} |\n"
        ));
    }
    out
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names[0])
    }
}

/// The values of a call's arguments. The typed getters return `None` for an argument that is
/// undefined or has another type.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'v, 'a>(pub &'v [Option<Cow<'a, Json>>]);

impl<'v> Arguments<'v, '_> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&'v Json> {
        self.0.get(index)?.as_deref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&'v Json>> + use<'v, '_> {
        self.0.iter().map(|v| v.as_deref())
    }

    pub(crate) fn text(&self, index: usize) -> Option<&'v str> {
        self.get(index)?.as_str()
    }

    pub(crate) fn number(&self, index: usize) -> Option<f64> {
        self.get(index)?.as_f64()
    }

    pub(crate) fn array(&self, index: usize) -> Option<&'v [Json]> {
        self.get(index)?.as_array()
    }

    /// Returns an integer. A number with a fraction counts as another type.
    pub(crate) fn integer(&self, index: usize) -> Option<i64> {
        self.get(index)?.as_i64()
    }

    /// Returns an optional number.
    pub(crate) fn number_or(&self, index: usize, default: f64) -> Option<f64> {
        if index < self.len() {
            self.number(index)
        } else {
            Some(default)
        }
    }

    /// Returns an optional integer.
    pub(crate) fn integer_or(&self, index: usize, default: i64) -> Option<i64> {
        if index < self.len() {
            self.integer(index)
        } else {
            Some(default)
        }
    }

    /// Returns an optional string.
    pub(crate) fn text_or(&self, index: usize, default: &'static str) -> Option<&'v str> {
        if index < self.len() {
            self.text(index)
        } else {
            Some(default)
        }
    }

    /// Returns an optional boolean that is false by default.
    pub(crate) fn flag(&self, index: usize) -> Option<bool> {
        if index < self.len() {
            self.get(index)?.as_bool()
        } else {
            Some(false)
        }
    }
}

/// Makes a table entry. No index answers the function, unless [`Function::index_use`] names one.
pub(crate) const fn entry(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: Implementation,
) -> Function {
    Function {
        names,
        arity,
        index_use: IndexUse::FullScan,
        doc,
        run,
    }
}

/// Makes the table entry of a strict function.
pub(crate) const fn strict(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: fn(Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    entry(names, arity, doc, Implementation::Strict(run))
}

/// Makes the table entry of a function that handles undefined arguments.
pub(crate) const fn non_strict(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: fn(Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    entry(names, arity, doc, Implementation::NonStrict(run))
}

/// Makes the table entry of a function that checks the limits of time and memory.
pub(crate) const fn metered(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: MeteredFunction,
) -> Function {
    entry(names, arity, doc, Implementation::Metered(run))
}

impl Function {
    /// Returns the entry with another index use.
    pub(crate) const fn index_use(mut self, index_use: IndexUse) -> Self {
        self.index_use = index_use;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_in_capitals() {
        let mut seen = std::collections::HashSet::new();
        for name in TABLES.iter().flat_map(|t| t.iter()).flat_map(|f| f.names) {
            assert!(seen.insert(name), "{name} occurs twice");
            assert_eq!(*name, name.to_ascii_uppercase());
        }
        assert!(seen.len() > 150);
    }

    #[test]
    fn the_reference_has_a_line_for_every_function() {
        let reference = function_reference();
        assert!(reference.contains(
            "| SUBSTRING |  | 3 | a number of characters from a position on | loads the items |"
        ));
        assert_eq!(
            reference.lines().count(),
            2 + TABLES.iter().map(|t| t.len()).sum::<usize>()
        );
    }

    #[test]
    fn every_function_has_a_line_of_documentation() {
        for function in TABLES.iter().flat_map(|t| t.iter()) {
            assert!(function.doc.len() > 5, "{function:?}");
            assert!(function.arity.0 <= function.arity.1, "{function:?}");
        }
    }
}
