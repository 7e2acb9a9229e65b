//! Tests that the golden scripts have a case for every part of the language: each function under
//! each of its names, each keyword and symbol, each clause and form of an expression, each error.
//!
//! The lists come from the tables of the code, or from matches that do not compile if a variant is
//! added. A new entry of a table makes a test fail until a script has a case for it.

use super::ast::{
    BINARY_OPERATORS, Collection, Count, CountValue, Expr, Kind, OffsetLimit, PathStep, Projection,
    Query, Source, SubqueryKind,
};
use super::lexer::{RESERVED, SYMBOLS, TokenKind, tokens};
use super::parser::parse;
use super::script::{Case, cases};
use crate::error::QueryError;
use crate::functions::{Function, Implementation, TABLES};
use std::collections::BTreeSet;
use std::path::Path;

/// Reserved words that the grammar does not use: a query with such a word does not compile.
const UNUSED_KEYWORDS: &[&str] = &[
    "CASE", "CAST", "CONVERT", "CROSS", "ELSE", "END", "FOR", "HAVING", "INNER", "INSERT", "INTO",
    "IS", "ON", "OUTER", "OVER", "SET", "THEN", "UPDATE", "WHEN", "WITH",
];

/// Words that are keywords in one context of the grammar and identifiers elsewhere.
const CONTEXTUAL_KEYWORDS: &[&str] = &["ALL", "FIRST", "LAST", "LET", "RANK"];

#[test]
fn every_function_has_a_case_under_each_of_its_names() {
    let cases = cases();
    let mut called = BTreeSet::new();
    let mut answered = BTreeSet::new();
    for case in &cases {
        for name in calls(&case.text) {
            if !case.is_error() {
                answered.insert(name.clone());
            }
            called.insert(name);
        }
    }
    let mut missing: Vec<&str> = Vec::new();
    for function in TABLES.iter().flat_map(|table| table.iter()) {
        let served = if is_served(function) {
            &answered
        } else {
            &called
        };
        missing.extend(
            function
                .names
                .iter()
                .filter(|name| !served.contains(**name)),
        );
    }
    assert!(
        missing.is_empty(),
        "functions without a golden case: {missing:?}"
    );
}

#[test]
fn every_function_has_a_case_that_is_undefined() {
    // These functions are never undefined, or are not evaluated.
    let always_defined = [
        "RAND",
        "PI",
        "RRF",
        "FULLTEXTSCORE",
        "HASH",
        "VECTORDISTANCE",
    ];
    let undefined: BTreeSet<String> = cases()
        .iter()
        .filter(|case| case.answer.iter().any(|line| line == "undefined"))
        .flat_map(|case| calls(&case.text))
        .collect();
    let mut missing: Vec<&str> = Vec::new();
    for function in TABLES.iter().flat_map(|table| table.iter()) {
        let strict = matches!(
            function.run,
            Implementation::Strict(_) | Implementation::Metered(_)
        );
        let name = function.names[0];
        let takes_arguments = function.arity.1 > 0;
        if strict && takes_arguments && !always_defined.contains(&name) && !undefined.contains(name)
        {
            missing.push(name);
        }
    }
    assert!(
        missing.is_empty(),
        "no case shows when these are undefined: {missing:?}"
    );
}

#[test]
fn every_keyword_and_symbol_has_a_case() {
    let cases = cases();
    let mut written = BTreeSet::new();
    let mut accepted = BTreeSet::new();
    for case in &cases {
        let is_accepted = parse(&case.text).is_ok();
        for token in tokens(&case.text).unwrap_or_default() {
            let (TokenKind::Keyword(word) | TokenKind::Symbol(word)) = token.kind else {
                continue;
            };
            if is_accepted {
                accepted.insert(word);
            }
            written.insert(word);
        }
    }
    let mut missing = Vec::new();
    for word in RESERVED.iter().chain(SYMBOLS) {
        let is_used = !UNUSED_KEYWORDS.contains(word);
        let found = if is_used { &accepted } else { &written };
        if !found.contains(word) {
            missing.push(*word);
        }
        assert!(
            is_used || !accepted.contains(word),
            "{word} is used: remove it from the list"
        );
    }
    assert!(
        missing.is_empty(),
        "keywords and symbols without a golden case: {missing:?}"
    );
}

#[test]
fn every_clause_and_form_of_an_expression_has_a_case_with_an_answer() {
    let mut seen = Seen::default();
    for case in cases().iter().filter(|case| !case.is_error()) {
        let tree = parse(&case.text).unwrap_or_else(|error| panic!("{}: {error}", case.text));
        seen.query(&tree);
        if case.is_client_plan {
            seen.0.insert("client plan".to_owned());
        }
    }
    let mut wanted: Vec<String> = FORMS.iter().map(|form| (*form).to_owned()).collect();
    wanted.extend(
        BINARY_OPERATORS
            .iter()
            .map(|(text, op, _)| format!("{text} {op:?}")),
    );
    wanted.extend(CONTEXTUAL_KEYWORDS.iter().map(|word| (*word).to_owned()));
    let operators: BTreeSet<String> = BINARY_OPERATORS
        .iter()
        .map(|(_, op, _)| format!("{op:?}"))
        .collect();
    wanted.retain(|form| match form.split_once(' ') {
        // Two symbols may be one operator; symbols have a test of their own.
        Some((_, op)) if operators.contains(op) => !seen.0.contains(op),
        _ => !seen.0.contains(form),
    });
    assert!(wanted.is_empty(), "forms without a golden case: {wanted:?}");
}

#[test]
fn every_error_has_a_case() {
    let mut reported = BTreeSet::new();
    for line in cases().iter().flat_map(|case| &case.answer) {
        for error in line
            .split(" ; ")
            .filter_map(|part| part.strip_prefix("error "))
        {
            let name = error.split([' ', ':']).next().unwrap_or_default();
            reported.insert(name.to_owned());
        }
    }
    let mut wanted = codes_of_the_source();
    assert!(wanted.len() > 20, "the codes of the source: {wanted:?}");
    wanted.extend(VARIANTS.iter().map(|name| (*name).to_owned()));
    let missing: Vec<&String> = wanted.difference(&reported).collect();
    assert!(
        missing.is_empty(),
        "errors without a golden case: {missing:?}"
    );
}

#[test]
fn there_are_many_cases() {
    let cases = cases();
    let errors = cases.iter().filter(|case| case.is_error()).count();
    assert!(cases.len() > 2_500, "{} cases", cases.len());
    assert!(errors > 150, "{errors} cases of errors");
}

/// Returns true for a function that this implementation evaluates.
fn is_served(function: &Function) -> bool {
    !matches!(function.run, Implementation::Refused(_))
}

/// Returns the names of the built-in functions that a text calls, in capitals.
fn calls(text: &str) -> Vec<String> {
    let tokens = tokens(text).unwrap_or_default();
    let mut called = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let after_a_dot = at > 0 && tokens[at - 1].kind == TokenKind::Symbol(".");
        if pair[1].kind != TokenKind::Symbol("(") || after_a_dot {
            continue;
        }
        if matches!(
            pair[0].kind,
            TokenKind::Identifier | TokenKind::Keyword("LEFT" | "RIGHT")
        ) {
            let (start, end) = pair[0].span;
            called.push(text[start..end].to_ascii_uppercase());
        }
    }
    called
}

/// The variants of [`QueryError`] other than `Compile`, which has codes instead.
const VARIANTS: &[&str] = &[
    "Plan",
    "MissingFeatures",
    "OrderBy",
    "Unsupported",
    "NonFinite",
    "Udf",
    "Resume",
    "Memory",
    "MemoryTaken",
    "Timeout",
    "Source",
];

/// Does not compile if [`QueryError`] has a new variant; its name must then be added to the list
/// above.
#[allow(dead_code)]
fn is_in_the_list(error: &QueryError) -> bool {
    match error {
        QueryError::Compile(_)
        | QueryError::Plan(_)
        | QueryError::MissingFeatures(_)
        | QueryError::OrderBy(_)
        | QueryError::Unsupported(_)
        | QueryError::NonFinite
        | QueryError::Udf { .. }
        | QueryError::Resume(_)
        | QueryError::Memory(_)
        | QueryError::MemoryTaken
        | QueryError::Timeout
        | QueryError::Source(_) => true,
    }
}

/// Returns the codes of compile errors in the source of the crate, such as `"SC1001"`.
fn codes_of_the_source() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the source") {
            let path = entry.expect("a folder entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source file");
            for piece in source.split("\"SC").skip(1) {
                let digits: String = piece.chars().take_while(char::is_ascii_digit).collect();
                if digits.len() == 4 && piece[4..].starts_with('"') {
                    codes.insert(format!("SC{digits}"));
                }
            }
        }
    }
    codes
}

/// The clauses and forms that [`Seen`] distinguishes, binary operators excluded.
const FORMS: &[&str] = &[
    "SELECT *",
    "SELECT VALUE",
    "SELECT list",
    "alias",
    "DISTINCT",
    "TOP",
    "FROM path",
    "FROM subquery",
    "FROM IN",
    "FROM alias",
    "JOIN",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "ORDER BY ASC",
    "ORDER BY DESC",
    "OFFSET LIMIT",
    "count as a number",
    "count as a parameter",
    "undefined",
    "constant",
    "parameter",
    "identifier",
    "path",
    "step by a name",
    "step in brackets",
    "call",
    "user-defined function",
    "unary Minus",
    "unary Plus",
    "unary BitNot",
    "unary Not",
    "coalesce",
    "conditional",
    "BETWEEN",
    "NOT BETWEEN",
    "IN",
    "NOT IN",
    "LIKE",
    "NOT LIKE",
    "ESCAPE",
    "array",
    "object",
    "scalar subquery",
    "EXISTS",
    "ARRAY",
    "filter placeholder",
    "client plan",
];

/// The forms that occur in queries.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    fn form(&mut self, name: &str) {
        self.0.insert(name.to_owned());
    }

    fn query(&mut self, query: &Query) {
        // All members are named, so that a new clause does not compile until it is handled here.
        let Query {
            span: _,
            select_span: _,
            distinct,
            top,
            top_span: _,
            group_by_span: _,
            projection,
            from,
            filter,
            group_by,
            order_by,
            offset_limit,
        } = query;
        if *distinct {
            self.form("DISTINCT");
        }
        self.projection(projection);
        self.sources(from);
        if let Some(filter) = filter {
            self.form("WHERE");
            self.expression(filter);
        }
        for key in group_by {
            self.form("GROUP BY");
            self.expression(key);
        }
        if let Some(order) = order_by {
            self.form(if order.rank { "RANK" } else { "ORDER BY" });
            for key in &order.keys {
                match key.descending {
                    Some(true) => self.form("ORDER BY DESC"),
                    Some(false) => self.form("ORDER BY ASC"),
                    None => {}
                }
                self.expression(&key.expr);
            }
        }
        self.counts(top.as_ref(), offset_limit.as_ref());
    }

    fn projection(&mut self, projection: &Projection) {
        match projection {
            Projection::All(_) => self.form("SELECT *"),
            Projection::Value(value) => {
                self.form("SELECT VALUE");
                self.expression(value);
            }
            Projection::List(items) => {
                self.form("SELECT list");
                for item in items {
                    if item.alias.is_some() {
                        self.form("alias");
                    }
                    self.expression(&item.expr);
                }
            }
        }
    }

    fn sources(&mut self, from: &[Source]) {
        for (at, source) in from.iter().enumerate() {
            if at > 0 {
                self.form("JOIN");
            }
            match (source.iterate, source.alias.is_some()) {
                (true, _) => self.form("FROM IN"),
                (false, true) => self.form("FROM alias"),
                (false, false) => {}
            }
            match &source.collection {
                Collection::Path { steps, .. } => {
                    self.form("FROM path");
                    self.steps(steps);
                }
                Collection::Subquery(query) => {
                    self.form("FROM subquery");
                    self.query(query);
                }
            }
        }
    }

    fn counts(&mut self, top: Option<&Count>, offset_limit: Option<&OffsetLimit>) {
        let mut counts = Vec::new();
        if let Some(count) = top {
            self.form("TOP");
            counts.push(count);
        }
        if let Some(cut) = offset_limit {
            self.form("OFFSET LIMIT");
            counts.extend([&cut.offset, &cut.limit]);
        }
        for count in counts {
            self.form(match count.value {
                CountValue::Number(_) => "count as a number",
                CountValue::Parameter(_) => "count as a parameter",
            });
        }
    }

    fn steps(&mut self, steps: &[PathStep]) {
        for step in steps {
            match step {
                PathStep::Dot(_) => self.form("step by a name"),
                PathStep::Bracket(expr) => {
                    self.form("step in brackets");
                    self.expression(expr);
                }
            }
        }
    }

    fn expressions<'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr>) {
        for expression in expressions {
            self.expression(expression);
        }
    }

    fn expression(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Undefined => self.form("undefined"),
            Kind::Constant(_) => self.form("constant"),
            Kind::Parameter(_) => self.form("parameter"),
            Kind::Identifier(_) => self.form("identifier"),
            Kind::Path { base, steps } => {
                self.form("path");
                self.expression(base);
                self.steps(steps);
            }
            Kind::Call { udf, arguments, .. } => {
                self.form(if *udf {
                    "user-defined function"
                } else {
                    "call"
                });
                self.expressions(arguments);
            }
            Kind::Unary(op, operand) => {
                self.form(&format!("unary {op:?}"));
                self.expression(operand);
            }
            Kind::Chain { first, rest } => {
                self.expression(first);
                for (op, operand) in rest {
                    self.form(&format!("{op:?}"));
                    self.expression(operand);
                }
            }
            Kind::Coalesce(parts) => {
                self.form("coalesce");
                self.expressions(parts);
            }
            Kind::Conditional(parts) => {
                self.form("conditional");
                self.expressions(parts.iter());
            }
            Kind::Between { .. } | Kind::In { .. } | Kind::Like { .. } => self.predicate(expr),
            Kind::Array(elements) => {
                self.form("array");
                self.expressions(elements);
            }
            Kind::Object(members) => {
                self.form("object");
                self.expressions(members.iter().map(|member| &member.value));
            }
            Kind::Subquery(kind, query) => {
                self.subquery(*kind);
                self.query(query);
            }
            Kind::Let { value, body, .. } => {
                self.form("LET");
                self.expressions([&**value, &**body]);
            }
            Kind::FilterPlaceholder => self.form("filter placeholder"),
            // The parser does not make this kind.
            Kind::Verbatim(_) => {}
        }
    }

    /// Adds BETWEEN, IN and LIKE.
    fn predicate(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Between {
                value,
                bounds,
                negated,
            } => {
                self.form(if *negated { "NOT BETWEEN" } else { "BETWEEN" });
                self.expression(value);
                self.expressions(bounds.iter());
            }
            Kind::In {
                value,
                list,
                negated,
            } => {
                self.form(if *negated { "NOT IN" } else { "IN" });
                self.expression(value);
                self.expressions(list);
            }
            Kind::Like {
                value,
                pattern,
                escape,
                negated,
            } => {
                self.form(if *negated { "NOT LIKE" } else { "LIKE" });
                if escape.is_some() {
                    self.form("ESCAPE");
                }
                self.expressions([&**value, &**pattern]);
            }
            _ => {}
        }
    }

    fn subquery(&mut self, kind: SubqueryKind) {
        self.form(match kind {
            SubqueryKind::Scalar => "scalar subquery",
            SubqueryKind::Exists => "EXISTS",
            SubqueryKind::Array => "ARRAY",
            SubqueryKind::All => "ALL",
            SubqueryKind::First => "FIRST",
            SubqueryKind::Last => "LAST",
        });
    }
}

#[test]
fn a_case_knows_its_error() {
    let case = |answer: &str| Case {
        text: "SELECT 1".to_owned(),
        answer: vec![answer.to_owned()],
        is_client_plan: false,
    };
    assert!(case("error SC1001 0..1: Syntax error").is_error());
    assert!(!case(r#"{"$1":1}"#).is_error());
    assert_eq!(
        calls("SELECT abs (1), udf.twice(2), LEFT('x(', 1) FROM c"),
        ["ABS", "LEFT"]
    );
}

#[test]
fn every_compile_error_names_a_place_in_the_text() {
    let environment = crate::Environment::default();
    let mut errors = 0;
    for case in cases() {
        // Both the run of a query and its plan for a client report the error.
        let compiled = crate::Query::compile(&case.text, &[], &environment);
        let request = crate::PlanRequest {
            support: crate::MergeSupport::FirstClients,
            scope: crate::PlanScope::Container,
        };
        let plan = crate::client_plan(&case.text, &[], &environment, &request);
        for error in [compiled.err(), plan.err()].into_iter().flatten() {
            let QueryError::Compile(diagnostics) = error else {
                continue;
            };
            errors += 1;
            assert!(!diagnostics.is_empty(), "{}", case.text);
            let length = case.text.chars().count();
            for found in diagnostics {
                let is_place = found.start <= found.end && found.end <= length.max(1);
                assert!(is_place, "{}: {found:?} of {length}", case.text);
            }
        }
    }
    assert!(errors > 100, "{errors}");
}
