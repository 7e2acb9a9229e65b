//! Tables of the properties of request bodies, and the check that all tables share.
//!
//! Each kind of resource has one table. `cargo xtask compat` makes the tables of `docs/compat.md`
//! from the rows: it reads the source text, so a row must be a call of one of the functions here
//! with string literals as its first two arguments.

use super::ids::resource_id;
use orrery_model::words::{did_you_mean, shortened};
use orrery_model::{Error, Json, Object, Result, object};

/// A property of a body.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// The name of the property.
    pub name: &'static str,
    /// The effect of the property, for the documentation and for error messages.
    pub effect: &'static str,
    treatment: Treatment,
}

/// The ways in which a property of a body is treated.
#[derive(Clone, Copy, Debug)]
enum Treatment {
    Stored,
    ServerSet,
    Immutable,
    Unsupported,
    /// The values that are accepted, as JSON texts.
    LimitedTo(&'static [&'static str]),
}

const fn row(name: &'static str, effect: &'static str, treatment: Treatment) -> Property {
    Property {
        name,
        effect,
        treatment,
    }
}

/// Creates a row for a property that is read and stored.
pub const fn stored(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Treatment::Stored)
}

/// Creates a row for a property that the server sets. Clients send it back after a read; the value
/// is ignored. In every body but that of an item, names that begin with `_` are treated like this
/// too.
pub const fn server_set(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Treatment::ServerSet)
}

/// Creates a row for a property that the server sets and that must be sent back unchanged.
pub const fn immutable(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Treatment::Immutable)
}

/// Creates a row for a property of the service that this server does not support.
pub const fn unsupported(name: &'static str, effect: &'static str) -> Property {
    row(name, effect, Treatment::Unsupported)
}

/// Creates a row for a property that is limited to certain values, given as JSON texts.
pub const fn limited_to(
    name: &'static str,
    effect: &'static str,
    values: &'static [&'static str],
) -> Property {
    row(name, effect, Treatment::LimitedTo(values))
}

/// Returns true if the table has a property of this name that the server sets.
pub fn is_server_set(table: &[Property], name: &str) -> bool {
    table
        .iter()
        .any(|property| property.name == name && matches!(property.treatment, Treatment::ServerSet))
}

/// Returns a member of a body; `None` if it is absent or `null`.
pub fn member<'b>(body: &'b Object, name: &str) -> Option<&'b Json> {
    body.get(name).filter(|value| **value != Json::Null)
}

/// Checks the body of a resource against the table of its kind. A member that is `null` counts as
/// absent. `shown` holds the values of immutable properties; without it they are not compared.
///
/// # Errors
/// 400 that names the member.
pub fn check(kind: &str, body: &Object, table: &[Property], shown: Option<&Object>) -> Result<()> {
    for (name, value) in body.iter() {
        if *value == Json::Null || name.starts_with('_') {
            continue;
        }
        // An unknown member may be a misspelt one, whose effect the client would miss.
        let Some(property) = table.iter().find(|property| property.name == name) else {
            return Err(unknown(kind, name, table));
        };
        match property.treatment {
            Treatment::Stored | Treatment::ServerSet => {}
            Treatment::Immutable => {
                if shown.is_some_and(|shown| shown.get(name) != Some(value)) {
                    let before = shown.and_then(|shown| shown.get(name));
                    return Err(Error::bad(format!(
                        "The {kind} property '{name}' cannot be changed."
                    ))
                    .with_help(format!(
                        "It is {} and would become {}.",
                        before.map_or("absent".to_owned(), |json| shortened(&json.to_text())),
                        shortened(&value.to_text())
                    )));
                }
            }
            Treatment::LimitedTo(values) => {
                if !values.contains(&value.to_text().as_str()) {
                    let effect = property.effect;
                    return Err(Error::unsupported(format!(
                        "The {kind} property '{name}' ({effect}) with the value {value}"
                    )));
                }
            }
            Treatment::Unsupported => {
                return Err(Error::unsupported(format!(
                    "The {kind} property '{name}' with the value {value}"
                )));
            }
        }
    }
    Ok(())
}

/// Returns the error for a property that no table has, with the one that was probably meant.
fn unknown(kind: &str, name: &str, table: &[Property]) -> Error {
    let known: Vec<&str> = table.iter().map(|property| property.name).collect();
    let error = Error::bad(format!(
        "The {kind} property '{}' is unknown.{}",
        shortened(name),
        did_you_mean(name, known.iter().copied())
    ));
    error.with_help(format!("Known are {}.", known.join(", ")))
}

/// Returns the id and the named members of a body.
///
/// # Errors
/// 400 if one of them is missing or the body has other members. Members that begin with `_` are
/// ignored, and `null` counts as missing.
pub(crate) fn checked_members(body: &Object, kind_name: &str, names: &[&str]) -> Result<Object> {
    let mut checked = object! { "id" => resource_id(body)? };
    for name in names {
        let Some(value) = member(body, name) else {
            return Err(Error::bad(format!(
                "The input content is invalid because the required properties - '{name}; ' - \
                 are missing"
            )));
        };
        checked.set(*name, value.clone());
    }
    for (name, value) in body.iter() {
        let is_ignored = name.starts_with('_') || matches!(value, Json::Null);
        if !is_ignored && checked.get(name).is_none() {
            return Err(Error::bad(format!(
                "The property '{name}' of a {kind_name} is unknown."
            )));
        }
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_property_is_refused_with_the_one_that_was_meant() {
        let table = [stored("indexingPolicy", ""), stored("defaultTtl", "")];
        let error = unknown("container", "indexPolicy", &table);
        let told =
            "is unknown. Did you mean 'indexingPolicy'? Known are indexingPolicy, defaultTtl.";
        assert!(error.message().ends_with(told), "{error}");
    }
    use orrery_model::object;

    const TABLE: &[Property] = &[
        stored("a", "stored"),
        server_set("b", "set by the server"),
        immutable("c", "immutable"),
        unsupported("d", "unsupported"),
        limited_to("e", "one of two", &["1", "\"one\""]),
    ];

    fn refusal(name: &str, value: Json) -> Option<String> {
        let mut body = Object::new();
        body.set(name, value);
        let shown = object! { "c" => 1 };
        check("thing", &body, TABLE, Some(&shown))
            .err()
            .map(|error| error.message().to_owned())
    }

    #[test]
    fn each_kind_of_row_treats_its_property_as_documented() {
        for (name, value) in [("a", 1), ("b", 1), ("c", 1), ("e", 1), ("_own", 1)] {
            assert_eq!(refusal(name, value.into()), None, "{name}");
        }
        for name in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(
                refusal(name, Json::Null),
                None,
                "{name}: null counts as absent"
            );
        }
        assert_eq!(
            refusal("c", 2.into()).as_deref(),
            Some("The thing property 'c' cannot be changed. It is 1 and would become 2.")
        );
        assert!(
            refusal("d", 1.into()).is_some_and(
                |message| message.starts_with("The thing property 'd' with the value 1")
            )
        );
        assert!(refusal("e", 2.into()).is_some_and(|message| message.contains("'e'")));
        assert_eq!(refusal("e", "one".into()), None);
        assert!(
            refusal("f", 1.into())
                .is_some_and(|message| message.starts_with("The thing property 'f' is unknown."))
        );
        assert!(
            is_server_set(TABLE, "b") && !is_server_set(TABLE, "a") && !is_server_set(TABLE, "f")
        );
    }
}
