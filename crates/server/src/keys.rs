//! The account's keys: the well-known one, or those of a file.
//!
//! ```text
//! # a remark
//! primary: <key>              the name may be left out on the first line
//! secondary: <key>            and, if wanted, these, in any order
//! primary-read-only: <key>
//! secondary-read-only: <key>
//! ```

use crate::command::KeyKind;
use crate::failure::Failure;
use orrery_gateway::{Keys, KeysError, WELL_KNOWN_KEY};
use std::net::IpAddr;
use std::path::Path;

/// Keys for the gateway, and the primary one to show.
pub(crate) struct AccountKeys {
    /// What signatures are checked with.
    pub(crate) keys: Keys,
    /// The primary key's text.
    pub(crate) primary: String,
    /// Whether it is the key that everybody knows.
    pub(crate) well_known: bool,
}

/// Reads the keys.
///
/// # Errors
/// The file cannot be read or holds no keys; or the well-known key would guard a port that other machines reach.
pub(crate) fn load(file: Option<&Path>, listen: IpAddr) -> Result<AccountKeys, Failure> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            Failure::Failed(format!(
                "cannot read the key file {}: {error}",
                file.display()
            ))
        })?,
        None => WELL_KNOWN_KEY.to_owned(),
    };
    let account = parse(&text).map_err(|why| match file {
        Some(file) => Failure::Failed(format!(
            "the key file {} is not usable: {why}",
            file.display()
        )),
        None => Failure::Failed(why),
    })?;
    if account.well_known && !listen.is_loopback() {
        return Err(Failure::Usage(format!(
            "{listen} can be reached from other machines, and everybody knows the emulator's key. Give the account a \
             key of its own with --key-file (see 'orrery start --help'), or listen on 127.0.0.1."
        )));
    }
    Ok(account)
}

impl KeyKind {
    pub(crate) const ALL: [KeyKind; 4] = [
        KeyKind::Primary,
        KeyKind::Secondary,
        KeyKind::PrimaryReadOnly,
        KeyKind::SecondaryReadOnly,
    ];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyKind::Primary => "primary",
            KeyKind::Secondary => "secondary",
            KeyKind::PrimaryReadOnly => "primary-read-only",
            KeyKind::SecondaryReadOnly => "secondary-read-only",
        }
    }
}

/// Whether a line of a key file holds no key.
pub(crate) fn is_remark(line: &str) -> bool {
    line.trim().is_empty() || line.trim().starts_with('#')
}

/// Reads a line of a key file. The first key may stand there without its name.
///
/// # Errors
/// It names no key that there is.
pub(crate) fn read_line(line: &str, first: bool) -> Result<(KeyKind, &str), String> {
    match line.split_once(':') {
        None if first => Ok((KeyKind::Primary, line.trim())),
        None => Err("a line after the first has no 'name: key'".into()),
        Some((name, key)) => {
            let kind = KeyKind::ALL
                .into_iter()
                .find(|kind| kind.name() == name.trim());
            Ok((
                kind.ok_or_else(|| format!("there is no key called '{}'", name.trim()))?,
                key.trim(),
            ))
        }
    }
}

/// Reads the text of a key file.
///
/// # Errors
/// It has no primary key, or says something else.
pub(crate) fn parse(text: &str) -> Result<AccountKeys, String> {
    let lines = text.lines().filter(|line| !is_remark(line)).enumerate();
    let read = lines
        .map(|(i, line)| read_line(line, i == 0))
        .collect::<Result<Vec<_>, _>>()?;
    let Some((KeyKind::Primary, primary)) = read.first().copied() else {
        return Err(if read.is_empty() {
            "it is empty"
        } else {
            "the primary key does not stand first"
        }
        .into());
    };
    let wrong =
        |kind: KeyKind, error: KeysError| format!("the {} key is wrong: {error}", kind.name());
    let mut keys = Keys::new(primary).map_err(|error| wrong(KeyKind::Primary, error))?;
    for (i, (kind, key)) in read.iter().copied().enumerate().skip(1) {
        if read[..i].iter().any(|(other, _)| *other == kind) {
            return Err(format!("the {} key stands there twice", kind.name()));
        }
        keys = match kind {
            KeyKind::Primary | KeyKind::Secondary => keys.with_full_key(key),
            KeyKind::PrimaryReadOnly | KeyKind::SecondaryReadOnly => keys.with_read_only_key(key),
        }
        .map_err(|error| wrong(kind, error))?;
    }
    let well_known = read.iter().any(|(_, key)| *key == WELL_KNOWN_KEY);
    Ok(AccountKeys {
        keys,
        primary: primary.to_owned(),
        well_known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const OWN: &str = "c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=";

    #[test]
    fn the_well_known_key_guards_only_this_machine() {
        assert!(
            load(None, Ipv4Addr::LOCALHOST.into())
                .expect("it is loopback")
                .well_known
        );
        let refused = load(None, Ipv4Addr::UNSPECIFIED.into())
            .map(|k| k.primary)
            .expect_err("refused");
        assert!(
            matches!(&refused, Failure::Usage(told) if told.contains("--key-file")),
            "{refused}"
        );
    }

    #[test]
    fn the_well_known_key_cannot_hide_in_a_file() {
        assert!(
            parse(&format!("{OWN}\nsecondary: {WELL_KNOWN_KEY}\n"))
                .expect("keys")
                .well_known
        );
        assert!(
            parse(&format!("# mine\n{WELL_KNOWN_KEY}\n"))
                .expect("keys")
                .well_known
        );
    }

    #[test]
    fn a_file_may_hold_four_keys() {
        let text = format!(
            "primary: {OWN}\nsecondary: {OWN}\nprimary-read-only: {OWN}\nsecondary-read-only: {OWN}\n"
        );
        let account = parse(&text).expect("keys");
        assert_eq!(account.primary, OWN);
        assert!(!account.well_known);
    }

    #[test]
    fn a_file_without_keys_says_what_is_wrong() {
        for (text, part) in [
            ("", "empty"),
            ("hello", "primary"),
            ("AAAA", "primary"),
            ("secondary: AAAA", "first"),
        ] {
            let why = parse(text).map(|k| k.primary).expect_err(text);
            assert!(why.contains(part), "{why}");
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
