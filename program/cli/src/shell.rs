//! `orrery shell`: chooses between a terminal and a script, and the place of the history.

use crate::command::ShellArguments;
use orrery_client::ClientError;
use orrery_server::{Failure, private_file};
use orrery_tools::connection;
use orrery_tools::shell::{
    Consent, ScriptOptions, Session, SessionOptions, ShellError, TerminalOptions, Vocabulary,
    run_input, run_statements, run_terminal,
};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

/// Rows of a query at a terminal before `.more`.
const TERMINAL_ROWS: usize = 50;

/// Runs a session.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(arguments: &ShellArguments) -> Result<(), Failure> {
    let is_terminal =
        arguments.commands.is_empty() && io::stdin().is_terminal() && io::stdout().is_terminal();
    let rows = arguments.rows.map(|rows| rows as usize);
    let options = SessionOptions {
        account: arguments.account.options(),
        target: arguments.target.clone(),
        database: arguments.database.clone(),
        container: arguments.container.clone(),
        form: arguments.format.into(),
        rows_max: rows.or(is_terminal.then_some(TERMINAL_ROWS)),
        tells_costs: !arguments.no_timing,
        consent: match (arguments.yes, is_terminal) {
            (true, _) => Consent::Given,
            (false, true) => Consent::Asked(Box::new(ask)),
            (false, false) => Consent::Refused("add --yes"),
        },
    };
    let runtime = connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let session = runtime.block_on(Session::connect(options));
    let mut session = session.map_err(connect_failure)?;

    let script = ScriptOptions {
        continues: arguments.continue_on_error,
    };
    let ended = if is_terminal {
        let options = TerminalOptions {
            history: (!arguments.no_history).then(history).flatten(),
            vocabulary: vocabulary(),
        };
        run_terminal(&runtime, &mut session, options)
    } else if arguments.commands.is_empty() {
        run_input(&runtime, &mut session, io::stdin(), script)
    } else {
        run_statements(&runtime, &mut session, &arguments.commands, script)
    };
    match ended {
        // The reader has seen enough, for example `head`.
        Ok(()) | Err(ShellError::Closed) => Ok(()),
        Err(ShellError::Failed(message)) => Err(Failure::Failed(message)),
    }
}

fn connect_failure(error: ClientError) -> Failure {
    match error {
        ClientError::InvalidOption(text) => Failure::Usage(text),
        error => match ShellError::from(error) {
            ShellError::Failed(message) => Failure::Failed(message),
            ShellError::Closed => Failure::Failed("standard output is closed".to_owned()),
        },
    }
}

/// Asks for consent at the terminal; only `y` and `yes` are consent.
fn ask(question: &str) -> bool {
    let mut stderr = io::stderr();
    let asked = write!(stderr, "{question}? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    asked.is_ok() && read.is_ok() && is_yes
}

/// Returns the file of the history, in a directory that exists; `None` if there is no place for it.
fn history() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local").join("state")))
        .or_else(|| absolute("LOCALAPPDATA"))?;
    let directory = state.join("orrery");
    match private_file::create_directory(&directory) {
        Ok(()) => Some(directory.join("shell-history")),
        Err(error) => {
            let path = directory.display();
            // If standard error is closed, the session goes on without this note.
            let _ = writeln!(io::stderr(), "no history: {path}: {error}");
            None
        }
    }
}

/// Returns the words of the query language.
fn vocabulary() -> Vocabulary {
    let language = orrery_sql::language();
    let words = language.keywords.iter();
    let functions = language.functions.iter();
    Vocabulary {
        keywords: words.map(|word| (*word).to_owned()).collect(),
        functions: functions.map(|function| function.name.to_owned()).collect(),
    }
}
