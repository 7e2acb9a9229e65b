//! Reads the settings of the table from options, switches and variables of the environment.
//!
//! An option counts before a switch on the command line, a switch before a variable, and a
//! variable before a switch in `AZURE_COSMOS_EMULATOR_ARGS`. A variable that is empty, or `None`,
//! is not set: compose files and modules pass such values for settings that their users left out.

use super::table::{Effect, PREFIX, SETTINGS, Setting};
use orrery_server::Failure;
use std::collections::BTreeMap;
use std::str::FromStr;

/// A value and the place that it comes from.
struct Value {
    text: String,
    source: String,
    is_secret: bool,
}

/// The settings that have a value.
#[derive(Default)]
pub(crate) struct Values {
    values: BTreeMap<&'static str, Value>,
    /// Variables with the vendor's prefix that are not in the table.
    pub(crate) unknown_variables: Vec<String>,
}

impl Values {
    /// Reads all settings.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a setting that is refused, an unknown switch, or a secret on the
    /// command line.
    pub(crate) fn read(
        options: &[(&'static str, String)],
        switches: &[String],
        environment: &[(String, String)],
    ) -> Result<Self, Failure> {
        let mut values = Values::default();
        for (option, text) in options {
            let setting = SETTINGS.iter().find(|setting| setting.option == *option);
            if let Some(setting) = setting {
                values.set(setting, text, format!("the option --{option}"))?;
            }
        }
        for switch in switches {
            values.read_switch(switch, true)?;
        }
        for setting in SETTINGS {
            for variable in setting.variables {
                if let Some((_, text)) = environment.iter().find(|(name, _)| name == variable) {
                    values.set(setting, text, format!("the variable {variable}"))?;
                }
            }
        }
        if let Some(switches) = values.text("args") {
            // All users of the machine see the options of a program, and not its variables.
            let is_visible = options.iter().any(|(option, _)| *option == "args");
            let switches = switches.to_owned();
            for switch in switches.split_whitespace() {
                values.read_switch(switch, is_visible)?;
            }
        }
        for (name, _) in environment {
            let is_known = SETTINGS.iter().any(|one| one.has_variable(name));
            if name.starts_with(PREFIX) && !is_known {
                values.unknown_variables.push(name.clone());
            }
        }
        Ok(values)
    }

    /// Reads a switch such as `/partitioncount=50`.
    fn read_switch(&mut self, switch: &str, is_visible: bool) -> Result<(), Failure> {
        let bare = switch.trim_matches('"').trim_start_matches(['/', '-']);
        let (name, value) = bare.split_once('=').unwrap_or((bare, "true"));
        let name = name.to_lowercase();
        let setting = SETTINGS
            .iter()
            .find(|one| one.switches.contains(&name.as_str()));
        let Some(setting) = setting else {
            let known: Vec<String> = SETTINGS
                .iter()
                .flat_map(|setting| setting.switches)
                .map(|switch| format!("/{switch}"))
                .collect();
            return Err(Failure::Usage(format!(
                "there is no switch '/{name}': the switches are {}",
                known.join(", ")
            )));
        };
        if setting.is_secret() && is_visible {
            return Err(Failure::Usage(format!(
                "the switch /{name} would show a secret to all users of this machine: use the \
                 variable {} or --key-file",
                setting.variables.first().unwrap_or(&"")
            )));
        }
        self.set(
            setting,
            value.trim_matches('"'),
            format!("the switch /{name}"),
        )
    }

    /// Sets a value, unless a source that counts before this one has set it.
    fn set(
        &mut self,
        setting: &'static Setting,
        text: &str,
        source: String,
    ) -> Result<(), Failure> {
        let text = text.trim();
        let is_unset = text.is_empty() || text.eq_ignore_ascii_case("none");
        if is_unset || self.values.contains_key(setting.option) {
            return Ok(());
        }
        let asks = !matches!(parse_bool(text), Some(false));
        if let Effect::Refused(reason) = setting.effect
            && asks
        {
            let reason = reason.trim_end_matches('.');
            return Err(Failure::Usage(format!("{source} is refused. {reason}")));
        }
        let value = Value {
            text: text.to_owned(),
            source,
            is_secret: setting.is_secret(),
        };
        self.values.insert(setting.option, value);
        Ok(())
    }

    /// Returns the text of a setting.
    pub(crate) fn text(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(|value| value.text.as_str())
    }

    /// Returns the place that the value of a setting comes from.
    pub(crate) fn source(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(|value| value.source.as_str())
    }

    /// Returns the failure of a setting whose value is not valid.
    pub(crate) fn invalid(&self, option: &str, problem: &str) -> Failure {
        let Some(value) = self.values.get(option) else {
            return Failure::Usage(format!("--{option}: {problem}"));
        };
        let shown = if value.is_secret { "…" } else { &value.text };
        Failure::Usage(format!("{} is '{shown}': {problem}", value.source))
    }

    /// Parses the value of a setting.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the source of the value and what is `expected`.
    pub(crate) fn parse<T: FromStr>(
        &self,
        option: &str,
        expected: &str,
    ) -> Result<Option<T>, Failure> {
        match self.text(option).map(str::parse) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => Err(self.invalid(option, &format!("expected {expected}"))),
        }
    }

    /// Returns a setting that is on or off.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the value is neither.
    pub(crate) fn flag(&self, option: &str) -> Result<Option<bool>, Failure> {
        match self.text(option) {
            None => Ok(None),
            Some(text) => match parse_bool(text) {
                Some(flag) => Ok(Some(flag)),
                None => Err(self.invalid(option, "expected true or false")),
            },
        }
    }
}

/// Parses the spellings of true and false in shells, compose files and languages.
fn parse_bool(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}
