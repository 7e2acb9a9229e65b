//! The ids of databases, containers, scripts, users and permissions.

use crate::errors::damaged;
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Object, Result, limits};

/// Returns the `id` of a body after checking the service's rules for ids.
///
/// # Errors
/// 400 if the id is missing, is no string, is empty, has more than
/// [`limits::RESOURCE_ID_CHARS`] characters, ends with a space, or contains `/`, `\`, `?`, `#` or a
/// control character.
pub(crate) fn resource_id(body: &Object) -> Result<&str> {
    let missing = || {
        Error::bad(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        )
        .with_help("The 'id' is the name of the database, container, script or user.")
    };
    let id = match body.get("id") {
        None | Some(Json::Null) => return Err(missing()),
        Some(id) => id
            .as_str()
            .ok_or_else(|| Error::bad("The id is invalid: it must be a string."))?,
    };
    if id.is_empty() {
        return Err(missing());
    }
    if id.chars().count() > limits::RESOURCE_ID_CHARS {
        let beginning: String = id.chars().take(20).collect();
        return Err(Error::bad(format!(
            "The input name '{beginning}...' is invalid. Ensure to provide a unique non-empty \
             string less than '{}' characters.",
            limits::RESOURCE_ID_CHARS
        )));
    }
    // Ids are segments of paths, where these characters and a space at the end would be lost.
    if id.contains(['/', '\\', '?', '#']) || id.contains(char::is_control) || id.ends_with(' ') {
        return Err(Error::bad(format!(
            "The id '{}' is invalid: it holds one of the characters / \\ ? #, a control character, \
             or ends in a blank.",
            shortened(id).escape_debug()
        ))
        .with_help("Take - or _ instead."));
    }
    Ok(id)
}

/// Returns the `id` of a stored body. The rules for ids were checked when the resource was created,
/// and may have been wider then.
///
/// # Errors
/// 500 if the body has no id.
pub(crate) fn stored_id(body: &Object) -> Result<&str> {
    body.get("id")
        .and_then(Json::as_str)
        .ok_or_else(|| damaged("a record of the catalog"))
}
