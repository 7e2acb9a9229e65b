//! The state of a session, and the dispatch of its statements.

use super::command::{self, Action, arguments, unquoted};
use super::fault::ShellError;
use super::names::Names;
use super::split::Statement;
use crate::connection;
use crate::form::RowForm;
use crate::query::Cursor;
use crate::table::for_terminal;
use orrery_client::files::read_text;
use orrery_client::{Client, ClientError, ConnectionOptions, container_link, database_link};
use orrery_model::partition_key::Definition;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The handling of statements that delete something.
pub enum Consent {
    /// They run.
    Given,
    /// They are refused, with this remedy.
    Refused(&'static str),
    /// The user is asked; the function returns the answer.
    Asked(Box<dyn FnMut(&str) -> bool + Send>),
}

impl fmt::Debug for Consent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "Given",
            Self::Refused(_) => "Refused",
            Self::Asked(_) => "Asked",
        })
    }
}

/// The options of a session.
#[derive(Debug)]
pub struct SessionOptions {
    /// The account.
    pub account: ConnectionOptions,
    /// Another account, as the argument of `.connect`.
    pub target: Option<String>,
    /// Database; otherwise that of the connection string.
    pub database: Option<String>,
    /// Container; otherwise that of the connection string.
    pub container: Option<String>,
    /// Form of rows.
    pub form: RowForm,
    /// Rows of a query before `.more`; `None` for all.
    pub rows_max: Option<usize>,
    /// Prints costs after each statement.
    pub tells_costs: bool,
    /// Handling of statements that delete.
    pub consent: Consent,
}

/// Sums over a session.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) statements: u64,
    pub(super) rows: u64,
    pub(super) charge: f64,
    pub(super) elapsed: Duration,
}

/// A session with one account.
pub struct Session {
    pub(super) options: SessionOptions,
    pub(super) client: Client,
    pub(super) database: Option<String>,
    pub(super) container: Option<String>,
    /// The last query, while it has rows left.
    pub(super) cursor: Option<Cursor>,
    /// Text of the last query.
    pub(super) last_query: Option<String>,
    /// Partition keys of containers, by their links.
    pub(super) definitions: HashMap<String, Definition>,
    pub(super) names: Names,
    pub(super) totals: Totals,
    is_over: bool,
}

impl Session {
    /// Connects to the account and reads its properties.
    ///
    /// # Errors
    /// [`ClientError::InvalidOption`] for options that cannot be used, and failures of requests.
    pub async fn connect(options: SessionOptions) -> Result<Self, ClientError> {
        let account = match &options.target {
            Some(target) => {
                let key_file = options.account.key_file.clone();
                ConnectionOptions {
                    key: options.account.key.clone(),
                    ..account_of(target, key_file, &options.account)?
                }
            }
            None => options.account.clone(),
        };
        let (client, connection) = connection::client(&account)?;
        let client = client.with_user_agent("orrery-shell");
        client.account().await?;
        Ok(Self {
            database: options.database.clone().or(connection.database),
            container: options.container.clone().or(connection.container),
            options,
            client,
            cursor: None,
            last_query: None,
            definitions: HashMap::new(),
            names: Names::default(),
            totals: Totals::default(),
            is_over: false,
        })
    }

    /// Returns true after `.quit`.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &str {
        self.client.endpoint()
    }

    /// Returns database and container, for example `shop/orders`; empty at the account.
    pub fn place(&self) -> String {
        let parts = [&self.database, &self.container];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join("/")
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// See [`ShellError`].
    pub async fn run(&mut self, statement: &Statement) -> Result<(), ShellError> {
        self.totals.statements += 1;
        // A query goes to the server as it stands; a command is looked up in the table.
        if statement.is_query() {
            return self.query(&statement.text).await;
        }
        let (entry, rest) = command::parse(&statement.text)?;
        let call = Call {
            entry,
            rest,
            words: arguments(rest),
        };
        match entry.action {
            Action::Databases
            | Action::Containers
            | Action::List
            | Action::Use
            | Action::Go
            | Action::CreateDatabase
            | Action::CreateContainer
            | Action::DeleteDatabase
            | Action::DeleteContainer => self.run_on_places(&call).await,
            Action::Get
            | Action::Put
            | Action::Create
            | Action::Replace
            | Action::Patch
            | Action::Delete
            | Action::Import
            | Action::Export => self.run_on_items(&call).await,
            _ => self.run_on_session(&call).await,
        }
    }

    async fn run_on_session(&mut self, call: &Call<'_>) -> Result<(), ShellError> {
        match call.entry.action {
            Action::Help => say(&command::help(call.rest)?)?,
            Action::Quit => self.is_over = true,
            Action::Connect => {
                call.at_most(2)?;
                self.reconnect(&call.first()?, call.word(1).map(Into::into))
                    .await?;
            }
            Action::Place => say(&format!("{}\n/{}\n", self.endpoint(), self.place()))?,
            Action::Schema => self.schema().await?,
            Action::Plan => self.plan(call.rest).await?,
            Action::More => self.more().await?,
            Action::Totals => self.tell_totals()?,
            action => {
                call.at_most(1)?;
                self.set(action, call.words.first().copied())?;
            }
        }
        Ok(())
    }

    async fn run_on_places(&mut self, call: &Call<'_>) -> Result<(), ShellError> {
        call.at_most(match call.entry.action {
            Action::CreateContainer => 3,
            Action::Use => 2,
            Action::Databases => 0,
            _ => 1,
        })?;
        match call.entry.action {
            Action::Containers => self.list_containers(call.word(0)).await,
            Action::List => self.list(call.word(0)).await,
            Action::Use => self.use_place(&call.first()?, call.word(1)).await,
            Action::Go => self.go_to(call.word(0).as_deref().unwrap_or("/")).await,
            Action::CreateDatabase => self.create_database(&call.first()?).await,
            Action::CreateContainer => {
                let paths = call.word(1).ok_or_else(|| call.usage())?;
                let throughput = call.words.get(2).copied();
                self.create_container(&call.first()?, &paths, throughput)
                    .await
            }
            Action::DeleteDatabase => self.delete_database(&call.first()?).await,
            Action::DeleteContainer => self.delete_container(&call.first()?).await,
            _ => self.list_databases().await,
        }
    }

    async fn run_on_items(&mut self, call: &Call<'_>) -> Result<(), ShellError> {
        // Behind the id stand the values of the partition key.
        let key = call.words.get(1..).unwrap_or_default();
        match call.entry.action {
            Action::Get => self.get(&call.first()?, key).await,
            Action::Delete => self.delete(&call.first()?, key).await,
            Action::Patch => {
                let Some((operations, key)) = key.split_last() else {
                    return Err(call.usage());
                };
                self.patch(&call.first()?, key, operations).await
            }
            Action::Import => {
                call.at_most(2)?;
                self.import(&call.first()?, call.words.get(1).copied())
                    .await
            }
            Action::Export => {
                call.at_most(1)?;
                self.export(&call.first()?).await
            }
            action => {
                call.first()?;
                self.write(action, call.rest).await
            }
        }
    }

    /// Connects to another account; if that fails, the session keeps the one it has.
    async fn reconnect(
        &mut self,
        target: &str,
        key_file: Option<PathBuf>,
    ) -> Result<(), ShellError> {
        let account = account_of(target, key_file, &self.options.account)?;
        let (client, connection) = connection::client(&account)?;
        let client = client.with_user_agent("orrery-shell");
        client.account().await?;
        self.client = client;
        (self.database, self.container) = (connection.database, connection.container);
        self.cursor = None;
        self.definitions.clear();
        *self.names.lock() = Default::default();
        note(&format!("connected to {}", self.endpoint()));
        Ok(())
    }

    /// Changes or prints a setting.
    fn set(&mut self, action: Action, value: Option<&str>) -> Result<(), ShellError> {
        let options = &mut self.options;
        match (action, value) {
            (Action::Form, Some(name)) => {
                options.form = RowForm::named(name).ok_or_else(|| {
                    format!("'{name}' is no form of rows: table, json, jsonl and csv are")
                })?;
            }
            (Action::Form, None) => say(&format!("{}\n", options.form.name()))?,
            (Action::Rows, Some("all")) => options.rows_max = None,
            (Action::Rows, Some(number)) => match number.parse() {
                Ok(rows) if rows > 0 => options.rows_max = Some(rows),
                _ => return Err(format!("'{number}' is no number of rows, nor 'all'").into()),
            },
            (Action::Rows, None) => match options.rows_max {
                Some(rows) => say(&format!("{rows}\n"))?,
                None => say("all\n")?,
            },
            (_, Some("on")) => options.tells_costs = true,
            (_, Some("off")) => options.tells_costs = false,
            (_, Some(word)) => return Err(format!("'{word}' is neither on nor off").into()),
            (_, None) => say(if options.tells_costs { "on\n" } else { "off\n" })?,
        }
        Ok(())
    }

    fn tell_totals(&self) -> Result<(), ShellError> {
        let totals = &self.totals;
        say(&format!(
            "{} statements, {} items, {:.2} RU, {:.1} ms\n",
            totals.statements,
            totals.rows,
            totals.charge,
            totals.elapsed.as_secs_f64() * 1000.0
        ))
    }

    /// Asks for consent to a deletion.
    pub(super) fn consent(&mut self, question: &str) -> Result<(), ShellError> {
        let is_given = match &mut self.options.consent {
            Consent::Given => true,
            Consent::Refused(remedy) => {
                return Err(format!("{question} needs consent: {remedy}").into());
            }
            Consent::Asked(ask) => ask(question),
        };
        match is_given {
            true => Ok(()),
            false => Err("nothing was deleted".to_owned().into()),
        }
    }

    /// Returns the link of the database.
    pub(super) fn database_link(&self) -> Result<String, ShellError> {
        match &self.database {
            Some(database) => Ok(database_link(database)),
            None => Err("no database is chosen: .use DATABASE".to_owned().into()),
        }
    }

    /// Returns database and container.
    pub(super) fn both(&self) -> Result<(String, String), ShellError> {
        match (&self.database, &self.container) {
            (Some(database), Some(container)) => Ok((database.clone(), container.clone())),
            _ => Err("no container is chosen: .use DATABASE CONTAINER"
                .to_owned()
                .into()),
        }
    }

    /// Returns the link of the container.
    pub(super) fn container_link(&self) -> Result<String, ShellError> {
        let (database, container) = self.both()?;
        Ok(container_link(&database, &container))
    }
}

/// Returns the account that the argument of `.connect` names. Roots of certificates stay those of
/// `base`, and its key is left out.
fn account_of(
    target: &str,
    key_file: Option<PathBuf>,
    base: &ConnectionOptions,
) -> Result<ConnectionOptions, ClientError> {
    let mut account = ConnectionOptions {
        endpoint: None,
        connection_string: None,
        key: None,
        key_file,
        ..base.clone()
    };
    let is_string = target.eq_ignore_ascii_case("emulator") || target.contains('=');
    if let Some(file) = target.strip_prefix('@') {
        let text = read_text(Path::new(file)).map_err(|error| {
            ClientError::InvalidOption(format!("cannot read the connection string {file}: {error}"))
        })?;
        account.connection_string = Some(text.trim().to_owned());
    } else if is_string {
        account.connection_string = Some(target.to_owned());
    } else {
        account.endpoint = Some(target.to_owned());
    }
    Ok(account)
}

/// A command with its arguments.
struct Call<'a> {
    entry: &'static command::Entry,
    /// The text behind the name.
    rest: &'a str,
    words: Vec<&'a str>,
}

impl Call<'_> {
    /// Returns an argument without quotation marks.
    fn word(&self, at: usize) -> Option<String> {
        self.words.get(at).map(|word| unquoted(word))
    }

    fn first(&self) -> Result<String, ShellError> {
        self.word(0).ok_or_else(|| self.usage())
    }

    fn at_most(&self, count: usize) -> Result<(), ShellError> {
        match self.words.len() > count {
            true => Err(self.usage()),
            false => Ok(()),
        }
    }

    fn usage(&self) -> ShellError {
        let text = format!("the form is .{} {}", self.entry.name, self.entry.form);
        ShellError::Failed(text.trim_end().to_owned())
    }
}

/// Writes to standard output.
pub(super) fn say(text: &str) -> Result<(), ShellError> {
    let mut stdout = io::stdout().lock();
    let text = match stdout.is_terminal() {
        true => for_terminal(text),
        false => text.into(),
    };
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes a line to standard error. If it is closed, the rows are all that the user wants.
pub(super) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_client::Secret;

    #[test]
    fn an_account_is_an_address_a_connection_string_or_a_file() {
        let base = ConnectionOptions {
            key: Some(Secret::new("old")),
            key_file: Some("old.key".into()),
            insecure: true,
            ..ConnectionOptions::default()
        };
        let account = |target: &str| account_of(target, None, &base).unwrap();
        let url = account("https://a.example/");
        assert_eq!(url.endpoint.as_deref(), Some("https://a.example/"));
        assert!(url.key.is_none() && url.key_file.is_none() && url.insecure);
        assert_eq!(
            account("emulator").connection_string.as_deref(),
            Some("emulator")
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.txt");
        std::fs::write(&file, "AccountEndpoint=https://a/;AccountKey=eA==;\n").unwrap();
        let of_file = account(&format!("@{}", file.display()));
        let string = of_file.connection_string.unwrap();
        assert!(string.ends_with("eA==;"), "{string}");
        assert!(account_of("@/no/such/file", None, &base).is_err());
    }
}
