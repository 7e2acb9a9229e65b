//! The commands of the shell: one table, from which help and completion are derived.
//!
//! The dot in front of a command may be left out. The second column of names has the verbs of the
//! vendor's shell.

use orrery_model::words::nearest;
use serde_json::Value;

/// The effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Help,
    Connect,
    Databases,
    Containers,
    List,
    Use,
    Go,
    Place,
    Schema,
    Plan,
    More,
    Get,
    Put,
    Create,
    Replace,
    Patch,
    Delete,
    CreateDatabase,
    CreateContainer,
    DeleteDatabase,
    DeleteContainer,
    Import,
    Export,
    Form,
    Rows,
    Timing,
    Totals,
    Quit,
}

/// A command.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) action: Action,
    pub(super) name: &'static str,
    /// Other names.
    pub(super) others: &'static [&'static str],
    /// The arguments.
    pub(super) form: &'static str,
    /// The effect, in a line.
    pub(super) doc: &'static str,
}

const fn entry(
    action: Action,
    name: &'static str,
    others: &'static [&'static str],
    form: &'static str,
    doc: &'static str,
) -> Entry {
    Entry {
        action,
        name,
        others,
        form,
        doc,
    }
}

/// All commands, in the order of the help.
#[rustfmt::skip] // one command on one line, or on two
pub(super) const COMMANDS: &[Entry] = &[
    entry(Action::Help, "help", &["?"], "[COMMAND]", "list the commands"),
    entry(Action::Connect, "connect", &[], "URL [KEY-FILE] | CONNECTION-STRING | @FILE | emulator",
        "connect to another account"),
    entry(Action::Databases, "databases", &["dbs"], "", "list the databases"),
    entry(Action::Containers, "containers", &["tables"], "[DATABASE]", "list the containers"),
    entry(Action::List, "ls", &[], "[PATH]", "list databases, containers, or the first items"),
    entry(Action::Use, "use", &[], "DATABASE [CONTAINER]", "choose database and container"),
    entry(Action::Go, "cd", &[], "[PATH]",
        "go to a place: CONTAINER, DATABASE/CONTAINER, .. or /; without PATH, to the account"),
    entry(Action::Place, "pwd", &[], "", "print endpoint, database and container"),
    entry(Action::Schema, "schema", &["info"], "",
        "describe the container: partition key, indexing policy, properties of a sample"),
    entry(Action::Plan, "plan", &["explain"], "[QUERY]",
        "run a query and print metrics, use of the index and plan; without QUERY, the last one"),
    entry(Action::More, "more", &[], "", "print the next rows of the last query"),
    entry(Action::Get, "get", &["print"], "ID [PARTITION-KEY]", "print an item"),
    entry(Action::Put, "put", &["upsert"], "JSON", "create or replace an item"),
    entry(Action::Create, "create", &["mkitem"], "JSON", "create an item"),
    entry(Action::Replace, "replace", &[], "JSON", "replace an item"),
    entry(Action::Patch, "patch", &[], "ID [PARTITION-KEY] [OPERATION, ...]",
        "change an item by the operations of a patch"),
    entry(Action::Delete, "delete", &["rm"], "ID [PARTITION-KEY]", "delete an item"),
    entry(Action::CreateDatabase, "mkdb", &[], "DATABASE", "create a database"),
    entry(Action::CreateContainer, "mkcon", &[], "CONTAINER /PATH[,/PATH] [RU/S]",
        "create a container with this partition key"),
    entry(Action::DeleteDatabase, "rmdb", &[], "DATABASE", "delete a database"),
    entry(Action::DeleteContainer, "rmcon", &[], "CONTAINER", "delete a container"),
    entry(Action::Import, "import", &[], "FILE [create | upsert | skip-existing]",
        "import the items of a file: JSON lines, JSON or CSV"),
    entry(Action::Export, "export", &[], "FILE", "write all items to a new file"),
    entry(Action::Form, "format", &[], "[table | json | jsonl | csv]", "choose the form of rows"),
    entry(Action::Rows, "rows", &[], "[N | all]", "choose the number of rows before .more"),
    entry(Action::Timing, "timing", &[], "[on | off]",
        "print rows, request units, time and partitions after each statement, or not"),
    entry(Action::Totals, "ru", &["totals"], "", "print the totals of the session"),
    entry(Action::Quit, "quit", &["exit"], "", "end the session, as Ctrl-D does"),
];

/// Returns the command of a statement and the text behind its name.
///
/// # Errors
/// The name is not known; the message has the nearest one.
pub(super) fn parse(statement: &str) -> Result<(&'static Entry, &str), String> {
    let text = statement.trim_start().trim_start_matches('.');
    let end = text.find(|c: char| c.is_whitespace()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let lower = name.to_ascii_lowercase();
    match find(&lower) {
        Some(entry) => Ok((entry, rest.trim())),
        None => Err(unknown(name)),
    }
}

/// Returns the command with this name, in small letters and without a dot.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    let is_it = |entry: &&Entry| entry.name == name || entry.others.contains(&name);
    COMMANDS.iter().find(is_it)
}

fn unknown(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let commands = COMMANDS
        .iter()
        .flat_map(|entry| std::iter::once(&entry.name).chain(entry.others))
        .copied();
    let hint = match nearest(&lower, std::iter::once("select").chain(commands)) {
        Some("select") => " Did you mean SELECT?".to_owned(),
        Some(near) => format!(" Did you mean .{near}?"),
        None => String::new(),
    };
    format!(
        "no command has the name '{name}'.{hint} A query begins with SELECT; .help lists the \
         commands"
    )
}

/// Splits arguments at spaces. A text in quotation marks and a bracket with all that stands in it
/// are one argument, which keeps its marks.
pub(super) fn arguments(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut begin, mut depth, mut quote) = (None, 0_usize, None);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c.is_whitespace() && depth == 0 && quote.is_none() {
            if let Some(begin) = begin.take() {
                found.push(&text[begin..at]);
            }
            continue;
        }
        // A quotation mark inside of a word, such as that of "it's", is a letter.
        let is_first = begin.is_none();
        begin.get_or_insert(at);
        match (quote, c) {
            (Some(_), '\\') => {
                chars.next();
            }
            (Some(end), _) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if is_first || depth > 0 => quote = Some(c),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found.extend(begin.map(|begin| &text[begin..]));
    found
}

/// Returns the text of an argument without quotation marks around it.
pub(super) fn unquoted(argument: &str) -> String {
    if let Ok(Value::String(text)) = serde_json::from_str(argument) {
        return text;
    }
    let inner = argument
        .strip_prefix('\'')
        .and_then(|a| a.strip_suffix('\''));
    inner.unwrap_or(argument).to_owned()
}

/// Returns the JSON array of a partition key: the components stand as JSON, or as words that are
/// strings; an array in brackets is the whole key.
pub(super) fn key_text(arguments: &[&str]) -> String {
    if let [one] = arguments
        && one.starts_with('[')
        && serde_json::from_str::<Value>(one).is_ok()
    {
        return (*one).to_owned();
    }
    let components = arguments.iter().map(|argument| {
        let is_json = serde_json::from_str::<Value>(argument).is_ok();
        match is_json {
            true => (*argument).to_owned(),
            false => Value::from(unquoted(argument)).to_string(),
        }
    });
    format!("[{}]", components.collect::<Vec<_>>().join(","))
}

/// Returns the help for all commands, or for one.
pub(super) fn help(name: &str) -> Result<String, String> {
    let one = |entry: &Entry| {
        let mut form = format!(".{} {}", entry.name, entry.form);
        if !entry.others.is_empty() {
            let others: Vec<String> = entry.others.iter().map(|o| format!(".{o}")).collect();
            form = format!("{}  (also {})", form.trim_end(), others.join(", "));
        }
        format!("{}\n    {}\n", form.trim_end(), entry.doc)
    };
    if !name.is_empty() {
        return parse(name).map(|(entry, _)| one(entry));
    }
    let all: String = COMMANDS.iter().map(one).collect();
    Ok(format!(
        "SELECT ... ;\n    run a query; a line without text ends it too\n{all}The dot may be left \
         out. Ids and partition keys stand as words or as JSON.\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_names_with_and_without_a_dot() {
        for (text, action, rest) in [
            (".use shop orders", Action::Use, "shop orders"),
            ("CD ..", Action::Go, ".."),
            (".quit", Action::Quit, ""),
            ("rm  1 ada", Action::Delete, "1 ada"),
        ] {
            let (entry, found) = parse(text).unwrap();
            assert_eq!((entry.action, found), (action, rest), "{text}");
        }
        assert!(parse("SELEKT 1").unwrap_err().contains("mean SELECT"));
        assert!(parse(".formt csv").unwrap_err().contains("mean .format"));
        assert!(!parse("x").unwrap_err().contains("mean"));
    }

    #[test]
    fn names_are_unique_and_the_help_has_them() {
        let names = COMMANDS
            .iter()
            .flat_map(|e| e.others.iter().chain([&e.name]));
        let mut names: Vec<&str> = names.copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let all = help("").unwrap();
        assert!(names.iter().all(|name| all.contains(&format!(".{name}"))));
        assert!(help("rm").unwrap().starts_with(".delete ID"));
        assert!(help("nothing").is_err());
    }

    #[test]
    fn arguments_are_words_texts_and_brackets() {
        let text = r#"it's "a b"  {"x": [1, "}"]} 'c d'"#;
        let found = arguments(text);
        assert_eq!(found, ["it's", "\"a b\"", r#"{"x": [1, "}"]}"#, "'c d'"]);
        assert_eq!(unquoted(found[1]), "a b");
        assert_eq!(unquoted(found[3]), "c d");
        assert_eq!(
            key_text(&["ada", "7", "\"7\"", "null"]),
            r#"["ada",7,"7",null]"#
        );
        assert_eq!(key_text(&["[1,\"a\"]"]), "[1,\"a\"]");
    }
}
