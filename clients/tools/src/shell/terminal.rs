//! A person at a terminal: prompt, editing, history, completion, Ctrl-C and Ctrl-D.

use super::Vocabulary;
use super::command::{self, Action};
use super::complete::complete;
use super::fault::ShellError;
use super::names::Names;
use super::session::{Session, note};
use super::split::{Statement, is_complete, statements};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::path::PathBuf;
use tokio::runtime::Runtime;

/// Statements in the history at most.
const HISTORY_MAX: usize = 1000;

/// The options of a terminal.
#[derive(Debug, Clone, Default)]
pub struct TerminalOptions {
    /// File of the history, whose directory exists; `None` for none. Only its owner may read a file
    /// that the shell creates.
    pub history: Option<PathBuf>,
    /// Words for completion.
    pub vocabulary: Vocabulary,
}

/// Completion and the end of statements, for the editor.
struct Assistant {
    names: Names,
    vocabulary: Vocabulary,
    files: FilenameCompleter,
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (begin, words) = complete(line, cursor, &self.names.lock(), &self.vocabulary);
        let takes_file = match command::parse(line) {
            Ok((entry, _)) => matches!(
                entry.action,
                Action::Import | Action::Export | Action::Connect
            ),
            Err(_) => false,
        };
        if words.is_empty() && takes_file {
            return self.files.complete(line, cursor, context);
        }
        let pairs = words.into_iter().map(|word| Pair {
            display: word.trim_end().to_owned(),
            replacement: word,
        });
        Ok((begin, pairs.collect()))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}
impl Helper for Assistant {}

/// The editor with its history.
struct Terminal {
    editor: Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
}

impl Terminal {
    fn open(session: &Session, options: TerminalOptions) -> rustyline::Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Assistant {
            names: session.names.clone(),
            vocabulary: options.vocabulary,
            files: FilenameCompleter::new(),
        }));
        let mut history = options.history;
        if let Some(file) = &history
            && file.exists()
            && let Err(error) = editor.load_history(file)
        {
            // A file that cannot be read is not overwritten.
            note(&format!("no history: {}: {error}", file.display()));
            history = None;
        }
        Ok(Self { editor, history })
    }

    /// Adds a text to the history and its file at once, unless the text has a key.
    fn remember(&mut self, text: &str) {
        if has_secret(text) || !matches!(self.editor.add_history_entry(text), Ok(true)) {
            return;
        }
        if let Some(file) = &self.history
            && let Err(error) = self.editor.append_history(file)
        {
            note(&format!("no history: {}: {error}", file.display()));
            self.history = None;
        }
    }
}

/// Returns a text as the history keeps it: complete, so that it runs again at once.
fn recalled(text: &str) -> String {
    let text = text.trim_end();
    match is_complete(text) {
        true => text.to_owned(),
        false => format!("{text};"),
    }
}

/// Returns true if a text may have the key of an account.
fn has_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_connect = statements(text).iter().any(|statement| {
        let parsed = command::parse(&statement.text);
        parsed.is_ok_and(|(entry, rest)| entry.action == Action::Connect && rest.contains('='))
    });
    is_connect || lower.contains("accountkey")
}

/// Runs a session at the terminal until its end. Failures of statements are told and do not end it.
///
/// # Errors
/// The terminal cannot be used.
pub fn run_terminal(
    runtime: &Runtime,
    session: &mut Session,
    options: TerminalOptions,
) -> Result<(), ShellError> {
    let unusable = |error: ReadlineError| format!("cannot use the terminal: {error}");
    let mut terminal = Terminal::open(session, options).map_err(unusable)?;

    // From here on Ctrl-C reaches the statement that runs, and never ends the program.
    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => {}
            () = std::future::ready(()) => {}
        }
    });
    note(&format!(
        "connected to {}; .help lists the commands, a query ends with ';' or an empty line",
        session.endpoint()
    ));
    let mut endpoint = String::new();
    loop {
        // Names of another account are read while the user types.
        if endpoint != session.endpoint() {
            endpoint = session.endpoint().to_owned();
            runtime.spawn(session.names.clone().refresh(session.client.clone()));
        }
        session.names.lock().database = session.database.clone();
        let prompt = match session.place() {
            place if place.is_empty() => "orrery> ".to_owned(),
            place => format!("orrery {place}> "),
        };
        let text = match terminal.editor.readline(&prompt) {
            Ok(text) => text,
            // Ctrl-C gives the line up, Ctrl-D on an empty line ends the session.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(unusable(error).into()),
        };
        if text.trim().is_empty() {
            continue;
        }
        terminal.remember(&recalled(&text));
        for statement in statements(&text) {
            match runtime.block_on(run_or_cancel(session, &statement)) {
                Ok(()) if session.is_over() => return Ok(()),
                Ok(()) => {}
                Err(ShellError::Closed) => return Ok(()),
                Err(ShellError::Failed(message)) => {
                    note(&message);
                    break;
                }
            }
        }
    }
}

/// Runs a statement until its end or until Ctrl-C. The requests of a statement that is given up are
/// dropped with their connections, by which the server knows.
async fn run_or_cancel(session: &mut Session, statement: &Statement) -> Result<(), ShellError> {
    tokio::select! {
        done = session.run(statement) => done,
        signal = tokio::signal::ctrl_c() => match signal {
            Ok(()) => Err("cancelled; a write may have been done".to_owned().into()),
            Err(error) => Err(format!("cannot wait for Ctrl-C: {error}").into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_has_complete_statements() {
        assert_eq!(recalled("SELECT 1\n\n"), "SELECT 1;");
        assert_eq!(recalled("SELECT 1;\n"), "SELECT 1;");
        assert_eq!(recalled(".ls\n"), ".ls");
    }

    #[test]
    fn a_key_is_no_part_of_the_history() {
        assert!(has_secret(
            ".connect AccountEndpoint=https://a/;AccountKey=eA==;"
        ));
        assert!(has_secret(
            "SELECT 1; connect \"accountendpoint=x;ACCOUNTKEY=y\""
        ));
        assert!(!has_secret(".connect https://a.example/ account.key"));
        assert!(!has_secret("SELECT c.key FROM c"));
    }
}
