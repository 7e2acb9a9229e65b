//! What bodies may say: the rows of which each kind of resource has a table, and the check that all tables share.
//!
//! `cargo xtask compat` makes the tables in `docs/compat.md` of them.

use orrery_model::{Error, Json, Object, Result};

/// A property that a body may have.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// What becomes of it, in a sentence for people.
    pub effect: &'static str,
    becomes: Becomes,
}

#[derive(Clone, Copy, Debug)]
enum Becomes {
    Kept,
    Servers,
    Fixed,
    Refused,
    Only(&'static [&'static str]),
}

const fn row(name: &'static str, effect: &'static str, becomes: Becomes) -> Property {
    Property {
        name,
        effect,
        becomes,
    }
}

/// One that is read and kept.
pub const fn kept(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Becomes::Kept)
}

/// One that is the server's own: clients send back what they read, and it is not kept. Names that begin with `_` are
/// the server's in every body but that of an item.
pub const fn servers(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Becomes::Servers)
}

/// One that is the server's own, and must be sent back as it was read.
pub const fn fixed(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Becomes::Fixed)
}

/// One that is understood and not offered.
pub const fn refused(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Becomes::Refused)
}

/// One that may only have one of these values, given as JSON texts.
pub const fn only(
    name: &'static str,
    effect: &'static str,
    values: &'static [&'static str],
) -> Property {
    row(name, effect, Becomes::Only(values))
}

/// Whether a table has this name as one of the server's own.
pub fn is_servers(table: &[Property], name: &str) -> bool {
    table
        .iter()
        .any(|property| property.name == name && matches!(property.becomes, Becomes::Servers))
}

/// Checks a body of this kind of resource against its table. A member that is `null` counts as absent. `shown` is what
/// a read shows, for members that must come back as they were.
///
/// # Errors
/// 400 that names the member.
pub fn check(kind: &str, body: &Object, table: &[Property], shown: Option<&Object>) -> Result<()> {
    for (name, value) in body
        .iter()
        .filter(|(name, value)| **value != Json::Null && !name.starts_with('_'))
    {
        let property = table.iter().find(|property| property.name == name);
        let property = property
            .ok_or_else(|| Error::bad(format!("The {kind} property '{name}' is unknown.")))?;
        match property.becomes {
            Becomes::Kept | Becomes::Servers => {}
            Becomes::Fixed if shown.is_none_or(|shown| shown.get(name) == Some(value)) => {}
            Becomes::Fixed => {
                return Err(Error::bad(format!(
                    "The {kind} property '{name}' cannot be changed."
                )));
            }
            Becomes::Only(values) if values.contains(&value.to_text().as_str()) => {}
            Becomes::Only(_) => {
                let allowed = property.effect;
                return Err(Error::unsupported(format!(
                    "The {kind} property '{name}' ({allowed}) with the value {value}"
                )));
            }
            Becomes::Refused => {
                return Err(Error::unsupported(format!(
                    "The {kind} property '{name}' with the value {value}"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::object;

    const TABLE: &[Property] = &[
        kept("a", "kept"),
        servers("b", "the server's"),
        fixed("c", "fixed"),
        refused("d", "refused"),
        only("e", "one of two", &["1", "\"one\""]),
    ];

    fn told(name: &str, value: Json) -> Option<String> {
        let mut body = Object::new();
        body.set(name, value);
        let shown = object! { "c" => 1 };
        check("thing", &body, TABLE, Some(&shown))
            .err()
            .map(|error| error.message().to_owned())
    }

    #[test]
    fn each_row_of_a_table_says_what_becomes_of_its_property() {
        for (name, value) in [("a", 1), ("b", 1), ("c", 1), ("e", 1), ("_own", 1)] {
            assert_eq!(told(name, value.into()), None, "{name}");
        }
        for name in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(told(name, Json::Null), None, "{name}: null is nothing");
        }
        assert_eq!(
            told("c", 2.into()).as_deref(),
            Some("The thing property 'c' cannot be changed.")
        );
        assert!(
            told("d", 1.into())
                .is_some_and(|told| told.starts_with("The thing property 'd' with the value 1"))
        );
        assert!(told("e", 2.into()).is_some_and(|told| told.contains("'e'")));
        assert_eq!(told("e", "one".into()), None);
        assert_eq!(
            told("f", 1.into()).as_deref(),
            Some("The thing property 'f' is unknown.")
        );
        assert!(is_servers(TABLE, "b") && !is_servers(TABLE, "a") && !is_servers(TABLE, "f"));
    }
}
