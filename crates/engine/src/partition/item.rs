//! An item as a partition stores it, and the rule for its id.

use crate::partition::keys::ItemNumber;
use crate::partition::row::Row;
use orrery_model::json::parse;
use orrery_model::{Error, Json, Object, Result, limits};

/// An item with its number.
#[derive(Clone, Debug)]
pub struct StoredItem {
    /// Its number in the container.
    pub number: ItemNumber,
    /// What is stored.
    pub row: Row,
}

impl StoredItem {
    /// The item itself, without system properties.
    ///
    /// # Errors
    /// 500 if what is stored is no item.
    pub fn item(&self) -> Result<Object> {
        match parse(&self.row.body) {
            Ok(Json::Object(item)) => Ok(item),
            _ => Err(damaged()),
        }
    }
}

/// The id of an item, checked.
///
/// # Errors
/// 400 if it is missing, no string, empty, too long or holds `/` or `\`. Clients keep more characters from it than the
/// service does.
pub fn item_id(item: &Object) -> Result<&str> {
    let missing = || {
        Error::bad(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        )
    };
    let id = match item.get("id") {
        None | Some(Json::Null) => return Err(missing()),
        Some(Json::String(id)) => id,
        Some(other) => {
            return Err(Error::bad(format!(
                "The id {other} is invalid: an id must be a string."
            )));
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
    if id.contains(['/', '\\']) {
        return Err(Error::bad(format!(
            "The id '{id}' is invalid: it contains one of the characters / \\."
        )));
    }
    Ok(id)
}

/// The error for rows of one item that contradict each other.
pub fn damaged() -> Error {
    Error::internal("an item and its primary key row do not agree")
}
