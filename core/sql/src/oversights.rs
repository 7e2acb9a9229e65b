//! Hints for queries that compile and probably ask for something else than their author means.
//!
//! One mistake is known: `IN (@list)` with an array as the parameter. The operator compares with
//! the whole array, so the filter finds nothing, and no error says so.
//!
//! Promises: a hint changes no result, and names the expression and what to write instead.
//!
//! Leaves out: the rules of the service's query advisor, which are in `advice.rs`.

use crate::syntax::ast::{Collection, Expr, Kind, Projection, Query};
use crate::syntax::{parse, print};
use orrery_model::json::Json;
use orrery_model::words::shortened;

/// The most hints for a query.
const HINTS_MAX: usize = 4;

/// Returns the hints for a query; none for a text that cannot be parsed.
pub fn oversights(text: &str, parameters: &[(String, Json)]) -> Vec<String> {
    let mut reader = Reader {
        parameters,
        hints: Vec::new(),
    };
    if let Ok(query) = parse(text) {
        reader.read_query(&query);
    }
    reader.hints.truncate(HINTS_MAX);
    reader.hints
}

struct Reader<'a> {
    parameters: &'a [(String, Json)],
    hints: Vec<String>,
}

impl Reader<'_> {
    fn read_query(&mut self, query: &Query) {
        for source in &query.from {
            if let Collection::Subquery(inner) = &source.collection {
                self.read_query(inner);
            }
        }
        match &query.projection {
            Projection::All(_) => {}
            Projection::Value(expr) => self.read_expression(expr),
            Projection::List(items) => {
                for item in items {
                    self.read_expression(&item.expr);
                }
            }
        }
        if let Some(filter) = &query.filter {
            self.read_expression(filter);
        }
    }

    fn read_expression(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Subquery(_, query) => self.read_query(query),
            Kind::In {
                value,
                list,
                negated,
            } => {
                for element in list {
                    if self.is_array(element) {
                        self.add_hint_for_in(value, element, *negated);
                    }
                }
            }
            _ => {}
        }
        expr.for_each_operand(&mut |part| self.read_expression(part));
    }

    /// Adds the hint for an IN whose list has an array as an element.
    fn add_hint_for_in(&mut self, value: &Expr, element: &Expr, negated: bool) {
        let value = print::expression(value);
        let element = print::expression(element);
        let (value, element) = (shortened(&value), shortened(&element));
        let not = if negated { "NOT " } else { "" };
        let hint = format!(
            "{value} {not}IN ({element}) compares with the whole array {element}: write \
             {not}ARRAY_CONTAINS({element}, {value}) to look for {value} among its elements."
        );
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
    }

    /// Returns true if an expression is an array constructor or a parameter with an array.
    fn is_array(&self, expr: &Expr) -> bool {
        match &expr.kind {
            Kind::Array(_) => true,
            Kind::Parameter(name) => {
                let bare = name.trim_start_matches('@');
                let named = self.parameters.iter().find(|(n, _)| n == name || n == bare);
                named.is_some_and(|(_, value)| value.as_array().is_some())
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse as json;

    /// Returns the hints for a query with the parameters `@list`, an array, and `@one`, a text.
    fn hints(text: &str) -> Vec<String> {
        let list = json(br#"["a","b"]"#).expect("JSON");
        let parameters = [
            ("@list".to_owned(), list),
            ("@one".to_owned(), Json::from("a")),
        ];
        oversights(text, &parameters)
    }

    #[test]
    fn a_list_with_an_array_is_answered_with_array_contains() {
        assert_eq!(
            hints("SELECT * FROM c WHERE c.pk IN (@list)"),
            [
                "c.pk IN (@list) compares with the whole array @list: write \
              ARRAY_CONTAINS(@list, c.pk) to look for c.pk among its elements."
            ]
        );
        assert_eq!(
            hints("SELECT * FROM c WHERE c.pk NOT IN (@list)"),
            [
                "c.pk NOT IN (@list) compares with the whole array @list: write \
              NOT ARRAY_CONTAINS(@list, c.pk) to look for c.pk among its elements."
            ]
        );
        for text in [
            "SELECT * FROM c WHERE c.n = 1 AND NOT (c.pk IN (@one, @list))",
            "SELECT VALUE c.pk IN (['a', 'b']) FROM c",
            "SELECT * FROM (SELECT * FROM c WHERE c.pk IN (@list)) AS s",
            "SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t IN (@list))",
        ] {
            assert_eq!(hints(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn other_lists_have_no_hint() {
        for text in [
            "SELECT * FROM c WHERE c.pk IN (@one, 'b')",
            "SELECT * FROM c WHERE ARRAY_CONTAINS(@list, c.pk)",
            "SELECT * FROM c WHERE c.tags = @list",
            "SELECT * FROM c WHERE c.pk IN (@unknown)",
            "SELECT * FROM c WHERE",
        ] {
            assert_eq!(hints(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn hints_are_few_and_short() {
        let long = "x".repeat(1_000);
        let parts: Vec<String> = (0..50).map(|n| format!("c.{long}{n} IN (@list)")).collect();
        let found = hints(&format!("SELECT * FROM c WHERE {}", parts.join(" OR ")));
        assert!(found.len() <= HINTS_MAX, "{}", found.len());
        assert!(
            found.iter().all(|hint| hint.chars().count() < 600),
            "{found:?}"
        );
    }
}
