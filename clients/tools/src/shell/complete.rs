//! Completion: the words that can stand at the cursor.
//!
//! | place | words |
//! |---|---|
//! | first word | commands, `SELECT` |
//! | arguments of a command | databases and containers, forms, `on` and `off`, commands |
//! | behind a dot in a query | properties seen in results, for example those of `c.address.` |
//! | elsewhere in a query | keywords and functions |

use super::Vocabulary;
use super::command::{Action, COMMANDS, find};
use super::names::Known;
use super::split::is_query;
use crate::form::RowForm;

/// Returns where the word at the cursor begins, and the words that begin with it.
pub(super) fn complete(
    text: &str,
    cursor: usize,
    known: &Known,
    vocabulary: &Vocabulary,
) -> (usize, Vec<String>) {
    // Only the statement at the cursor counts.
    let before = text.get(..cursor).unwrap_or(text);
    let statement_begin = before.rfind(';').map_or(0, |at| at + 1);
    let statement = before[statement_begin..].trim_start();
    if is_query(statement) && statement.contains(char::is_whitespace) {
        return in_query(before, known, vocabulary);
    }
    let begin = before
        .rfind(char::is_whitespace)
        .map_or(statement_begin, |at| at + 1)
        .max(statement_begin);
    let word = &before[begin..];
    let candidates = match statement.split_once(char::is_whitespace) {
        None => first_words(word),
        Some((name, rest)) => {
            let name = name.trim_start_matches('.').to_ascii_lowercase();
            let arguments = rest.split_whitespace().count() - usize::from(!word.is_empty());
            match find(&name).map(|entry| entry.action) {
                Some(Action::Plan) => return in_query(before, known, vocabulary),
                Some(action) => of_action(action, arguments, rest, known),
                None => Vec::new(),
            }
        }
    };
    (begin, starting(candidates, word))
}

/// Returns the candidates that begin with a word, in any case.
fn starting(candidates: Vec<String>, word: &str) -> Vec<String> {
    let is_it = |candidate: &String| {
        let head = candidate.get(..word.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    candidates.into_iter().filter(is_it).collect()
}

fn first_words(word: &str) -> Vec<String> {
    let dot = if word.starts_with('.') { "." } else { "" };
    let names = COMMANDS
        .iter()
        .flat_map(|entry| std::iter::once(&entry.name).chain(entry.others));
    let mut found: Vec<String> = names.map(|name| format!("{dot}{name} ")).collect();
    if dot.is_empty() {
        found.push("SELECT ".to_owned());
    }
    found.sort_unstable();
    found
}

/// Returns the arguments that a command takes behind `before` others.
fn of_action(action: Action, before: usize, rest: &str, known: &Known) -> Vec<String> {
    let of_database = |name: &str, prefix: &str| -> Vec<String> {
        let containers = known.databases.get(name).into_iter().flatten();
        containers.map(|id| format!("{prefix}{id}")).collect()
    };
    let databases = || known.databases.keys().cloned().collect::<Vec<_>>();
    let own = || match &known.database {
        Some(database) => of_database(database, ""),
        None => Vec::new(),
    };
    // A container stands with its database where the session is at the account.
    match (action, before) {
        (Action::Help, 0) => COMMANDS.iter().map(|e| e.name.to_owned()).collect(),
        (Action::Containers | Action::DeleteDatabase, 0) => databases(),
        (Action::DeleteContainer, 0) => own(),
        (Action::Use, 0) => databases(),
        (Action::Go | Action::List, 0) => {
            let mut found = match known.database {
                Some(_) => Vec::new(),
                None => databases(),
            };
            for database in known.databases.keys() {
                found.extend(of_database(database, &format!("{database}/")));
            }
            found.extend(own());
            found
        }
        (Action::Use, 1) => of_database(rest.split_whitespace().next().unwrap_or_default(), ""),
        (Action::Form, 0) => RowForm::ALL.map(|(name, _)| name.to_owned()).to_vec(),
        (Action::Timing, 0) => vec!["on".to_owned(), "off".to_owned()],
        (Action::Import, 1) => ["create", "upsert", "skip-existing"]
            .map(str::to_owned)
            .to_vec(),
        _ => Vec::new(),
    }
}

fn in_query(before: &str, known: &Known, vocabulary: &Vocabulary) -> (usize, Vec<String>) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let begin = before
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_word(*c))
        .last()
        .map_or(before.len(), |(at, _)| at);
    let word = &before[begin..];

    // Behind a dot: the properties of the path, whose first name stands for the item.
    if let Some(owner) = before[..begin].strip_suffix('.') {
        let path_begin = owner
            .char_indices()
            .rev()
            .take_while(|(_, c)| is_word(*c) || *c == '.')
            .last()
            .map_or(owner.len(), |(at, _)| at);
        let prefix = match owner[path_begin..].split_once('.') {
            Some((_, path)) => format!("{path}."),
            None => String::new(),
        };
        let inner = known.properties.iter().filter_map(|path| {
            let name = path.strip_prefix(&prefix)?;
            (!name.contains('.')).then(|| name.to_owned())
        });
        return (begin, starting(inner.collect(), word));
    }

    // Words in the case in which the user began them; all of them would be too many.
    if word.is_empty() {
        return (begin, Vec::new());
    }
    let is_small = word.chars().all(|c| !c.is_ascii_uppercase());
    let keywords = vocabulary.keywords.iter().cloned();
    let functions = vocabulary.functions.iter().map(|name| format!("{name}("));
    let cased = |word: String| match is_small {
        true => word.to_ascii_lowercase(),
        false => word,
    };
    let words = keywords.chain(functions).map(cased).collect();
    (begin, starting(words, word))
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    fn completed(text: &str) -> (usize, Vec<String>) {
        let names = Names::default();
        names.set_containers("shop", &[json!({"id": "orders"}), json!({"id": "items"})]);
        names.set_containers("blog", &[]);
        let row = json!({"id": "1", "city": "x", "address": {"city": "x", "zip": "y"}});
        names.add_rows(&[RawValue::from_string(row.to_string()).unwrap()]);
        let mut known = names.lock();
        known.database = Some("shop".into());
        let vocabulary = Vocabulary {
            keywords: vec!["FROM".into(), "WHERE".into()],
            functions: vec!["CONCAT".into(), "CONTAINS".into()],
        };
        complete(text, text.len(), &known, &vocabulary)
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        assert_eq!(completed(".da"), (0, vec![".databases ".into()]));
        assert_eq!(completed("sel"), (0, vec!["SELECT ".into()]));
        assert_eq!(completed(".use b"), (5, vec!["blog".into()]));
        assert_eq!(completed("use shop o"), (9, vec!["orders".into()]));
        assert_eq!(completed("cd or"), (3, vec!["orders".into()]));
        assert_eq!(completed("cd shop/i"), (3, vec!["shop/items".into()]));
        assert_eq!(completed(".format js").1, ["json", "jsonl"]);
        assert_eq!(completed(".rmcon ").1, ["items", "orders"]);
        assert!(completed("nothing x").1.is_empty());
    }

    #[test]
    fn words_and_properties_of_queries_are_completed() {
        assert_eq!(completed("SELECT * fr"), (9, vec!["from".into()]));
        assert_eq!(completed("SELECT CON").1, ["CONCAT(", "CONTAINS("]);
        assert_eq!(completed("SELECT c.c"), (9, vec!["city".into()]));
        assert_eq!(completed("SELECT c.address.").1, ["city", "zip"]);
        assert_eq!(completed("SELECT 1; .da"), (10, vec![".databases ".into()]));
        assert_eq!(completed(".plan SELECT c.i").1, ["id"]);
        assert!(completed("SELECT ").1.is_empty());
    }
}
