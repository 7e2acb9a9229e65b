//! The built-in functions: one table of names, arities, cost, a line of documentation and what runs.
//!
//! To add a function, write it in the file of its kind and add its line to that file's table. Names are looked up once,
//! when a query is compiled; calls go through the pointer.

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
    /// Its name in capitals, then other spellings.
    pub names: &'static [&'static str],
    /// Fewest and most arguments.
    pub arity: (usize, usize),
    pub index_use: IndexUse,
    /// What it gives, in a line.
    pub doc: &'static str,
    pub run: Implementation,
}

/// Any number of arguments.
pub(crate) const ANY: usize = usize::MAX;

/// What an index can do for a filter with the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexUse {
    /// Equality: one place of the index.
    Seek,
    /// A range of the index.
    Range,
    /// Every distinct value of the path.
    IndexScan,
    /// The items themselves.
    FullScan,
}

/// How it runs. An undefined argument makes a strict or context function undefined without a call.
#[derive(Clone, Copy)]
pub(crate) enum Implementation {
    Strict(fn(Arguments<'_, '_>) -> Option<Json>),
    /// Sees undefined arguments.
    NonStrict(fn(Arguments<'_, '_>) -> Option<Json>),
    /// Needs the clock, chance or a cache.
    Context(fn(&mut Context<'_>, Arguments<'_, '_>) -> Option<Json>),
    /// Sees undefined arguments, and may take so long that it has to look at the clock, or make so much that it has to
    /// count.
    Metered(MeteredFunction),
    /// As `Metered`, but strict; the binder puts the language of the text before the arguments.
    FullText(MeteredFunction),
    /// The binder replaces what follows the two vectors by the name of a distance function and of a data type.
    Vector(fn(Arguments<'_, '_>) -> Option<Json>),
    /// Stands in ORDER BY RANK, nowhere else.
    Rank,
    Aggregate(AggregateKind),
    /// IIF, by its own expression.
    Conditional,
    /// CHOOSE, by its own expression.
    Choose,
    /// A family of functions that this engine does not have.
    Refused(&'static str),
}

/// A function that can run out of time or memory.
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

/// The function of that name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    let matches = |f: &&Function| f.names.iter().any(|n| n.eq_ignore_ascii_case(name));
    TABLES.iter().find_map(|table| table.iter().find(matches))
}

/// The aggregate of that name.
pub(crate) fn aggregate(name: &str) -> Option<AggregateKind> {
    match find(name)?.run {
        Implementation::Aggregate(kind) => Some(kind),
        _ => None,
    }
}

/// The built-in functions as a Markdown table: name, other spellings, arguments, what it gives, what an index can do
/// for a filter with it. For the documentation, so that it cannot say other than the code.
pub fn function_reference() -> String {
    let mut out = String::from(
        "| function | also | arguments | gives | in a filter |\n|---|---|---|---|---|\n",
    );
    for function in TABLES.iter().flat_map(|table| table.iter()) {
        let (fewest, most) = function.arity;
        let arguments = match most {
            ANY => format!("{fewest} or more"),
            _ if fewest == most => fewest.to_string(),
            _ => format!("{fewest} to {most}"),
        };
        let filter = match function.index_use {
            IndexUse::Seek => "index seek",
            IndexUse::Range => "index range",
            IndexUse::IndexScan => "index scan",
            IndexUse::FullScan => "loads the items",
        };
        let (name, also) = (function.names[0], function.names[1..].join(", "));
        out.push_str(&format!(
            "| {name} | {also} | {arguments} | {} | {filter} |\n",
            function.doc
        ));
    }
    out
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names[0])
    }
}

/// The values of a call's arguments.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'v, 'a>(pub &'v [Option<Cow<'a, Json>>]);

impl<'v> Arguments<'v, '_> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, index: usize) -> Option<&'v Json> {
        self.0.get(index)?.as_deref()
    }

    pub fn iter(&self) -> impl Iterator<Item = Option<&'v Json>> + use<'v, '_> {
        self.0.iter().map(|v| v.as_deref())
    }

    pub fn text(&self, index: usize) -> Option<&'v str> {
        self.get(index)?.as_str()
    }

    pub fn number(&self, index: usize) -> Option<f64> {
        self.get(index)?.as_f64()
    }

    pub fn array(&self, index: usize) -> Option<&'v [Json]> {
        self.get(index)?.as_array()
    }

    /// A whole number; a fraction counts as the wrong type.
    pub fn whole(&self, index: usize) -> Option<i64> {
        self.get(index)?.as_i64()
    }

    /// A number that may be left out.
    pub fn number_or(&self, index: usize, default: f64) -> Option<f64> {
        if index < self.len() {
            self.number(index)
        } else {
            Some(default)
        }
    }

    /// A whole number that may be left out.
    pub fn whole_or(&self, index: usize, default: i64) -> Option<i64> {
        if index < self.len() {
            self.whole(index)
        } else {
            Some(default)
        }
    }

    /// A string that may be left out.
    pub fn text_or(&self, index: usize, default: &'static str) -> Option<&'v str> {
        if index < self.len() {
            self.text(index)
        } else {
            Some(default)
        }
    }

    /// A boolean that may be left out and is false then.
    pub fn flag(&self, index: usize) -> Option<bool> {
        if index < self.len() {
            self.get(index)?.as_bool()
        } else {
            Some(false)
        }
    }
}

/// A line of a table.
pub(crate) const fn strict(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: fn(Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    Function {
        names,
        arity,
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::Strict(run),
    }
}

/// A line of a table for a function that sees undefined arguments.
pub(crate) const fn non_strict(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: fn(Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    Function {
        names,
        arity,
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::NonStrict(run),
    }
}

/// A line of a table for a function that watches time and memory.
pub(crate) const fn metered(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: fn(&mut Context<'_>, Arguments<'_, '_>) -> Result<Option<Json>, QueryError>,
) -> Function {
    Function {
        names,
        arity,
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::Metered(run),
    }
}

impl Function {
    /// The same with what an index can do for it.
    pub const fn index_use(mut self, index_use: IndexUse) -> Self {
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
            assert!(seen.insert(name), "{name} stands twice");
            assert_eq!(*name, name.to_ascii_uppercase());
        }
        assert!(seen.len() > 150);
    }

    #[test]
    fn the_reference_has_a_line_for_every_function() {
        let reference = function_reference();
        assert!(reference.contains(
            "| SUBSTRING |  | 3 | from a position, so many characters | loads the items |"
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
