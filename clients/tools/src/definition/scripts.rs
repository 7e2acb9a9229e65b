//! Scripts of the vendor's shell (`.csh`) that create databases, containers and items, read as a
//! definition.
//!
//! ```text
//! mkdb shop
//! mkcon orders /customer --database=shop
//! cd shop
//! mkitem -container orders '{"id":"1","customer":"ada"}'
//! ```
//!
//! Nothing runs: a script is read to its end before anything is created. Commands that only read
//! (`query`, `ls`, `print`, `pwd`, `echo`, `info`) are passed over. Variables, pipes, loops,
//! functions and every other command are refused with their line, because a script that is
//! half understood would create the wrong data.

use super::DefinitionError;
use super::model::{ContainerDefinition, DatabaseDefinition, Definition, StatedThroughput};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::path::Path;

/// Commands that change nothing.
const READING: [&str; 7] = ["query", "ls", "print", "pwd", "echo", "info", "settings"];
/// Commands that are understood.
const UNDERSTOOD: &str = "mkdb, mkcon, mkitem and cd";

/// The databases that scripts create, and the place of the shell.
///
/// Scripts of one folder run in one session, so the place lasts from one script to the next.
#[derive(Default)]
pub(super) struct Session {
    definition: Definition,
    /// Database and container that `cd` selected.
    place: Vec<String>,
}

/// A command with its line, counted from one.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    line: usize,
    words: Vec<Word>,
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// True if the word begins with a quote, so that the word is no option.
    is_quoted: bool,
}

/// The arguments of a command: words, and options with their values.
#[derive(Default)]
struct Arguments {
    words: Vec<String>,
    options: Vec<(&'static str, String)>,
    is_forced: bool,
}

impl Session {
    /// Continues from databases that exist already in the definition.
    pub(super) fn after(definition: Definition) -> Self {
        Session {
            definition,
            place: Vec::new(),
        }
    }

    /// Returns the databases of all scripts.
    pub(super) fn finish(self) -> Definition {
        self.definition
    }

    /// Reads the script in `text`.
    ///
    /// # Errors
    /// [`DefinitionError::File`] with the line and the reason.
    pub(super) fn read(&mut self, path: &Path, text: &str) -> Result<(), DefinitionError> {
        let wrong = |(line, reason): (usize, String)| {
            DefinitionError::File(format!("{}: line {line}: {reason}", path.display()))
        };
        for command in commands(text).map_err(wrong)? {
            let line = command.line;
            self.command(command)
                .map_err(|reason| wrong((line, reason)))?;
        }
        Ok(())
    }

    fn command(&mut self, command: Command) -> Result<(), String> {
        let mut words = command.words.into_iter();
        let Some(name) = words.next() else {
            return Ok(());
        };
        let words: Vec<Word> = words.collect();
        let lower = name.text.to_lowercase();
        if READING.contains(&lower.as_str()) {
            return Ok(());
        }
        match lower.as_str() {
            "mkdb" => self.make_database(words),
            "mkcon" => self.make_container(words),
            "mkitem" => self.make_items(words),
            "cd" => self.change_place(words),
            _ => Err(format!(
                "the command '{}' is not supported: this server reads {UNDERSTOOD}; use a \
                 definition file, or run the script with the vendor's shell",
                name.text
            )),
        }
    }

    fn make_database(&mut self, words: Vec<Word>) -> Result<(), String> {
        let arguments = Arguments::read(words, &["scale", "ru"])?;
        let [id] = arguments.exactly("mkdb NAME")?;
        let throughput = arguments.throughput()?;
        if self.definition.databases.iter().any(|known| known.id == id) {
            return Err(format!("the database '{id}' exists already"));
        }
        self.definition.databases.push(DatabaseDefinition {
            id,
            throughput,
            ..DatabaseDefinition::default()
        });
        Ok(())
    }

    fn make_container(&mut self, words: Vec<Word>) -> Result<(), String> {
        let names = ["database", "unique_key", "scale", "ru", "index_policy"];
        let mut arguments = Arguments::read(words, &names)?;
        // The unique key is the third word, or an option.
        let unique_key = match arguments.words.len() {
            3 => arguments.words.pop(),
            _ => arguments.option("unique_key").map(str::to_owned),
        };
        let [id, key] = arguments.exactly("mkcon NAME PARTITION_KEY [UNIQUE_KEY]")?;
        let paths = paths(&key)?;
        let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
        let unique_key_policy = match &unique_key {
            Some(text) => Some(json!({"uniqueKeys": [{"paths": self::paths(text)?}]})),
            None => None,
        };
        let indexing_policy = match arguments.option("index_policy") {
            Some(text) => Some(
                serde_json::from_str(text)
                    .map_err(|error| format!("the option index_policy is no JSON: {error}"))?,
            ),
            None => None,
        };
        let throughput = arguments.throughput()?;
        let place = match arguments.option("database") {
            Some(_) => Vec::new(),
            None => self.place.clone(),
        };
        if place.len() > 1 {
            return Err("mkcon needs a database, and 'cd' selected a container".to_owned());
        }
        let database = self.database(arguments.option("database"))?;
        if database.containers.iter().any(|known| known.id == id) {
            let place = &database.id;
            return Err(format!("the container '{place}/{id}' exists already"));
        }
        database.containers.push(ContainerDefinition {
            id,
            throughput,
            partition_key: Some(json!({"paths": paths, "kind": kind, "version": 2})),
            unique_key_policy,
            indexing_policy,
            ..ContainerDefinition::default()
        });
        Ok(())
    }

    fn make_items(&mut self, words: Vec<Word>) -> Result<(), String> {
        let arguments = Arguments::read(words, &["database", "container"])?;
        let [data] = arguments.exactly("mkitem 'JSON'")?;
        let items: Vec<Box<RawValue>> = match data.trim_start().starts_with('[') {
            true => serde_json::from_str(&data),
            false => serde_json::from_str(&data).map(|item| vec![item]),
        }
        .map_err(|error| format!("the item is no JSON: {error}"))?;
        let place = self.place.get(1).cloned();
        let Some(container) = arguments.option("container").map(str::to_owned).or(place) else {
            return Err("mkitem needs --container=NAME, or 'cd' to a container".to_owned());
        };
        let database = self.database(arguments.option("database"))?;
        let mut known = database.containers.iter_mut();
        let Some(found) = known.find(|known| known.id == container) else {
            let place = &database.id;
            return Err(format!(
                "the container '{place}/{container}' does not exist here; create it with mkcon"
            ));
        };
        for item in items {
            if arguments.is_forced && has_id_of(&found.items, &item) {
                return Err("-force would replace an item that a line before created".to_owned());
            }
            found.items.push(item);
        }
        Ok(())
    }

    /// Selects a database or container, by the rules of paths: `/` is the account, `..` goes up.
    fn change_place(&mut self, words: Vec<Word>) -> Result<(), String> {
        let arguments = Arguments::read(words, &[])?;
        let path = match arguments.words.as_slice() {
            [] => "/",
            [path] => path.as_str(),
            _ => return Err("expected cd [DATABASE[/CONTAINER]]".to_owned()),
        };
        let mut place = match path.starts_with('/') {
            true => Vec::new(),
            false => self.place.clone(),
        };
        for part in path
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            match part {
                ".." => _ = place.pop(),
                _ => place.push(part.to_owned()),
            }
        }
        let exists = match place.as_slice() {
            [] => true,
            [database] => self.find(database).is_some(),
            [database, container] => self
                .find(database)
                .is_some_and(|found| found.containers.iter().any(|one| one.id == *container)),
            _ => return Err(format!("'{path}' is below a container")),
        };
        if !exists {
            return Err(format!("'{}' does not exist here", place.join("/")));
        }
        self.place = place;
        Ok(())
    }

    fn find(&self, id: &str) -> Option<&DatabaseDefinition> {
        self.definition
            .databases
            .iter()
            .find(|known| known.id == id)
    }

    /// Returns the named database, or the one that `cd` selected.
    fn database(&mut self, named: Option<&str>) -> Result<&mut DatabaseDefinition, String> {
        let Some(id) = named.or(self.place.first().map(String::as_str)) else {
            return Err("there is no database: add --database=NAME, or 'cd' before".to_owned());
        };
        let mut known = self.definition.databases.iter_mut();
        let missing = format!("the database '{id}' does not exist here; create it with mkdb");
        known.find(|known| known.id == id).ok_or(missing)
    }
}

/// Returns true if one of `items` has the id of `item`.
fn has_id_of(items: &[Box<RawValue>], item: &RawValue) -> bool {
    let id = |item: &RawValue| {
        let value: Option<Value> = serde_json::from_str(item.get()).ok();
        value?.get("id").cloned()
    };
    let Some(wanted) = id(item) else {
        return false;
    };
    items
        .iter()
        .any(|known| id(known).as_ref() == Some(&wanted))
}

/// Splits paths at commas.
fn paths(text: &str) -> Result<Vec<String>, String> {
    let paths: Vec<String> = text.split(',').map(|path| path.trim().to_owned()).collect();
    match paths.iter().all(|path| path.starts_with('/')) {
        true => Ok(paths),
        false => Err(format!("'{text}' is no path: each begins with /")),
    }
}

impl Arguments {
    /// Reads words and the options `known`: `-name value`, `--name=value`, and short names.
    fn read(words: Vec<Word>, known: &[&'static str]) -> Result<Self, String> {
        let mut arguments = Arguments::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word.is_quoted || !word.text.starts_with('-') {
                arguments.words.push(word.text);
                continue;
            }
            let bare = word.text.trim_start_matches('-');
            let (name, value) = match bare.split_once('=') {
                Some((name, value)) => (name.to_lowercase(), Some(value.to_owned())),
                None => (bare.to_lowercase(), None),
            };
            let long = match name.as_str() {
                "db" => "database",
                "con" => "container",
                "s" => "scale",
                "ip" => "index_policy",
                "force" | "upsert" if known.contains(&"container") => {
                    arguments.is_forced = true;
                    continue;
                }
                other => other,
            };
            let Some(option) = known.iter().find(|option| **option == long) else {
                return Err(format!("the option '{}' is not supported", word.text));
            };
            let value = match value {
                Some(value) => value,
                None => match words.next() {
                    Some(next) => next.text,
                    None => return Err(format!("the option '{}' has no value", word.text)),
                },
            };
            arguments.options.push((option, value));
        }
        Ok(arguments)
    }

    fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the words, if there are exactly `N`.
    fn exactly<const N: usize>(&self, form: &str) -> Result<[String; N], String> {
        let words = <[String; N]>::try_from(self.words.clone());
        words.map_err(|_| format!("expected {form}"))
    }

    /// Returns the throughput of the options scale and ru.
    fn throughput(&self) -> Result<Option<StatedThroughput>, String> {
        let ru = match self.option("ru").map(str::parse) {
            None => None,
            Some(Ok(ru)) => Some(ru),
            Some(Err(_)) => return Err("the option ru is no number".to_owned()),
        };
        match (self.option("scale").map(str::to_lowercase).as_deref(), ru) {
            (None, None) => Ok(None),
            (Some("auto"), Some(ru)) => Ok(Some(StatedThroughput::Autoscale(ru))),
            (Some("manual"), Some(ru)) => Ok(Some(StatedThroughput::Manual(ru))),
            _ => Err("throughput needs -scale=auto or -scale=manual, and -ru=NUMBER".to_owned()),
        }
    }
}

/// Splits a script into commands at line ends and `;`. A quoted text may span lines.
fn commands(text: &str) -> Result<Vec<Command>, (usize, String)> {
    let mut commands = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut begin) = (1, 1);
    let mut characters = text.chars().peekable();
    while let Some(&character) = characters.peek() {
        match character {
            '\n' | ';' => {
                characters.next();
                let words = std::mem::take(&mut words);
                commands.push(Command { line: begin, words });
                line += usize::from(character == '\n');
                begin = line;
            }
            '#' => while characters.next_if(|next| *next != '\n').is_some() {},
            _ if character.is_whitespace() || character == '\u{feff}' => _ = characters.next(),
            _ => {
                if words.is_empty() {
                    begin = line;
                }
                words.push(word(&mut characters, &mut line)?);
            }
        }
    }
    commands.push(Command { line: begin, words });
    commands.retain(|command| !command.words.is_empty());
    Ok(commands)
}

/// Reads a word, parts of which may be quoted.
fn word(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    line: &mut usize,
) -> Result<Word, (usize, String)> {
    let mut word = Word {
        text: String::new(),
        is_quoted: false,
    };
    while let Some(character) =
        characters.next_if(|next| !next.is_whitespace() && !matches!(next, ';' | '\n'))
    {
        match character {
            '\'' | '"' => {
                word.is_quoted |= word.text.is_empty();
                quoted(character, characters, line, &mut word.text)?;
            }
            '$' | '|' | '{' | '}' | '(' | ')' | '[' | ']' | '<' | '>' | '&' | '`' => {
                return Err((
                    *line,
                    format!(
                        "'{character}' outside of quotes is not supported: variables, pipes, \
                         blocks and bare JSON are not read; quote JSON as in mkitem '{{…}}'"
                    ),
                ));
            }
            other => word.text.push(other),
        }
    }
    Ok(word)
}

/// Reads the rest of a quoted text. In single quotes only `''` is special; in double quotes the
/// backslash is.
fn quoted(
    quote: char,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    line: &mut usize,
    text: &mut String,
) -> Result<(), (usize, String)> {
    let begin = *line;
    while let Some(character) = characters.next() {
        *line += usize::from(character == '\n');
        match character {
            '\'' if quote == '\'' && characters.next_if_eq(&'\'').is_some() => text.push('\''),
            _ if character == quote => return Ok(()),
            '\\' if quote == '"' => match characters.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some(other @ ('\\' | '"')) => text.push(other),
                Some(other) => text.extend(['\\', other]),
                None => break,
            },
            other => text.push(other),
        }
    }
    Err((begin, format!("the quote {quote} is not closed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(scripts: &[&str]) -> Result<Definition, String> {
        let mut session = Session::default();
        for script in scripts {
            let read = session.read(Path::new("a.csh"), script);
            read.map_err(|error| error.to_string())?;
        }
        Ok(session.finish())
    }

    #[test]
    fn scripts_make_databases_containers_and_items_in_one_session() {
        let definition = read(&[
            "# seed\nmkdb MovieDB\nmkcon Movies /genre --database=MovieDB\n\
             mkcon 'Of Users' /tenant,/user -unique_key=/mail,/name -scale=auto -ru=4000 \
             -db MovieDB\n\
             cd MovieDB; pwd",
            "mkitem -container Movies '{\"id\":\"m1\",\n  \"genre\":\"it''s\"}'\n\
             cd Movies\n\
             mkitem -force \"[{\\\"id\\\":\\\"m2\\\"},{\\\"id\\\":\\\"m3\\\"}]\"\n\
             cd ..\n\
             query \"SELECT VALUE COUNT(1) FROM c\" --container=Movies",
        ])
        .expect("valid");
        let database = &definition.databases[0];
        let [movies, users] = database.containers.as_slice() else {
            panic!("{database:?}");
        };
        let items: Vec<&str> = movies.items.iter().map(|item| item.get()).collect();
        assert_eq!(
            items,
            [
                "{\"id\":\"m1\",\n  \"genre\":\"it's\"}",
                "{\"id\":\"m2\"}",
                "{\"id\":\"m3\"}"
            ]
        );
        assert_eq!(users.id, "Of Users");
        assert_eq!(users.throughput, Some(StatedThroughput::Autoscale(4000)));
        let key = json!({"paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2});
        assert_eq!(users.partition_key, Some(key));
        let unique = json!({"uniqueKeys": [{"paths": ["/mail", "/name"]}]});
        assert_eq!(users.unique_key_policy, Some(unique));
    }

    #[test]
    fn a_line_that_is_not_understood_is_refused_with_its_number() {
        let base = "mkdb d\nmkcon c /pk --db=d\n";
        for (line, part) in [
            ("rmdb d", "the command 'rmdb'"),
            ("def f [a] { mkdb $a }", "'[' outside of quotes"),
            ("echo '{\"id\":\"1\"}' | mkitem", "'|' outside of quotes"),
            ("mkitem {\"id\":1}", "quote JSON"),
            ("mkitem '{\"id\":\"1\"}'", "needs --container"),
            ("mkitem -con c '{\"id\":\"1\"}'", "there is no database"),
            (
                "mkitem -con x -db d '{\"id\":\"1\"}'",
                "'d/x' does not exist",
            ),
            ("mkitem -con c -db d '{\"id\":'", "no JSON"),
            ("mkcon e pk --database=d", "no path"),
            ("mkcon e /pk --database=d --ttl=5", "the option '--ttl=5'"),
            ("mkcon e /pk --database=d -ru 400", "-scale=auto"),
            ("mkcon c /pk --database=d", "exists already"),
            ("mkdb", "expected mkdb NAME"),
            ("cd d/e", "does not exist here"),
            ("cd d/c/i", "below a container"),
            ("mkdb 'x", "not closed"),
        ] {
            let error = read(&[&format!("{base}{line}\n")]).expect_err(line);
            assert!(
                error.starts_with("a.csh: line 3: ") && error.contains(part),
                "{error}"
            );
        }
    }
}
