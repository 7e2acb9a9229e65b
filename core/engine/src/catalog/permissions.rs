//! Permissions: the rights that the holder of a permission's token has on one resource.
//!
//! ```text
//! {"id":"reads posts","permissionMode":"Read","resource":"dbs/blog/colls/posts",
//!  "resourcePartitionKey":["p1"]}
//! ```
//! The link is not resolved here and may name a resource that does not exist, by ids or by resource
//! ids. The gateway resolves the link when a request presents the token.

use crate::request::properties::{checked_members, member};
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Error, Json, Object, Result, Rid, limits};

/// The rights that a permission gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionMode {
    /// Reading the resource and the resources below it.
    Read,
    /// Reading and writing them.
    All,
}

impl PermissionMode {
    const ALL: [PermissionMode; 2] = [PermissionMode::Read, PermissionMode::All];

    /// Returns the value of `permissionMode`.
    pub fn name(self) -> &'static str {
        match self {
            PermissionMode::Read => "Read",
            PermissionMode::All => "All",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(name))
    }
}

/// The content of a permission.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionContent {
    /// The resource id.
    pub rid: Rid,
    /// The rights on the resource.
    pub mode: PermissionMode,
    /// The link of the resource as the client wrote it, without slashes around it.
    pub resource: String,
    /// The partition key that limits the rights to one logical partition; `None` without a limit.
    pub partition_key: Option<PartitionKey>,
}

/// The members that every permission has.
const MEMBERS: &[&str] = &["permissionMode", "resource"];
const PARTITION_KEY: &str = "resourcePartitionKey";

/// Returns the members of a permission body after checking them.
///
/// # Errors
/// 400.
pub(super) fn checked_body(body: &Object) -> Result<Object> {
    let mut required = body.clone();
    required.remove(PARTITION_KEY);
    let mut checked = checked_members(&required, "permission", MEMBERS)?;

    // The mode is accepted in any case and stored as it was sent, because clients compare the
    // stored text with theirs.
    let mode = text_member(&checked, "permissionMode");
    if PermissionMode::from_name(mode).is_none() {
        return Err(Error::bad(format!(
            "The permissionMode '{mode}' is invalid; it is Read or All."
        )));
    }
    let resource = text_member(&checked, "resource");
    if resource.trim_matches('/').is_empty() || resource.len() > limits::RESOURCE_LINK_BYTES {
        return Err(Error::bad(
            "The resource of a permission must be the link of a resource.",
        ));
    }
    if let Some(key) = member(body, PARTITION_KEY) {
        read_key(key)?;
        checked.set(PARTITION_KEY, key.clone());
    }
    Ok(checked)
}

/// Returns a string member, or an empty string if it is missing or no string.
fn text_member<'b>(body: &'b Object, name: &str) -> &'b str {
    body.get(name).and_then(Json::as_str).unwrap_or_default()
}

fn read_key(key: &Json) -> Result<PartitionKey> {
    let invalid = || {
        Error::bad(
            "The resourcePartitionKey of a permission must be an array with a partition key.",
        )
    };
    let components = key.as_array().ok_or_else(invalid)?;
    if !(1..=limits::PARTITION_KEY_LEVELS).contains(&components.len()) {
        return Err(invalid());
    }
    PartitionKey::from_header(&key.to_text()).map_err(|_| invalid())
}

impl PermissionContent {
    /// Returns the content of a permission from its body; `None` if the body has no usable content.
    pub(super) fn of(rid: Rid, body: &Object) -> Option<PermissionContent> {
        let partition_key = match body.get(PARTITION_KEY) {
            Some(key) => Some(read_key(key).ok()?),
            None => None,
        };
        Some(PermissionContent {
            rid,
            mode: PermissionMode::from_name(text_member(body, "permissionMode"))?,
            resource: text_member(body, "resource").trim_matches('/').to_owned(),
            partition_key,
        })
    }

    /// Returns true if both permissions are for the same resource and partition key.
    pub(super) fn has_same_target(&self, other: &PermissionContent) -> bool {
        self.resource == other.resource && self.partition_key == other.partition_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn check(text: &str) -> Result<Object> {
        checked_body(
            parse(text.as_bytes())
                .expect("JSON")
                .as_object()
                .expect("an object"),
        )
    }

    #[test]
    fn a_permission_is_stored_as_it_was_sent() {
        let text = r#"{"id":"p","permissionMode":"all","resource":"/dbs/d/colls/c/","resourcePartitionKey":["a",1]}"#;
        let body = check(text).expect("a permission");
        assert_eq!(
            body.get("permissionMode").and_then(Json::as_str),
            Some("all")
        );
        assert_eq!(
            body.get("resource").and_then(Json::as_str),
            Some("/dbs/d/colls/c/")
        );
        assert_eq!(
            body.get("resourcePartitionKey").map(Json::to_text),
            Some(r#"["a",1]"#.into())
        );
        assert!(
            check(r#"{"id":"p","permissionMode":"Read","resource":"r","_token":"t","_rid":"x"}"#)
                .is_ok()
        );
    }

    #[test]
    fn an_invalid_permission_is_refused_with_the_name_of_the_member() {
        for (members, named) in [
            (r#""permissionMode":"Read""#, "'resource; '"),
            (r#""resource":"r""#, "'permissionMode; '"),
            (r#""permissionMode":"Write","resource":"r""#, "Write"),
            (r#""permissionMode":"Read","resource":"/""#, "resource"),
            (
                r#""permissionMode":"Read","resource":"r","resourcePartitionKey":"a""#,
                "resourcePartitionKey",
            ),
            (
                r#""permissionMode":"Read","resource":"r","resourcePartitionKey":[[1]]"#,
                "resourcePartitionKey",
            ),
            (
                r#""permissionMode":"Read","resource":"r","resourcePartitionKey":[]"#,
                "resourcePartitionKey",
            ),
            (
                r#""permissionMode":"Read","resource":"r","wheels":4"#,
                "wheels",
            ),
        ] {
            let error = check(&format!(r#"{{"id":"p",{members}}}"#)).expect_err(members);
            assert_eq!(error.status(), 400);
            assert!(error.message().contains(named), "{error}");
        }
    }
}
