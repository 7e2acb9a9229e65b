//! Arguments of `orrery completions` and `orrery man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  orrery completions bash > ~/.local/share/bash-completion/completions/orrery
  orrery completions zsh > \"${fpath[1]}/_orrery\"
  orrery completions fish > ~/.config/fish/completions/orrery.fish
  orrery completions powershell >> $PROFILE";

pub(super) const MAN_HELP: &str = "\
Examples:
  Read the page of the program:
    orrery man | man -l -
  Write the pages of all sub-commands:
    orrery man --dir ~/.local/share/man/man1";

/// Arguments of `orrery completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Shell whose completions are printed
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Arguments of `orrery man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Directory that gets one page for each sub-command; it is created if it is missing
    /// [default: the page of the program goes to standard output]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
