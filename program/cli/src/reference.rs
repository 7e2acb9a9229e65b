//! The reference pages of the command line and of the settings, made from the command line.
//!
//! A test compares the pages in `docs/reference` with the command line; `cargo xtask reference`
//! writes them, which runs this test with `ORRERY_BLESS=1`.

use crate::command::{Program, group_of, groups};
use crate::settings::{self, KeyKind};
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const MADE_BY: &str = "<!-- made from the code by `cargo xtask reference` -->\n\n";

/// Returns the page of all sub-commands.
fn command_line() -> String {
    let mut program = Program::command();
    program.build();
    let mut page = format!(
        "{MADE_BY}# Command line\n\n\
         `orrery --help` and `orrery COMMAND --help` print the same in a terminal.\n"
    );
    add_command(&mut page, &program, 2);
    page
}

/// Adds a command and its sub-commands.
fn add_command(page: &mut String, command: &Command, depth: usize) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(|text| one_line(&text.to_string()));
    let usage = command.clone().render_usage().to_string();
    let marks = "#".repeat(depth.min(4));
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "\n{marks} {name}\n\n{}.\n\n```text\n{}\n```\n",
        about.unwrap_or_default(),
        usage.trim_start_matches("Usage: ")
    );
    let shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|option| is_shown(option))
        .collect();
    if !shown.is_empty() {
        page.push_str("\n| option | variable | default | meaning |\n|---|---|---|---|\n");
    }
    for option in shown {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            synopsis(option),
            variable(option),
            default(option),
            meaning(option)
        );
    }
    let after = command.get_after_long_help();
    if let Some(help) = after.or(command.get_after_help()) {
        let _ = write!(page, "\n```text\n{}\n```\n", help.to_string().trim_end());
    }
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            add_command(page, inner, depth + 1);
        }
    }
}

/// Returns the page of the settings of a server.
fn settings_page() -> String {
    let mut program = Program::command();
    program.build();
    let start = program.find_subcommand("start").expect("a command");
    let mut page = format!(
        "{MADE_BY}# Settings\n\n\
         A setting of `orrery start` is an option of the command line, a variable of the \
         environment, or a key of the configuration file, in this order of precedence.\n\
         [Configure a server](../how-to/configure.md) explains the file.\n"
    );
    for group in groups() {
        let _ = write!(
            page,
            "\n## {group}\n\n\
             | option | variable | key | type in the file | default | meaning |\n\
             |---|---|---|---|---|---|\n"
        );
        let of_group = settings::keys(start).filter(|(key, _)| group_of(key) == group);
        add_settings(&mut page, of_group);
    }
    page
}

/// Adds the rows of settings.
fn add_settings<'a>(page: &mut String, settings: impl Iterator<Item = (&'a str, &'a Arg)>) {
    for (key, option) in settings {
        if !is_shown(option) {
            continue;
        }
        let kind = match KeyKind::of(option) {
            KeyKind::Flag => "true or false",
            KeyKind::One => "text or number",
            KeyKind::Many => "text or array of texts",
        };
        let key = match option.is_hide_env_values_set() {
            true => "none: a secret".to_owned(),
            false => format!("`{key}`"),
        };
        let _ = writeln!(
            page,
            "| `--{}` | {} | {key} | {kind} | {} | {} |",
            option.get_long().unwrap_or_default(),
            variable(option),
            default(option),
            meaning(option)
        );
    }
}

fn is_shown(option: &Arg) -> bool {
    !option.is_hide_set() && !["help", "version"].contains(&option.get_id().as_str())
}

/// Returns an option or argument as a usage line shows it.
fn synopsis(option: &Arg) -> String {
    let names = option.get_value_names().unwrap_or_default();
    let values: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let values = values.join(" ");
    match option.get_long() {
        Some(long) if may_lack_value(option) => format!("--{long} [{values}]"),
        Some(long) if option.get_action().takes_values() => format!("--{long} {values}"),
        Some(long) => format!("--{long}"),
        None => values,
    }
}

/// Returns true if an option stands with a value or without one.
fn may_lack_value(option: &Arg) -> bool {
    let values = option.get_num_args();
    option.get_action().takes_values() && values.is_some_and(|values| values.min_values() == 0)
}

fn variable(option: &Arg) -> String {
    match option.get_env() {
        Some(name) => format!("`{}`", name.to_string_lossy()),
        None => String::new(),
    }
}

fn default(option: &Arg) -> String {
    if !option.get_action().takes_values() {
        return "off".to_owned();
    }
    let values = option.get_default_values().iter();
    let values: Vec<String> = values
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    cell(&values.join(", "))
}

/// Returns the help text of an option, with the values that it may have.
fn meaning(option: &Arg) -> String {
    let help = option
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut text = cell(&one_line(&help));
    if option.get_action().takes_values() {
        for value in option.get_possible_values() {
            let help = value
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = write!(text, "<br>**{}**", value.get_name());
            if !help.is_empty() {
                let _ = write!(text, ": {}", cell(&one_line(&help)));
            }
        }
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a text as a cell of a table of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('*', "\\*")
}

fn page_path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    root.join(name)
}

#[test]
fn the_reference_pages_have_every_command_and_setting() {
    for (name, page) in [
        ("command-line.md", command_line()),
        ("settings.md", settings_page()),
    ] {
        let path = page_path(name);
        if std::env::var_os("ORRERY_BLESS").is_some() {
            let directory = path.parent().expect("a directory");
            std::fs::create_dir_all(directory).expect("it is created");
            std::fs::write(&path, &page).expect("it is written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page,
            "docs/reference/{name} is out of date: write it with `cargo xtask reference`"
        );
    }
}
