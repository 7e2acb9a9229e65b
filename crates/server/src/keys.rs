//! The account's keys: the well-known one, or those of a file.

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
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::Failed(format!("cannot read the key file {}: {error}", file.display())))?,
        None => WELL_KNOWN_KEY.to_owned(),
    };
    let account = parse(&text).map_err(|why| match file {
        Some(file) => Failure::Failed(format!("the key file {} is not usable: {why}", file.display())),
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

fn parse(text: &str) -> Result<AccountKeys, String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next().ok_or("it is empty")?;
    let primary = first.strip_prefix("primary:").unwrap_or(first).trim().to_owned();
    let wrong = |name: &str, error: KeysError| format!("the {name} key is wrong: {error}");
    let mut keys = Keys::new(&primary).map_err(|error| wrong("primary", error))?;
    let mut well_known = primary == WELL_KNOWN_KEY;
    for line in lines {
        let (name, key) = line.split_once(':').ok_or("a line after the first has no 'name: key'")?;
        let key = key.trim();
        well_known |= key == WELL_KNOWN_KEY;
        keys = match name.trim() {
            "secondary" => keys.and_full(key),
            "primary-read-only" | "secondary-read-only" => keys.and_read_only(key),
            other => return Err(format!("there is no key called '{other}'")),
        }
        .map_err(|error| wrong(name, error))?;
    }
    Ok(AccountKeys { keys, primary, well_known })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const OWN: &str = "c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=";

    #[test]
    fn the_well_known_key_guards_only_this_machine() {
        assert!(load(None, Ipv4Addr::LOCALHOST.into()).expect("it is loopback").well_known);
        let refused = load(None, Ipv4Addr::UNSPECIFIED.into()).map(|k| k.primary).expect_err("refused");
        assert!(matches!(&refused, Failure::Usage(told) if told.contains("--key-file")), "{refused}");
    }

    #[test]
    fn the_well_known_key_cannot_hide_in_a_file() {
        assert!(parse(&format!("{OWN}\nsecondary: {WELL_KNOWN_KEY}\n")).expect("keys").well_known);
        assert!(parse(&format!("# mine\n{WELL_KNOWN_KEY}\n")).expect("keys").well_known);
    }

    #[test]
    fn a_file_may_hold_four_keys() {
        let text = format!("primary: {OWN}\nsecondary: {OWN}\nprimary-read-only: {OWN}\nsecondary-read-only: {OWN}\n");
        let account = parse(&text).expect("keys");
        assert_eq!(account.primary, OWN);
        assert!(!account.well_known);
    }

    #[test]
    fn a_file_without_keys_says_what_is_wrong() {
        for (text, part) in [("", "empty"), ("hello", "primary"), ("AAAA", "primary")] {
            let why = parse(text).map(|k| k.primary).expect_err(text);
            assert!(why.contains(part), "{why}");
        }
        assert!(parse(&format!("{OWN}\nthird: {OWN}")).map(|k| k.primary).expect_err("third").contains("third"));
    }
}
