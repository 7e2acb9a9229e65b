//! The shell: statements of a person or a script, against any endpoint of the protocol.
//!
//! ```text
//! script      statements from standard input or arguments    split      statements
//! terminal    a person at a terminal                         complete   words at the cursor
//!    └── session   state, dispatch of statements             names      words of the account
//!          queries     queries, pages of rows, costs         command    table of commands
//!          places      databases and containers              fault      failures in words
//!          items       single items, import, export
//!          schema      description of a container
//! ```
//!
//! Rows go to standard output; costs, notes and failures go to standard error. No statement is
//! repeated by the shell. Left out: variables and control flow, which the calling script has.

mod command;
mod complete;
mod fault;
mod items;
mod names;
mod places;
mod queries;
mod schema;
mod script;
mod session;
mod split;
mod terminal;

pub use fault::ShellError;
pub use script::{ScriptOptions, run_input, run_statements};
pub use session::{Consent, Session, SessionOptions};
pub use split::{Splitter, Statement, is_complete, statements};
pub use terminal::{TerminalOptions, run_terminal};

/// The words of the query language, for completion.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// Keywords in capitals.
    pub keywords: Vec<String>,
    /// Names of functions in capitals.
    pub functions: Vec<String>,
}
