//! Permissions: what the holder of a permission's token may do to which resource.
//!
//! ```text
//! {"id":"reads posts","permissionMode":"Read","resource":"dbs/blog/colls/posts","resourcePartitionKey":["p1"]}
//! ```
//! The link may name what is not there, by ids or by resource ids; who checks a token finds out what it leads to.

use super::access_resources::{AccessResource, checked};
use crate::request::AccessResourceKind;
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Error, Json, Object, Result, Rid, limits};

/// What a permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionMode {
    /// Reading the resource and all below it.
    Read,
    /// Reading and writing them.
    All,
}

impl PermissionMode {
    const ALL: [PermissionMode; 2] = [PermissionMode::Read, PermissionMode::All];

    /// Its name on the wire.
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

/// What a permission grants.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The permission's resource id.
    pub permission: Rid,
    /// What may be done.
    pub mode: PermissionMode,
    /// To what: a link as the client wrote it, without slashes around it.
    pub resource: String,
    /// The one logical partition it is limited to, if it is.
    pub partition_key: Option<PartitionKey>,
}

const MEMBERS: &[&str] = &["permissionMode", "resource"];
const PARTITION_KEY: &str = "resourcePartitionKey";

/// The members that a permission must and may have, checked.
pub(super) fn checked_body(body: &Object) -> Result<Object> {
    let mut rest = body.clone();
    let key = rest
        .remove(PARTITION_KEY)
        .filter(|key| !matches!(key, Json::Null));
    let mut checked = checked(&rest, "permission", MEMBERS)?;
    let text = |name: &str| checked.get(name).and_then(Json::as_str).unwrap_or_default();
    // Kept in whatever case it was written: clients compare it with what they sent.
    if PermissionMode::from_name(text("permissionMode")).is_none() {
        let told = format!(
            "The permissionMode '{}' is invalid; it is Read or All.",
            text("permissionMode")
        );
        return Err(Error::bad(told));
    }
    let resource = text("resource").to_owned();
    if resource.trim_matches('/').is_empty() || resource.len() > limits::RESOURCE_LINK_BYTES {
        return Err(Error::bad(
            "The resource of a permission must be the link of a resource.",
        ));
    }
    if let Some(key) = key {
        read_key(&key)?;
        checked.set(PARTITION_KEY, key);
    }
    Ok(checked)
}

fn read_key(key: &Json) -> Result<PartitionKey> {
    let array = key
        .as_array()
        .filter(|components| (1..=limits::PARTITION_KEY_LEVELS).contains(&components.len()));
    array
        .and_then(|_| PartitionKey::from_header(&key.to_text()).ok())
        .ok_or_else(|| {
            Error::bad(
                "The resourcePartitionKey of a permission must be an array with a partition key.",
            )
        })
}

impl Grant {
    /// What a permission grants; nothing for other resources.
    pub fn of(resource: &AccessResource) -> Option<Grant> {
        let body =
            Some(resource.body()).filter(|_| resource.kind == AccessResourceKind::Permission)?;
        let text = |name: &str| body.get(name).and_then(Json::as_str).unwrap_or_default();
        Some(Grant {
            permission: resource.meta.rid,
            mode: PermissionMode::from_name(text("permissionMode"))?,
            resource: text("resource").trim_matches('/').to_owned(),
            partition_key: body.get(PARTITION_KEY).map(read_key).transpose().ok()?,
        })
    }

    /// Whether another permission is for the same resource and partition key.
    pub(super) fn is_for_the_same(&self, other: &Grant) -> bool {
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
    fn a_permission_keeps_what_it_was_given() {
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
    fn a_permission_that_is_none_is_refused_by_the_member() {
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
