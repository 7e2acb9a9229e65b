//! Hints: how to mend a query that does not compile, for mistakes that beginners make.
//!
//! The service's message stays as it is, because tools look for its words; a hint is a further
//! sentence behind it. Hints are found from the tokens around the place of an error, after the
//! compiler has given up, so a query without errors pays nothing for them.
//! Left out: hints that need the items of the container, such as misspelt properties, which are no
//! errors in the language.

use crate::error::{Diagnostic, QueryError};
use crate::functions::{TABLES, signatures};
use crate::seams::Environment;
use crate::syntax::{Token, TokenKind, tokens};
use orrery_model::json::Json;
use orrery_model::words::{did_you_mean, nearest, shortened};

/// The words that begin a clause, which a name may be a misspelt form of.
const CLAUSE_WORDS: &[&str] = &[
    "SELECT", "FROM", "WHERE", "ORDER", "GROUP", "JOIN", "OFFSET", "LIMIT", "BETWEEN", "DISTINCT",
    "VALUE", "EXISTS", "LIKE",
];

/// The number of errors of a query that get hints.
const HINTS_MAX: usize = 8;

/// Adds hints to the errors of a query.
pub(crate) fn explained(
    error: QueryError,
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
) -> QueryError {
    let QueryError::Compile(mut diagnostics) = error else {
        return error;
    };
    // A text that the lexer refuses has no tokens, but the errors of the lexer have hints.
    let found = tokens(text);
    let context = Context {
        text,
        is_unclosed: found.is_err(),
        tokens: found.unwrap_or_default(),
        parameters,
        environment,
    };
    for diagnostic in diagnostics.iter_mut().take(HINTS_MAX) {
        diagnostic.hint = context.hint(diagnostic);
    }
    QueryError::Compile(diagnostics)
}

/// Returns how to mend a query that is refused as a whole, by the service's sentence about it.
pub(crate) fn help_of_sentence(sentence: &str) -> Option<&'static str> {
    const HELP: &[(&str, &str)] = &[
        (
            "ORDER BY item expression could not be mapped",
            "Sort by a property, as in ORDER BY c.name. To sort by a computed value, define a \
             computed property on the container and sort by it.",
        ),
        (
            "'SELECT *' is not valid if FROM clause is omitted",
            "Write SELECT * FROM c.",
        ),
        (
            "Order-by over correlated collections",
            "Sort by a property of the item, as in ORDER BY c.name, and sort the rows in the \
             application by what the array holds.",
        ),
    ];
    let is_fitting = |(part, _): &&(&str, &str)| sentence.contains(part);
    HELP.iter().find(is_fitting).map(|(_, help)| *help)
}

/// A query that does not compile.
struct Context<'a> {
    text: &'a str,
    /// Empty if the lexer refused the text.
    tokens: Vec<Token>,
    is_unclosed: bool,
    parameters: &'a [(String, Json)],
    environment: &'a Environment,
}

impl Context<'_> {
    fn hint(&self, error: &Diagnostic) -> Option<String> {
        let (start, end) = (self.byte_at(error.start), self.byte_at(error.end));
        let word = self.text.get(start..end)?;
        let at = self.tokens.iter().position(|token| token.span.0 >= start);
        let at = at.unwrap_or_default();
        match error.code {
            "SC1001" => self.of_unexpected_token(at),
            "SC1002" => Some(self.of_early_end()),
            "SC1010" => of_invalid_token(word).map(str::to_owned),
            "SC1012" => of_invalid_text(word).map(str::to_owned),
            "SC2001" => Some(self.of_unknown_name(word, at)),
            "SC2005" => Some(self.of_unknown_function(word.split('(').next()?.trim())),
            "SC2050" => form_of(word.split('(').next()?.trim()),
            "SC2042" => Some("Name what each row has, as in SELECT c.id, t.name.".into()),
            "SC2101" => Some("Aggregates stand in the SELECT list: SELECT COUNT(1) FROM c.".into()),
            "SC2201" => Some(
                "A subquery in parentheses gives one value: write ARRAY(SELECT …) for a list, or \
                 EXISTS(SELECT …) for a condition."
                    .into(),
            ),
            "SC2102" => Some(format!(
                "Add {word} to GROUP BY, or take it into an aggregate such as MAX({word})."
            )),
            _ => None,
        }
    }

    /// Returns the place in bytes of a place in characters.
    fn byte_at(&self, characters: usize) -> usize {
        let mut places = self.text.char_indices();
        places.nth(characters).map_or(self.text.len(), |(at, _)| at)
    }

    fn token_text(&self, at: usize) -> &str {
        let span = self.tokens.get(at).map_or((0, 0), |token| token.span);
        self.text.get(span.0..span.1).unwrap_or_default()
    }

    /// Returns true if the token `back` places before `at` has this text, in any case.
    fn is_before(&self, at: usize, back: usize, text: &str) -> bool {
        at.checked_sub(back)
            .is_some_and(|at| self.token_text(at).eq_ignore_ascii_case(text))
    }

    /// Returns the hint for a token that the grammar does not allow.
    fn of_unexpected_token(&self, at: usize) -> Option<String> {
        // Names that need brackets or another name, and operators of other languages.
        let word = self.token_text(at);
        let upper = word.to_ascii_uppercase();
        match &self.tokens.get(at)?.kind {
            TokenKind::Keyword(_) if self.is_before(at, 1, ".") => {
                let owner = self.token_text(at.saturating_sub(2));
                return Some(format!(
                    "{upper} is a reserved word: write {owner}[\"{word}\"] instead of \
                     {owner}.{word}."
                ));
            }
            TokenKind::Keyword(_) if self.is_before(at, 1, "AS") => {
                return Some(format!(
                    "{upper} is a reserved word and cannot be a name: choose another one."
                ));
            }
            TokenKind::String(_) if self.is_before(at, 1, ".") => {
                let owner = self.token_text(at.saturating_sub(2));
                return Some(format!(
                    "A name in quotes stands in brackets: {owner}[{}].",
                    shortened(word)
                ));
            }
            TokenKind::Symbol(symbol) => return self.of_unexpected_symbol(symbol, at),
            _ => {}
        }
        if matches!(upper.as_str(), "AND" | "OR") && self.lacks_condition_before(at) {
            return Some(format!(
                "{upper} stands between two conditions, and there is none before it."
            ));
        }
        let follows_operator = at.checked_sub(1).is_some_and(|before| {
            let ends_value = matches!(self.token_text(before), ")" | "]" | "}");
            matches!(self.tokens[before].kind, TokenKind::Symbol(_)) && !ends_value
        });
        if matches!(upper.as_str(), "AND" | "OR") && follows_operator {
            let operator = self.token_text(at - 1);
            return Some(format!("A value must follow '{operator}'."));
        }
        // Clauses of other languages.
        if let Some(help) = of_clause(&upper) {
            return Some(help.to_owned());
        }
        // A misspelt word of the language is read as a name, and the error is there or behind it.
        let is_name =
            |at: usize| self.tokens.get(at).map(|t| &t.kind) == Some(&TokenKind::Identifier);
        let suspects = [Some(at), at.checked_sub(1)];
        for suspect in suspects.into_iter().flatten().filter(|at| is_name(*at)) {
            let name = self.token_text(suspect);
            if let Some(keyword) = nearest(name, CLAUSE_WORDS.iter().copied()) {
                return Some(format!("Did you mean {keyword} instead of {name}?"));
            }
        }
        None
    }

    /// Returns true if the token before `at` begins a condition, so that no condition can have
    /// ended there.
    fn lacks_condition_before(&self, at: usize) -> bool {
        let openers = [
            "WHERE", "AND", "OR", "NOT", "(", "?", ":", "SELECT", "VALUE", ",",
        ];
        openers.iter().any(|opener| self.is_before(at, 1, opener))
    }

    /// Returns the hint for an operator or punctuation mark that the grammar does not allow.
    fn of_unexpected_symbol(&self, symbol: &str, at: usize) -> Option<String> {
        let help = match symbol {
            "=" if self.is_before(at, 1, "=") => "A comparison has one '=': write = and not ==.",
            "&" if self.is_before(at, 1, "&") => "Conditions are joined with AND and not &&.",
            "*" if self.is_before(at, 1, "(") && self.is_before(at, 2, "COUNT") => {
                "Rows are counted with COUNT(1)."
            }
            "*" if self.is_before(at, 1, ".") => {
                "Whole items are read with SELECT * FROM c, or SELECT VALUE c FROM c."
            }
            "*" if self.is_before(at, 1, "VALUE") => {
                "Whole items are read with SELECT * FROM c, or SELECT VALUE c FROM c."
            }
            "," if self.is_before(at, 1, "*") => {
                "SELECT * stands alone: name the properties, or write SELECT c, … for the whole \
                 item beside others."
            }
            "," if self.is_before(at, 2, "FROM") => {
                "A query reads one container: join an item with its own arrays by JOIN t IN c.tags."
            }
            "[" if self.is_before(at, 1, "IN") => "A list of values has parentheses: IN (1, 2, 3).",
            "-" | "(" if self.is_before(at, 1, "TOP") => {
                "TOP takes a whole number or a parameter: TOP 10."
            }
            _ => return None,
        };
        Some(help.to_owned())
    }

    /// Returns the hint for a query that ends too early.
    fn of_early_end(&self) -> String {
        if self.is_unclosed {
            return "A text or a comment is not closed: add the missing quote or */.".to_owned();
        }
        let last = self.tokens.len().saturating_sub(2);
        if self.is_before(last + 1, 2, "OFFSET") {
            return "OFFSET needs a LIMIT: OFFSET 0 LIMIT 10.".to_owned();
        }
        let word = shortened(self.token_text(last));
        if word.is_empty() {
            return "The query is empty: SELECT * FROM c returns all items.".to_owned();
        }
        format!("Something must follow '{word}'.")
    }

    /// Returns the hint for a name that no source of the query has.
    fn of_unknown_name(&self, word: &str, at: usize) -> String {
        // A parameter that is not in the list of the request.
        if word.starts_with('@') {
            let names: Vec<&str> = self.parameters.iter().map(|(name, _)| &name[..]).collect();
            let guess = did_you_mean(word, names.iter().copied());
            let given = match &names[..] {
                [] => "The request has no parameters.".to_owned(),
                _ => format!("The parameters of the request are {}.", listed(&names)),
            };
            let word = shortened(word);
            return format!("{given}{guess} Add {word} with its value to the parameters.");
        }
        let aliases = self.aliases();
        let name = word.split(['.', '[']).next().unwrap_or(word);
        // Names are compared with upper and lower case.
        if let Some(alias) = aliases
            .iter()
            .find(|alias| alias.eq_ignore_ascii_case(name))
        {
            return format!("Upper and lower case count: write '{alias}'.");
        }
        // ORDER BY and WHERE see the items and not what SELECT makes of them.
        let is_projected = (1..at).any(|at| {
            self.is_before(at, 1, "AS") && self.token_text(at).eq_ignore_ascii_case(name)
        });
        if is_projected {
            let name = shortened(name);
            return format!("'{name}' is a name of the SELECT list: repeat its expression here.");
        }
        let Some(alias) = aliases.first() else {
            return "The query has no FROM: write … FROM c, and c.name for a property.".to_owned();
        };
        let known = listed(&aliases);
        let name = shortened(name);
        format!(
            "The query knows {known}: write {alias}.{name} for a property, or '{name}' in quotes \
             for a text."
        )
    }

    /// Returns the names that FROM and JOIN give, in their order.
    fn aliases(&self) -> Vec<&str> {
        let is_name = |at: usize| {
            self.tokens.get(at).map(|token| &token.kind) == Some(&TokenKind::Identifier)
        };
        let mut names = Vec::new();
        for at in 1..self.tokens.len() {
            let begins = self.is_before(at, 1, "FROM") || self.is_before(at, 1, "JOIN");
            if !begins || !is_name(at) {
                continue;
            }
            // `FROM source AS name`, `FROM source name`, `FROM name`, `JOIN name IN …`
            let named_as = self.token_text(at + 1).eq_ignore_ascii_case("AS");
            let name = match (named_as, is_name(at + 1)) {
                (true, _) => self.token_text(at + 2),
                (false, true) => self.token_text(at + 1),
                (false, false) => self.token_text(at),
            };
            if !names.contains(&name) && names.len() < HINTS_MAX {
                names.push(name);
            }
        }
        names
    }

    fn of_unknown_function(&self, name: &str) -> String {
        let user_functions = self.environment.user_functions.iter().map(String::as_str);
        if let Some(own) = user_functions
            .clone()
            .find(|own| own.eq_ignore_ascii_case(name))
        {
            return format!("'{own}' is a user-defined function: call it as udf.{own}(…).");
        }
        if name.eq_ignore_ascii_case("RRF") {
            return "RRF merges scores of other functions, and no other RRF: name all of them in \
                    one."
                .to_owned();
        }
        let all = TABLES.iter().flat_map(|table| table.iter());
        match nearest(
            name,
            all.flat_map(|function| function.names.iter().copied()),
        ) {
            Some(known) => format!("Did you mean {known}?"),
            None => format!(
                "A user-defined function of the container is called as udf.{}(…).",
                shortened(name)
            ),
        }
    }
}

/// Returns the hint for the name of a user-defined function that the container does not have. The
/// query compiles, because the call is an error only for a row.
pub(crate) fn of_unknown_user_function(name: &str, environment: &Environment) -> String {
    let mut known: Vec<&str> = Vec::new();
    known.extend(environment.user_functions.iter().map(String::as_str));
    known.sort_unstable();
    match (nearest(name, known.iter().copied()), &known[..]) {
        (Some(near), _) => format!("Did you mean udf.{near}? Upper and lower case count."),
        (None, []) => "The container has no user-defined functions: create it first.".into(),
        (None, _) => format!("The container has {}.", listed(&known)),
    }
}

/// Returns the hint for a word of other query languages.
fn of_clause(upper: &str) -> Option<&'static str> {
    Some(match upper {
        "UPDATE" | "INSERT" | "DELETE" | "MERGE" | "CREATE" | "DROP" => {
            "Queries only read. Items are written with the client's create, upsert, replace, patch \
             and delete."
        }
        "IS" => "Write IS_NULL(c.x) or c.x = null; IS_DEFINED(c.x) tests if a property is there.",
        "HAVING" => {
            "Filter groups by a query around the query: SELECT * FROM (SELECT c.a, COUNT(1) AS n \
             FROM c GROUP BY c.a) AS g WHERE g.n > 1."
        }
        "LIMIT" => "LIMIT follows OFFSET, as in OFFSET 0 LIMIT 10; or write SELECT TOP 10.",
        "CASE" => {
            "Write a condition as c.n = 1 ? 'one' : 'other', or IIF(c.n = 1, 'one', 'other')."
        }
        "ON" | "LEFT" | "RIGHT" | "INNER" | "OUTER" | "CROSS" => {
            "A JOIN is between an item and its own arrays: JOIN t IN c.tags. Containers cannot be \
             joined."
        }
        "BETWEEN" | "AND" => "Put BETWEEN … AND … in parentheses beside other conditions.",
        "UNION" | "INTERSECT" | "EXCEPT" => "Run one query for each part and join the results.",
        _ => return None,
    })
}

/// Returns the remedy for a text in quotes that the lexer refused: it has no end, or an escape
/// sequence that does not exist.
fn of_invalid_text(word: &str) -> Option<&'static str> {
    let quote = word.chars().next()?;
    let inner = word.get(1..)?.strip_suffix(quote);
    let is_closed = inner.is_some_and(|inner| !inner.ends_with('\\'));
    match is_closed {
        true => None,
        false => Some("A text is not closed: add the missing quote."),
    }
}

/// Returns the hint for a character that begins no token.
fn of_invalid_token(token: &str) -> Option<&'static str> {
    Some(match token.chars().next()? {
        ';' => "A query has no semicolon: leave it out.",
        '!' => "Write NOT before a condition, or != between two values.",
        '`' => "Names with other characters stand in brackets: c[\"my name\"].",
        '‘' | '’' | '“' | '”' | '„' => "Texts have straight quotes: 'text'.",
        '#' | '$' => "Names with other characters stand in brackets: c[\"#name\"].",
        '"' | '\'' => "A backslash in a text is written \\\\.",
        _ => return None,
    })
}

/// Returns the form of a function, as in `Form: LEFT(text, length).`
fn form_of(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    let arguments = signatures::of(&upper)?;
    Some(format!(
        "Form: {upper}({}).",
        arguments.collect::<Vec<_>>().join(", ")
    ))
}

/// Returns names as `'a', 'b'`, at most eight of them.
fn listed(names: &[&str]) -> String {
    let mut quoted = Vec::new();
    for name in names.iter().take(HINTS_MAX) {
        quoted.push(format!("'{}'", shortened(name)));
    }
    if names.len() > HINTS_MAX {
        quoted.push("…".to_owned());
    }
    quoted.join(", ")
}

#[cfg(test)]
#[path = "hints/tests.rs"]
mod tests;
