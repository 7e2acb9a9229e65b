//! `orrery config`: prints the settings of a server, and checks a configuration file.

use super::file::Value;
use super::layers::{Layers, Setting, Source};
use crate::command::{ConfigAction, ConfigArguments, ConfigFormat, Program, ShowArguments};
use clap::Parser;
use orrery_model::{Json, object};
use orrery_server::Failure;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// Runs `orrery config`.
///
/// # Errors
/// [`Failure::Usage`] if the settings cannot be used; [`Failure::Failed`] if standard output cannot
/// be written.
pub(crate) fn run(arguments: &ConfigArguments) -> Result<(), Failure> {
    match &arguments.action {
        ConfigAction::Show(arguments) => show(arguments),
        ConfigAction::Check { file } => check(file),
    }
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let layers = checked_layers(&arguments.options)?;
    let settings = layers.settings();
    print(&match arguments.format {
        ConfigFormat::Toml => toml(&settings, layers.path(), arguments.effective),
        ConfigFormat::Json => json(&settings, layers.path()),
    })
}

/// Checks a file alone, and together with what the environment sets.
fn check(file: &Path) -> Result<(), Failure> {
    let options = [OsString::from("--config"), file.as_os_str().to_owned()];
    let layers = checked_layers(&options)?;
    let of_file = |setting: &Setting| matches!(setting.source, Source::File(_));
    let count = layers.settings().into_iter().filter(of_file).count();
    print(&format!(
        "{} can be used; settings in effect from it: {count}\n",
        file.display()
    ))
}

/// Returns the sources for a start with options.
fn checked_layers(options: &[OsString]) -> Result<Layers, Failure> {
    let mut line: Vec<OsString> = vec!["orrery".into(), "start".into()];
    line.extend_from_slice(options);
    let Some(layers) = Layers::of(&line)? else {
        // clap explains the options itself, as 'orrery start' would.
        return match Program::try_parse_from(line) {
            Err(error) => error.exit(),
            Ok(_) => Err(Failure::Usage(
                "these are no options of 'orrery start'".into(),
            )),
        };
    };
    match Program::try_parse_from(layers.whole_line(line)) {
        Ok(_) => Ok(layers),
        Err(error) => match layers.fault_of_file(&error) {
            Some(failure) => Err(failure),
            None => error.exit(),
        },
    }
}

/// Returns the settings as a configuration file.
fn toml(settings: &[Setting], path: Option<&Path>, effective: bool) -> String {
    let mut text = String::from("# Settings of 'orrery start'");
    // Writing to a string cannot fail.
    let _ = match path {
        Some(path) => writeln!(text, ", with the configuration file {}", path.display()),
        None => writeln!(text, ", without a configuration file"),
    };
    for setting in settings {
        let value = match &setting.value {
            Some(_) if setting.is_secret => "(not shown)".to_owned(),
            Some(value) => toml_value(value),
            None => String::new(),
        };
        let is_default = setting.source == Source::Default;
        // An option without a value, a secret, and a default that another setting excludes cannot
        // stand in a file.
        let is_comment = (is_default && (!effective || setting.is_excluded))
            || value.is_empty()
            || setting.is_secret;
        let _ = writeln!(
            text,
            "\n# {}\n{}{} = {value}{}# {}",
            setting.help.replace('\n', " "),
            if is_comment { "# " } else { "" },
            setting.key,
            if value.is_empty() { "" } else { "  " },
            origin(&setting.source),
        );
    }
    text
}

/// Returns a value as TOML. Numbers stand without quotes.
fn toml_value(value: &Value) -> String {
    let one = |text: &String| match text.parse::<i64>() {
        Ok(number) if number.to_string() == *text => text.clone(),
        _ => quoted(text),
    };
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Texts(texts) if texts.len() == 1 => one(&texts[0]),
        Value::Texts(texts) => {
            let list: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", list.join(", "))
        }
    }
}

/// Returns a text in quotes. A string of JSON is one of TOML too.
fn quoted(text: &str) -> String {
    Json::from(text).to_text()
}

fn origin(source: &Source) -> String {
    match source {
        Source::CommandLine => "command line".to_owned(),
        Source::Environment(variable) => format!("environment, {variable}"),
        Source::File(line) => format!("file, line {line}"),
        Source::Default => "default".to_owned(),
    }
}

/// Returns the settings as an object with the path of the file and an array.
fn json(settings: &[Setting], path: Option<&Path>) -> String {
    let mut list = Vec::new();
    for setting in settings {
        let value = match &setting.value {
            Some(_) if setting.is_secret => Json::Null,
            Some(Value::Flag(flag)) => Json::Bool(*flag),
            Some(Value::Texts(texts)) if setting.kind == super::KeyKind::Many => {
                Json::Array(texts.iter().cloned().map(Json::from).collect())
            }
            Some(Value::Texts(texts)) => Json::from(texts.join(",")),
            None => Json::Null,
        };
        let source = match &setting.source {
            Source::CommandLine => "command line",
            Source::Environment(_) => "environment",
            Source::File(_) => "file",
            Source::Default => "default",
        };
        let mut entry = object! {
            "key" => setting.key.as_str(),
            "value" => value,
            "source" => source,
        };
        match &setting.source {
            Source::Environment(variable) => entry.set("variable", variable.as_str()),
            Source::File(line) => entry.set("line", *line),
            _ => {}
        }
        list.push(Json::Object(entry));
    }
    let path = path.map(|path| path.display().to_string());
    let all = object! {
        "file" => path.map_or(Json::Null, Json::from),
        "settings" => Json::Array(list),
    };
    format!("{}\n", Json::Object(all).to_text())
}

fn print(text: &str) -> Result<(), Failure> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}
