//! The account keys: the well-known key of the emulator, or the keys in a file.
//!
//! ```text
//! # comment
//! primary: <key>              on the first line the name may be left out
//! secondary: <key>            optional, in any order
//! primary-read-only: <key>
//! secondary-read-only: <key>
//! ```

use crate::address::{Listen, reachable_by_others};
use crate::config::ServerConfig;
use crate::failure::Failure;
use orrery_client::files::read_text;
use orrery_gateway::{Keys, KeysError, WELL_KNOWN_KEY};
use std::path::Path;

/// The kinds of keys of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Full access.
    Primary,
    /// Full access.
    Secondary,
    /// Read access.
    PrimaryReadOnly,
    /// Read access.
    SecondaryReadOnly,
}

/// The keys of an account.
#[derive(Clone)]
pub struct AccountKeys {
    /// Keys with which the gateway checks signatures.
    pub keys: Keys,
    /// Text of the primary key, for the announcement.
    pub primary: String,
    /// Text of a key with read access, if there is one.
    pub(crate) read_only: Option<String>,
    /// True if one of the keys is the well-known key of the emulator.
    pub has_well_known_key: bool,
}

/// Loads the keys from `file`, or returns the well-known key if there is no file.
///
/// # Errors
/// [`Failure::Failed`] if the file cannot be read or is not a key file; [`Failure::Usage`] if one
/// of the keys is the well-known key and there is an address that other machines can reach.
pub(crate) fn load(
    file: Option<&Path>,
    reachable_by_others: Option<Listen>,
) -> Result<AccountKeys, Failure> {
    let account_keys = match file {
        Some(file) => {
            let text = read_text(file).map_err(|error| {
                Failure::Failed(format!(
                    "cannot read the key file {}: {error}",
                    file.display()
                ))
            })?;
            parse(&text).map_err(|cause| {
                Failure::Failed(format!(
                    "the key file {} is not usable: {cause}",
                    file.display()
                ))
            })?
        }
        None => parse(WELL_KNOWN_KEY).map_err(Failure::Failed)?,
    };
    if account_keys.has_well_known_key
        && let Some(listen) = reachable_by_others
    {
        return Err(Failure::Usage(format!(
            "other machines can reach {listen}, and the emulator's key is publicly known: set an \
             account key with --key-file (see 'orrery start --help'), or listen on 127.0.0.1; in \
             the place of the emulator, run 'orrery emulator'"
        )));
    }
    Ok(account_keys)
}

/// Loads the keys of a server.
///
/// # Errors
/// Those of [`load`], and a key in a variable of the environment that is no key.
pub(crate) fn of_server(config: &ServerConfig) -> Result<AccountKeys, Failure> {
    let Some(emulator) = &config.emulator else {
        let reachable = reachable_by_others(&config.clients.listen);
        return load(config.account.key_file.as_deref(), reachable);
    };
    match &emulator.key {
        Some(key) => parse(key.reveal()).map_err(|cause| {
            Failure::Usage(format!(
                "the variable AZURE_COSMOS_EMULATOR_KEY, or the switch /key, is not usable: {cause}"
            ))
        }),
        None => load(config.account.key_file.as_deref(), None),
    }
}

impl KeyKind {
    /// All kinds, in the order of a new key file.
    pub const ALL: [KeyKind; 4] = [
        KeyKind::Primary,
        KeyKind::Secondary,
        KeyKind::PrimaryReadOnly,
        KeyKind::SecondaryReadOnly,
    ];

    /// Returns the name of the key in a key file.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Primary => "primary",
            KeyKind::Secondary => "secondary",
            KeyKind::PrimaryReadOnly => "primary-read-only",
            KeyKind::SecondaryReadOnly => "secondary-read-only",
        }
    }
}

/// Returns true if a line of a key file is a comment or blank.
fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.trim().starts_with('#')
}

/// Parses a line of a key file that is not a comment. The first such line may hold the primary key
/// without its name.
///
/// # Errors
/// The line has no name where a name is required, or an unknown name.
fn parse_line(line: &str, is_first: bool) -> Result<(KeyKind, &str), String> {
    let Some((name, key)) = line.split_once(':') else {
        if is_first {
            return Ok((KeyKind::Primary, line.trim()));
        }
        return Err("a line after the first does not have the form 'name: key'".into());
    };
    for kind in KeyKind::ALL {
        if kind.name() == name.trim() {
            return Ok((kind, key.trim()));
        }
    }
    Err(format!("there is no key named '{}'", name.trim()))
}

/// Parses the text of a key file.
///
/// # Errors
/// The primary key does not come first, a key is not valid, a key is named twice, or a line cannot
/// be parsed.
pub fn parse(text: &str) -> Result<AccountKeys, String> {
    let mut entries = Vec::new();
    for line in text.lines().filter(|line| !is_comment(line)) {
        entries.push(parse_line(line, entries.is_empty())?);
    }
    let Some(&(first_kind, primary)) = entries.first() else {
        return Err("it is empty".into());
    };
    if first_kind != KeyKind::Primary {
        return Err("the primary key does not come first".into());
    }

    let is_read_only = |entry: &&(KeyKind, &str)| {
        matches!(
            entry.0,
            KeyKind::PrimaryReadOnly | KeyKind::SecondaryReadOnly
        )
    };
    // The gateway does not tell primary from secondary keys, so duplicates are found here.
    let invalid =
        |kind: KeyKind, error: KeysError| format!("the {} key is invalid: {error}", kind.name());
    let mut keys = Keys::new(primary).map_err(|error| invalid(KeyKind::Primary, error))?;
    for (index, &(kind, key)) in entries.iter().enumerate().skip(1) {
        if entries[..index].iter().any(|(other, _)| *other == kind) {
            return Err(format!("the {} key is named twice", kind.name()));
        }
        let extended = match kind {
            KeyKind::Primary | KeyKind::Secondary => keys.with_full_key(key),
            KeyKind::PrimaryReadOnly | KeyKind::SecondaryReadOnly => keys.with_read_only_key(key),
        };
        keys = extended.map_err(|error| invalid(kind, error))?;
    }
    Ok(AccountKeys {
        keys,
        primary: primary.to_owned(),
        read_only: entries
            .iter()
            .find(is_read_only)
            .map(|(_, key)| (*key).to_owned()),
        has_well_known_key: entries.iter().any(|(_, key)| *key == WELL_KNOWN_KEY),
    })
}

/// Returns the text of a key file with another key of one kind; adds the key if there is none of
/// this kind. Comments and other keys stay as they are.
///
/// # Errors
/// A line of the text cannot be parsed.
pub fn with_key(text: &str, kind: KeyKind, key: &str) -> Result<String, String> {
    let mut new_text = String::new();
    let mut is_first = true;
    let mut is_replaced = false;
    for line in text.lines() {
        if is_comment(line) {
            new_text.push_str(line);
        } else {
            let (line_kind, _) = parse_line(line, is_first)?;
            is_first = false;
            if line_kind == kind {
                is_replaced = true;
                new_text.push_str(&format!("{}: {key}", kind.name()));
            } else {
                new_text.push_str(line);
            }
        }
        new_text.push('\n');
    }
    if !is_replaced {
        new_text.push_str(&format!("{}: {key}\n", kind.name()));
    }
    Ok(new_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=";
    const OTHER: &str = "YW5vdGhlciBrZXkgb2YgbXkgb3duIQ==";

    #[test]
    fn the_well_known_key_guards_only_this_machine() {
        assert!(load(None, None).expect("it is loopback").has_well_known_key);
        let refused = load(None, Some(Listen::Everywhere(8081)))
            .map(|k| k.primary)
            .expect_err("refused");
        assert!(
            matches!(&refused, Failure::Usage(message) if message.contains("--key-file")),
            "{refused}"
        );
    }

    #[test]
    fn the_well_known_key_is_recognized_in_a_file() {
        assert!(
            parse(&format!("{OWN}\nsecondary: {WELL_KNOWN_KEY}\n"))
                .expect("keys")
                .has_well_known_key
        );
        assert!(
            parse(&format!("# mine\n{WELL_KNOWN_KEY}\n"))
                .expect("keys")
                .has_well_known_key
        );
    }

    #[test]
    fn a_file_may_hold_four_keys() {
        let text = format!(
            "primary: {OWN}\nsecondary: {OWN}\nprimary-read-only: {OWN}\n\
             secondary-read-only: {OWN}\n"
        );
        let account = parse(&text).expect("keys");
        assert_eq!(account.primary, OWN);
        assert!(!account.has_well_known_key);
    }

    #[test]
    fn one_key_is_replaced_and_everything_else_stays() {
        let text = format!("# mine\n{OWN}\n\nsecondary: {OWN}\n");
        let with = |kind| with_key(&text, kind, OTHER).expect("a key file");
        assert_eq!(
            with(KeyKind::Primary),
            format!("# mine\nprimary: {OTHER}\n\nsecondary: {OWN}\n")
        );
        assert_eq!(
            with(KeyKind::Secondary),
            format!("# mine\n{OWN}\n\nsecondary: {OTHER}\n")
        );
        assert_eq!(
            with(KeyKind::PrimaryReadOnly),
            format!("{text}primary-read-only: {OTHER}\n")
        );
    }

    #[test]
    fn a_text_that_is_not_a_key_file_is_refused_with_the_reason() {
        for (text, part) in [
            ("", "empty"),
            ("hello", "primary"),
            ("AAAA", "primary"),
            ("secondary: AAAA", "first"),
        ] {
            let cause = parse(text).map(|k| k.primary).expect_err(text);
            assert!(cause.contains(part), "{cause}");
        }
        assert!(
            parse(&format!("{OWN}\nprimary: {OWN}"))
                .map(|k| k.primary)
                .expect_err("two")
                .contains("twice")
        );
        assert!(
            parse(&format!("{OWN}\n{OWN}"))
                .map(|k| k.primary)
                .expect_err("no name")
                .contains("name: key")
        );
        assert!(
            parse(&format!("{OWN}\nthird: {OWN}"))
                .map(|k| k.primary)
                .expect_err("third")
                .contains("third")
        );
    }
}
