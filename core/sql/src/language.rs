//! The description of the language for editors: reserved words, clauses and functions.
//!
//! Functions come from their tables and words from the lexer, so the description cannot name what
//! the compiler does not know. Functions that only merging clients use are left out.

use crate::functions::{ANY, Function, Implementation, IndexUse, TABLES, family, signatures};
use crate::syntax::RESERVED;

/// The description of the language.
#[derive(Clone, Debug)]
pub struct Language {
    /// Words that cannot be identifiers, in capitals.
    pub keywords: &'static [&'static str],
    /// Clauses and operators, with an example of each.
    pub clauses: &'static [ClauseInfo],
    /// Functions, by family.
    pub functions: Vec<FunctionInfo>,
    /// Properties that the server adds to every item.
    pub properties: &'static [PropertyInfo],
}

/// A clause or operator of the language.
#[derive(Clone, Copy, Debug)]
pub struct ClauseInfo {
    /// The words that begin it.
    pub name: &'static str,
    /// The form, with names in place of the parts.
    pub form: &'static str,
    /// The effect, in a line.
    pub doc: &'static str,
}

/// A property that the server adds to every item.
#[derive(Clone, Copy, Debug)]
pub struct PropertyInfo {
    /// The name.
    pub name: &'static str,
    /// The contents, in a line.
    pub doc: &'static str,
}

/// A built-in function.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// The name in capitals.
    pub name: &'static str,
    /// Other spellings.
    pub aliases: &'static [&'static str],
    /// The family, such as `text` or `dates`.
    pub family: &'static str,
    /// The names of the arguments; the last one may be repeated if `arguments_max` is `None`.
    pub arguments: Vec<&'static str>,
    /// The smallest number of arguments.
    pub arguments_min: usize,
    /// The largest number of arguments; `None` for any.
    pub arguments_max: Option<usize>,
    /// The result, in a line.
    pub doc: &'static str,
    /// The best that an index can do for a filter with the function: `seek`, `range`, `scan` or
    /// `none`.
    pub index_use: &'static str,
    /// True for an aggregate.
    pub is_aggregate: bool,
}

const fn clause(name: &'static str, form: &'static str, doc: &'static str) -> ClauseInfo {
    ClauseInfo { name, form, doc }
}

/// The clauses and operators.
#[rustfmt::skip] // one clause on one line
const CLAUSES: &[ClauseInfo] = &[
    clause("SELECT", "SELECT c.a, c.b AS name", "the properties of each row"),
    clause("SELECT *", "SELECT * FROM c", "whole items"),
    clause("SELECT VALUE", "SELECT VALUE c.a", "a value for each row, without an object around it"),
    clause("DISTINCT", "SELECT DISTINCT c.a", "each row once"),
    clause("TOP", "SELECT TOP 10 *", "the first rows only"),
    clause("FROM", "FROM c", "the name of an item in the query"),
    clause("IN", "FROM x IN c.list", "a row for each element of an array"),
    clause("JOIN", "JOIN x IN c.list", "each row with each element of one of its arrays"),
    clause("WHERE", "WHERE c.a = 1 AND c.b > 2", "only items for which the condition is true"),
    clause("BETWEEN", "c.a BETWEEN 1 AND 9", "true if a value lies between two others, inclusive"),
    clause("IN", "c.a IN (1, 2, 3)", "true if a value is one of a list"),
    clause("LIKE", "c.a LIKE 'ab%'", "true if a text matches a pattern with % and _"),
    clause("ESCAPE", "c.a LIKE '5!%' ESCAPE '!'", "a character before a literal % or _"),
    clause("EXISTS", "EXISTS (SELECT VALUE x FROM x IN c.list)", "true if a subquery has a row"),
    clause("ARRAY", "ARRAY (SELECT VALUE x FROM x IN c.list)", "the rows of a subquery"),
    clause("GROUP BY", "GROUP BY c.a", "a row for each group of equal values"),
    clause("ORDER BY", "ORDER BY c.a DESC, c.b ASC", "the order; several paths need an index"),
    clause("ORDER BY RANK", "ORDER BY RANK FULLTEXTSCORE(c.text, 'word')", "the order by scores"),
    clause("OFFSET LIMIT", "OFFSET 10 LIMIT 5", "the rows after a number of rows"),
    clause("UDF", "udf.name(c.a)", "the result of a user-defined function of the container"),
    clause("??", "c.a ?? 0", "the first value, or the second if the first is undefined"),
    clause("? :", "c.a > 1 ? 'x' : 'y'", "the first value if a condition is true, else the second"),
    clause("||", "c.a || c.b", "two texts joined"),
];

const fn property(name: &'static str, doc: &'static str) -> PropertyInfo {
    PropertyInfo { name, doc }
}

/// The properties that the server adds.
const PROPERTIES: &[PropertyInfo] = &[
    property("id", "id of the item in its logical partition"),
    property("_rid", "resource id of the item"),
    property("_self", "address of the item by resource ids"),
    property("_etag", "version of the item, for conditional writes"),
    property("_ts", "time of the last write in seconds since 1970"),
    property(
        "_attachments",
        "address of the attachments, which are not supported",
    ),
];

/// Returns the description of the language.
pub fn language() -> Language {
    let mut functions = Vec::new();
    for (at, table) in TABLES.iter().enumerate() {
        for function in *table {
            functions.extend(described(function, family(at)));
        }
    }
    Language {
        keywords: RESERVED,
        clauses: CLAUSES,
        functions,
        properties: PROPERTIES,
    }
}

/// Describes a function; `None` for one that queries of users do not have.
fn described(function: &'static Function, family: &'static str) -> Option<FunctionInfo> {
    let (name, aliases) = function.names.split_first()?;
    let mut arguments = Vec::new();
    for argument in signatures::of(name)? {
        let plain = argument.trim_end_matches("...");
        arguments.push(plain.trim_matches(['[', ']']));
    }
    let (min, max) = function.arity;
    Some(FunctionInfo {
        name,
        aliases,
        family,
        arguments,
        arguments_min: min,
        arguments_max: (max != ANY).then_some(max),
        doc: function.doc,
        index_use: match function.index_use {
            IndexUse::Seek => "seek",
            IndexUse::Range => "range",
            IndexUse::IndexScan => "scan",
            IndexUse::FullScan => "none",
        },
        is_aggregate: matches!(function.run, Implementation::Aggregate(_)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Path, Step};
    use crate::query::Query;
    use crate::seams::Environment;

    #[test]
    fn functions_have_their_family_arguments_and_index_use() {
        let language = language();
        let of = |name| {
            language
                .functions
                .iter()
                .find(|f| f.name == name)
                .expect(name)
        };
        let contains = of("CONTAINS");
        assert_eq!(contains.arguments, ["text", "part", "ignoreCase"]);
        assert_eq!(
            (contains.arguments_min, contains.arguments_max),
            (2, Some(3))
        );
        assert_eq!((contains.family, contains.index_use), ("text", "scan"));
        assert_eq!(of("CONCAT").arguments_max, None);
        assert!(of("COUNT").is_aggregate);
        assert!(language.functions.iter().all(|f| !f.name.starts_with('_')));
        assert!(language.keywords.contains(&"SELECT"));
    }

    #[test]
    fn every_example_of_a_clause_compiles() {
        let path = Path(vec![Step::Name("text".into())]);
        for clause in CLAUSES {
            let form = clause.form;
            let text = match clause.name {
                "SELECT *" => form.to_owned(),
                name if name.starts_with("SELECT") || ["DISTINCT", "TOP"].contains(&name) => {
                    format!("{form} FROM c")
                }
                "FROM" => format!("SELECT * {form}"),
                "IN" if form.starts_with("FROM") => format!("SELECT VALUE x {form}"),
                "JOIN" => format!("SELECT VALUE x FROM c {form}"),
                "GROUP BY" => format!("SELECT c.a FROM c {form}"),
                "WHERE" | "ORDER BY" | "ORDER BY RANK" | "OFFSET LIMIT" => {
                    format!("SELECT * FROM c {form}")
                }
                _ => format!("SELECT VALUE {form} FROM c"),
            };
            let environment = Environment {
                user_functions: ["name".to_owned()].into(),
                full_text_paths: vec![(path.clone(), "en-US".into())],
                ..Environment::default()
            };
            let compiled = Query::compile(&text, &[], &environment);
            assert!(compiled.is_ok(), "{text}: {:?}", compiled.err());
        }
    }
}
