//! A stored item with its number, and the rule for item ids.

use crate::partition::keys::ItemNumber;
use crate::partition::row::Row;
use orrery_model::json::parse;
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Object, Result, limits};

/// A stored item with its number.
#[derive(Clone, Debug)]
pub(crate) struct StoredItem {
    /// The number of the item in its container.
    pub number: ItemNumber,
    /// The stored row.
    pub row: Row,
}

impl StoredItem {
    /// Parses the item, without system properties.
    ///
    /// # Errors
    /// 500 if the stored text is no JSON object.
    pub(crate) fn item(&self) -> Result<Object> {
        match parse(&self.row.body) {
            Ok(Json::Object(item)) => Ok(item),
            _ => Err(damaged()),
        }
    }
}

/// Returns the id of an item.
///
/// # Errors
/// 400 if the id is missing, no string, empty, longer than [`limits::ITEM_ID_BYTES`] or contains
/// `\` or a control character. The SDKs refuse more characters than the service does, which
/// accepts slashes, tabs and line ends.
pub(crate) fn item_id(item: &Object) -> Result<&str> {
    let missing =
        || {
            Error::bad(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        )
        .with_help(match item.iter().find(|(name, _)| name.eq_ignore_ascii_case("id")) {
            Some((name, _)) if name != "id" => format!("Write 'id' and not '{name}'."),
            _ => "Give each item an 'id', a text of at least one character.".to_owned(),
        })
        };
    let id = match item.get("id") {
        None | Some(Json::Null) => return Err(missing()),
        Some(Json::String(id)) => id,
        Some(other) => {
            return Err(Error::bad(format!(
                "The id {} is invalid: an id must be a string.",
                shortened(&other.to_text())
            ))
            .with_help("Write it in quotes, as in \"id\": \"1\"."));
        }
    };
    if id.is_empty() {
        return Err(missing());
    }
    if id.len() > limits::ITEM_ID_BYTES {
        return Err(Error::bad(format!(
            "The id of {} bytes is invalid. Ensure to provide a unique non-empty string less than '{}' characters.",
            id.len(),
            limits::ITEM_ID_BYTES + 1
        )));
    }
    let is_refused = |c: char| c == '\\' || c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if id.contains(is_refused) {
        return Err(Error::bad(format!(
            "The id '{}' is invalid: it contains the character \\ or a control character.",
            shortened(id).escape_debug()
        ))
        .with_help("Take - or _ instead; SDKs do not accept / ? and # either."));
    }
    Ok(id)
}

/// Returns the error for rows of one item that contradict each other.
pub(crate) fn damaged() -> Error {
    Error::internal("an item and its primary key row do not agree")
}
