//! The form that an item of one model has in another one.

use crate::{BlogError, Model};
use serde_json::Value;

/// Properties that only the items of V2 and V3 in `posts` have.
const COPIES: [&str; 3] = ["userUsername", "commentCount", "likeCount"];

/// Returns the item without system properties, whose names begin with an underscore.
pub(crate) fn without_system_properties(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(properties) = item.as_object_mut() {
        properties.retain(|name, _| !name.starts_with('_'));
    }
    item
}

/// Returns a user of any model as it is in V1, without system properties. `None` if the item is not
/// a user: `users` of V3 also contains short posts.
pub(crate) fn plain_user(item: &Value) -> Option<Value> {
    if item.get("type").is_some_and(|kind| kind != "user") {
        return None;
    }
    let mut user = without_system_properties(item);
    if let Some(properties) = user.as_object_mut() {
        properties.shift_remove("type");
        properties.shift_remove("userId");
    }
    Some(user)
}

/// Returns a user as it is in `model`. `None` if the item is not a user.
pub(crate) fn user_of(model: Model, item: &Value) -> Option<Value> {
    let mut user = plain_user(item)?;
    if model == Model::V3 {
        user["type"] = "user".into();
        user["userId"] = user["id"].clone();
    }
    Some(user)
}

/// Returns an item of `posts` as it is in V1, without system properties.
pub(crate) fn plain_post_item(item: &Value) -> Value {
    let mut plain = without_system_properties(item);
    if let Some(properties) = plain.as_object_mut() {
        for name in COPIES {
            properties.shift_remove(name);
        }
    }
    plain
}

/// Returns true if the items of `posts` of `model` show the names of their users.
pub(crate) fn has_names(model: Model) -> bool {
    model != Model::V1
}

/// Returns the user whose name an item of `posts` shows. `None` for a tombstone.
pub(crate) fn shown_user(item: &Value) -> Result<Option<&str>, BlogError> {
    if item["type"] == "deletedPost" {
        return Ok(None);
    }
    string_property(item, "userId").map(Some)
}

/// Returns a string property of an item.
pub(crate) fn string_property<'a>(item: &'a Value, name: &str) -> Result<&'a str, BlogError> {
    item[name].as_str().ok_or_else(|| {
        let id = &item["id"];
        BlogError::unexpected("change feed", format!("the item {id} has no {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_user_keeps_its_own_properties_in_every_model() {
        let v1 = json!({"id": "u", "username": "Ann", "about": "x"});
        let v3 = user_of(Model::V3, &v1).unwrap();
        assert_eq!(
            v3,
            json!({"id": "u", "username": "Ann", "about": "x", "type": "user", "userId": "u"})
        );
        assert_eq!(user_of(Model::V2, &v3), Some(v1));
        assert_eq!(
            user_of(Model::V1, &json!({"id": "p", "type": "post"})),
            None
        );
    }

    #[test]
    fn an_item_of_posts_loses_names_and_counts_in_v1() {
        let post = json!({"id": "p", "type": "post", "userUsername": "Ann", "commentCount": 1,
                          "likeCount": 2, "title": "t", "_etag": "e"});
        assert_eq!(
            plain_post_item(&post),
            json!({"id": "p", "type": "post", "title": "t"})
        );
    }
}
