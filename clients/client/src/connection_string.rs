//! Connection strings: `AccountEndpoint=https://…;AccountKey=…;`.
//!
//! | keyword | meaning |
//! |---|---|
//! | `AccountEndpoint` | address of the account; required |
//! | `AccountKey` | master key in base64 |
//! | `Database`, `Container` | what a command works on |
//! | `DisableServerCertificateValidation` | `True`: accept any certificate |
//!
//! Keywords stand in any order, in any case, each at most once; a `;` at the end is optional. A
//! value may stand in quotes. An unknown keyword is refused. No message contains the key.

use crate::options::Secret;

/// The parts of a connection string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionString {
    /// Address of the account.
    pub endpoint: String,
    /// Master key in base64, if the string has one.
    pub key: Option<Secret>,
    /// Name of a database.
    pub database: Option<String>,
    /// Name of a container.
    pub container: Option<String>,
    /// True if any certificate is accepted.
    pub accepts_any_certificate: bool,
}

const KEYWORDS: [&str; 5] = [
    "AccountEndpoint",
    "AccountKey",
    "Database",
    "Container",
    "DisableServerCertificateValidation",
];

impl ConnectionString {
    /// Parses a connection string.
    ///
    /// # Errors
    /// A description of the fault, without values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut values: [Option<String>; KEYWORDS.len()] = Default::default();
        for (index, part) in text.trim().split(';').enumerate() {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            let place = index + 1;
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!(
                    "part {place} of the connection string has no '=': the form is \
                     AccountEndpoint=https://…;AccountKey=…;"
                ));
            };
            let name = name.trim();
            let Some(keyword) = KEYWORDS.iter().position(|k| k.eq_ignore_ascii_case(name)) else {
                return Err(unknown_keyword(name, place));
            };
            if values[keyword].is_some() {
                return Err(format!(
                    "the connection string has {} twice",
                    KEYWORDS[keyword]
                ));
            }
            let value = unquoted(value.trim());
            if value.is_empty() {
                return Err(format!(
                    "{} in the connection string is empty",
                    KEYWORDS[keyword]
                ));
            }
            values[keyword] = Some(value.to_owned());
        }
        let [endpoint, key, database, container, any_certificate] = values;
        let endpoint = endpoint.ok_or(
            "the connection string has no AccountEndpoint: the form is \
             AccountEndpoint=https://…;AccountKey=…;",
        )?;
        if container.is_some() && database.is_none() {
            return Err("the connection string has a Container without a Database".into());
        }
        Ok(Self {
            endpoint,
            key: key.map(Secret::new),
            database,
            container,
            accepts_any_certificate: match any_certificate {
                None => false,
                Some(text) => truth(&text).ok_or(
                    "DisableServerCertificateValidation in the connection string is neither True \
                     nor False",
                )?,
            },
        })
    }
}

/// Returns the message for an unknown keyword. The keyword itself may be a part of the key, after a
/// `;` in the wrong place, and is told only if it looks like a word.
fn unknown_keyword(name: &str, place: usize) -> String {
    let known = KEYWORDS.join(", ");
    let is_word = name.len() <= 40 && name.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
    if is_word {
        format!("'{name}' is not a keyword of a connection string; the keywords are {known}")
    } else {
        format!("part {place} of the connection string has no keyword; the keywords are {known}")
    }
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value
            .strip_prefix(quote)
            .and_then(|v| v.strip_suffix(quote))
        {
            return inner;
        }
    }
    value
}

/// Parses `True`, `False`, `1` or `0` in any case.
pub(crate) fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "c2VjcmV0LXNlY3JldA==";

    #[test]
    fn keywords_stand_in_any_order_with_or_without_the_last_semicolon() {
        for text in [
            format!("AccountEndpoint=https://db.example:8081/;AccountKey={KEY};"),
            format!("AccountKey={KEY};AccountEndpoint=https://db.example:8081/"),
            format!(" accountkey = {KEY} ; ACCOUNTENDPOINT = https://db.example:8081/ ;; "),
            format!("AccountEndpoint=\"https://db.example:8081/\";AccountKey='{KEY}'"),
        ] {
            let parsed = ConnectionString::parse(&text).unwrap();
            assert_eq!(parsed.endpoint, "https://db.example:8081/", "{text}");
            assert_eq!(parsed.key.unwrap().reveal(), KEY);
            assert!(!parsed.accepts_any_certificate);
        }
    }

    #[test]
    fn a_string_may_name_a_container_and_switch_off_the_check_of_certificates() {
        let text = format!(
            "AccountEndpoint=https://localhost:8081/;AccountKey={KEY};Database=shop;\
             Container=orders;DisableServerCertificateValidation=True"
        );
        let parsed = ConnectionString::parse(&text).unwrap();
        assert_eq!(parsed.database.as_deref(), Some("shop"));
        assert_eq!(parsed.container.as_deref(), Some("orders"));
        assert!(parsed.accepts_any_certificate);
    }

    #[test]
    fn each_fault_is_told_without_the_key() {
        for (text, part) in [
            (format!("AccountKey={KEY};"), "no AccountEndpoint"),
            (String::new(), "no AccountEndpoint"),
            (
                format!("AccountEndpoint=https://a/;AccountKey;{KEY}"),
                "part 2",
            ),
            (format!("AccountEndpoint=https://a/;{KEY}"), "part 2"),
            (
                "AccountEndpoint=https://a/;AccountKey=;".into(),
                "AccountKey in the",
            ),
            (
                format!("AccountKey={KEY};AccountKey={KEY}"),
                "AccountKey twice",
            ),
            (
                "AccountEndpoint=https://a/;Databse=x".into(),
                "'Databse' is not",
            ),
            (
                "AccountEndpoint=https://a/;Container=x".into(),
                "without a Database",
            ),
            (
                "AccountEndpoint=https://a/;DisableServerCertificateValidation=maybe".into(),
                "neither True",
            ),
        ] {
            let fault = ConnectionString::parse(&text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
            assert!(!fault.contains("c2Vj"), "{fault}");
        }
        let parsed =
            ConnectionString::parse(&format!("AccountEndpoint=https://a/;AccountKey={KEY}"));
        assert!(!format!("{parsed:?}").contains(KEY));
    }
}
