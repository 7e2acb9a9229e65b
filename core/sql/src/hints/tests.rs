//! Each mistake of a table gets the hint beside it, and no hint ever makes compiling fail.

use super::of_unknown_user_function;
use crate::{Environment, Query, QueryError};
use orrery_model::Json;

/// Returns the text that a client reads for a query that does not compile.
fn told(text: &str, parameters: &[(String, Json)]) -> String {
    let environment = Environment {
        user_functions: ["tax".to_owned()].into(),
        ..Environment::default()
    };
    match Query::compile(text, parameters, &environment) {
        Ok(_) => String::new(),
        Err(error) => error.to_json().to_text(),
    }
}

/// Queries with a mistake, and a part of the remedy of each.
const MISTAKES: &[(&str, &str)] = &[
    (
        "SELECT c.order FROM c",
        r#"write c[\"order\"] instead of c.order"#,
    ),
    (
        "SELECT 1 AS From",
        "FROM is a reserved word and cannot be a name",
    ),
    (
        "SELECT c.\"my name\" FROM c",
        r#"stands in brackets: c[\"my name\"]"#,
    ),
    ("SELECT * FROM c WHERE c.n == 1", "write = and not =="),
    ("SELECT * FROM c WHERE c.n = 1 && c.m = 2", "AND and not &&"),
    ("SELECT COUNT(*) FROM c", "COUNT(1)"),
    ("SELECT c.* FROM c", "SELECT * FROM c"),
    ("SELECT VALUE * FROM c", "SELECT VALUE c FROM c"),
    ("SELECT *, c.id FROM c", "SELECT * stands alone"),
    ("SELECT * FROM c, d", "JOIN t IN c.tags"),
    (
        "SELECT * FROM c JOIN d ON d.x = c.x",
        "Containers cannot be joined",
    ),
    ("SELECT * FROM c WHERE c.n IS NULL", "IS_NULL(c.x)"),
    (
        "SELECT c.n FROM c GROUP BY c.n HAVING COUNT(1) > 1",
        "WHERE g.n > 1",
    ),
    ("SELECT * FROM c LIMIT 10", "OFFSET 0 LIMIT 10"),
    ("SELECT * FROM c OFFSET 10", "OFFSET 0 LIMIT 10"),
    ("UPDATE c SET c.n = 1", "Queries only read"),
    ("DELETE FROM c", "Queries only read"),
    ("SELCT * FROM c", "Did you mean SELECT instead of SELCT?"),
    ("SELECT * FORM c", "Did you mean FROM instead of FORM?"),
    (
        "SELECT * FROM c WEHRE c.n = 1",
        "Did you mean WHERE instead of WEHRE?",
    ),
    ("SELECT * FROM c WHERE c.n IN [1, 2]", "IN (1, 2, 3)"),
    ("SELECT * FROM c WHERE", "Something must follow 'WHERE'."),
    (
        "SELECT * FROM c WHERE AND c.n = 1",
        "AND stands between two conditions, and there is none before it.",
    ),
    (
        "SELECT * FROM c WHERE c.n = 1 AND OR c.m = 2",
        "OR stands between two conditions, and there is none before it.",
    ),
    (
        "SELECT * FROM c WHERE c.n = AND 1",
        "A value must follow '='.",
    ),
    ("", "The query is empty"),
    (
        "SELECT * FROM c WHERE c.n BETWEEN 1 AND 2 AND c.m = 3",
        "Put BETWEEN",
    ),
    (
        "SELECT c.id FROM c JOIN t IN c.tags ORDER BY t.n",
        "sort the rows in the application",
    ),
    ("SELECT * FROM c WHERE c.n = 'a", "is not closed"),
    ("SELECT * FROM c;", "leave it out"),
    ("SELECT * FROM c WHERE !c.n", "Write NOT"),
    ("SELECT * FROM c WHERE c.n = ‘a’", "straight quotes"),
    (
        "SELECT name FROM c",
        "write c.name for a property, or 'name' in quotes",
    ),
    (
        "SELECT C.id FROM c",
        "Upper and lower case count: write 'c'.",
    ),
    ("SELECT products.id FROM products p", "The query knows 'p'"),
    (
        "SELECT c.price AS p FROM c ORDER BY p",
        "repeat its expression here",
    ),
    ("SELECT VALUE x", "The query has no FROM"),
    (
        "SELECT * FROM c WHERE c.n = @limt",
        "Did you mean '@limit'?",
    ),
    ("SELECT LENGHT(c.name) FROM c", "Did you mean LENGTH?"),
    ("SELECT TAX(c.price) FROM c", "call it as udf.tax(…)"),
    ("SELECT SUBSTRING(c.name) FROM c", "Form: SUBSTRING("),
    ("SELECT c.id, COUNT(1) FROM c", "Add c.id to GROUP BY"),
    (
        "SELECT * FROM c ORDER BY LOWER(c.name)",
        "computed property",
    ),
    ("SELECT *", "SELECT * FROM c."),
];

#[test]
fn a_mistake_is_answered_with_its_remedy() {
    for (query, remedy) in MISTAKES {
        let text = told(query, &[("@limit".to_owned(), Json::from(3))]);
        assert!(text.contains(remedy), "{query}: {text}");
    }
}

#[test]
fn the_words_of_the_service_come_first() {
    let text = told("SELECT c.order FROM c", &[]);
    assert!(
        text.contains("incorrect syntax near 'order'. ORDER is a reserved"),
        "{text}"
    );
}

#[test]
fn the_remedy_for_having_is_a_query_that_compiles() {
    let query = "SELECT * FROM (SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a) AS g WHERE g.n > 1";
    assert_eq!(told(query, &[]), "");
}

#[test]
fn the_hint_for_an_unknown_user_function_names_those_that_there_are() {
    let mut environment = Environment::default();
    let hint = of_unknown_user_function("Tax", &environment);
    assert_eq!(
        hint,
        "The container has no user-defined functions: create it first."
    );
    environment.user_functions = ["tax".to_owned()].into();
    let hint = of_unknown_user_function("Tax", &environment);
    assert_eq!(hint, "Did you mean udf.tax? Upper and lower case count.");
    let hint = of_unknown_user_function("discount", &environment);
    assert_eq!(hint, "The container has 'tax'.");
}

#[test]
fn hints_are_short_for_long_names() {
    let long = "x".repeat(100_000);
    let error = Query::compile(
        &format!("SELECT {long} FROM c"),
        &[],
        &Environment::default(),
    );
    let Err(QueryError::Compile(diagnostics)) = error else {
        panic!("it compiles");
    };
    let hint = diagnostics[0].hint.as_deref().expect("a hint");
    assert!(hint.chars().count() < 300, "{hint}");
}
