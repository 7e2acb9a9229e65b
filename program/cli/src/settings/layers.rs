//! The value of each setting, and the source that it comes from.

use super::file::{self, Entry, SettingsFile, Value};
use super::{KeyKind, keys, start_command};
use crate::command::Program;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory};
use orrery_server::Failure;
use orrery_server::data_dir::absolute_path;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The sources of the settings of one start.
pub(super) struct Layers {
    start: Command,
    /// The settings of command line, environment and defaults; errors are not in it.
    matches: ArgMatches,
    file: Option<SettingsFile>,
}

/// The source of a value, the strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    CommandLine,
    /// The variable with this name.
    Environment(String),
    /// A line of the file.
    File(usize),
    Default,
}

/// A setting as a server would use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) key: String,
    /// The value; `None` if the setting has none.
    pub(super) value: Option<Value>,
    pub(super) source: Source,
    pub(super) kind: KeyKind,
    /// The help text.
    pub(super) help: String,
    /// True if the value must not be shown.
    pub(super) is_secret: bool,
    /// True if another setting is set that excludes this one.
    pub(super) is_excluded: bool,
}

impl Layers {
    /// Returns the sources for a command line of the program; `None` if its command is not `start`,
    /// or if it is for clap alone, such as `--help`.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is a file that cannot be used.
    pub(super) fn of(line: &[OsString]) -> Result<Option<Self>, Failure> {
        // Options of the file may complete those of the line, so errors wait for the whole line.
        let program = Program::command().ignore_errors(true);
        let Ok(mut matches) = program.try_get_matches_from(line) else {
            return Ok(None);
        };
        let matches = match matches.remove_subcommand() {
            Some((name, matches)) if name == "start" => matches,
            _ => return Ok(None),
        };
        let start = start_command();
        let file = match file_of(&matches) {
            Some(path) => Some(SettingsFile::read(&path, &start)?),
            None => None,
        };
        Ok(Some(Layers {
            start,
            matches,
            file,
        }))
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// Returns the command line with the options of the file behind it.
    pub(super) fn whole_line(&self, mut line: Vec<OsString>) -> Vec<OsString> {
        let Some(file) = &self.file else {
            return line;
        };
        // A file in its usual place is named, so that the server can say what it read.
        if source(&self.matches, "config").is_none() {
            let mut option = OsString::from("--config=");
            option.push(&file.path);
            line.push(option);
        }
        for entry in self.used_entries() {
            line.extend(file::options(&entry.key, &entry.value));
        }
        line
    }

    /// Returns the entries of the file that no stronger source replaces or excludes.
    fn used_entries(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.file.iter().flat_map(|file| &file.entries);
        entries.filter(|entry| {
            let option = self.start.get_arguments().find(|o| is_key(o, &entry.key));
            option.is_some_and(|option| self.is_open(option))
        })
    }

    /// Returns true if neither this option nor one that it excludes is set by the command line or
    /// the environment.
    fn is_open(&self, option: &Arg) -> bool {
        let mut stronger = self
            .start
            .get_arguments()
            .filter(|other| source(&self.matches, other.get_id().as_str()).is_some());
        !stronger.any(|other| other.get_id() == option.get_id() || self.exclude(option, other))
    }

    /// Returns true if two options exclude each other.
    fn exclude(&self, one: &Arg, other: &Arg) -> bool {
        let names = |one: &Arg, other: &Arg| {
            let excluded = self.start.get_arg_conflicts_with(one);
            excluded
                .iter()
                .any(|option| option.get_id() == other.get_id())
        };
        names(one, other) || names(other, one)
    }

    /// Returns the failure that names the line of the file, if an error is about one.
    pub(super) fn fault_of_file(&self, error: &clap::Error) -> Option<Failure> {
        let path = self.path()?;
        let entry = self
            .used_entries()
            .find(|entry| file::names_key(error, &entry.key))?;
        Some(file::unusable_line(path, entry.line, file::sentence(error)))
    }

    /// Returns all settings, in the order of the help text.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let used: Vec<&Entry> = self.used_entries().collect();
        let is_set = |option: &&Arg| {
            source(&self.matches, option.get_id().as_str()).is_some()
                || used
                    .iter()
                    .any(|entry| is_key(option, &entry.key) && entry.value != Value::Flag(false))
        };
        let set: Vec<&Arg> = self.start.get_arguments().filter(is_set).collect();
        let setting = |(key, option): (&str, &Arg)| {
            let entry = used.iter().find(|entry| entry.key == key);
            let id = option.get_id().as_str();
            let (value, source) = match (source(&self.matches, id), entry) {
                (Some(ValueSource::EnvVariable), _) => {
                    let variable = option.get_env().unwrap_or_default();
                    let variable = variable.to_string_lossy().into_owned();
                    (self.value(option), Source::Environment(variable))
                }
                (Some(_), _) => (self.value(option), Source::CommandLine),
                (None, Some(entry)) => (Some(entry.value.clone()), Source::File(entry.line)),
                (None, None) => (self.value(option), Source::Default),
            };
            let help = option.get_help().map(ToString::to_string);
            Setting {
                key: key.to_owned(),
                value,
                source,
                kind: KeyKind::of(option),
                help: help.unwrap_or_default(),
                is_secret: option.is_hide_env_values_set(),
                is_excluded: set.iter().any(|other| self.exclude(option, other)),
            }
        };
        let shown = keys(&self.start).filter(|(_, option)| !option.is_hide_set());
        shown.map(setting).collect()
    }

    /// Returns the value that command line, environment and defaults give to an option.
    fn value(&self, option: &Arg) -> Option<Value> {
        let id = option.get_id().as_str();
        if KeyKind::of(option) == KeyKind::Flag {
            return Some(Value::Flag(self.matches.get_flag(id)));
        }
        let texts: Vec<String> = match self.matches.get_raw(id) {
            Some(raw) => raw
                .map(|text| text.to_string_lossy().into_owned())
                .collect(),
            None => Vec::new(),
        };
        (!texts.is_empty()).then_some(Value::Texts(texts))
    }
}

fn is_key(option: &Arg, key: &str) -> bool {
    option.get_long() == Some(key)
}

/// Returns the source of an option that is set by the command line or the environment.
fn source(matches: &ArgMatches, id: &str) -> Option<ValueSource> {
    let source = matches.value_source(id)?;
    (source != ValueSource::DefaultValue).then_some(source)
}

/// Returns the path of the file: the one that is named, or the user's own if it exists.
fn file_of(matches: &ArgMatches) -> Option<PathBuf> {
    if let Some(named) = matches.get_one::<PathBuf>("config") {
        return Some(named.clone());
    }
    let own = user_configuration()?;
    own.is_file().then_some(own)
}

/// Returns the path of the user's own configuration file, whether it exists or not; `None` if the
/// user has no home directory.
fn user_configuration() -> Option<PathBuf> {
    let own = absolute_path("XDG_CONFIG_HOME").or_else(|| {
        let home = absolute_path("HOME").or_else(|| absolute_path("USERPROFILE"))?;
        Some(home.join(".config"))
    })?;
    Some(own.join("orrery").join("orrery.toml"))
}
