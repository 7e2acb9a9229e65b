//! The rights that an operation requires, and the check that a caller has these rights.
//!
//! | rights            | full key | read-only key | directory | resource token                   |
//! |-------------------|----------|---------------|-----------|----------------------------------|
//! | `Identity`        | yes      | yes           | yes       | yes                              |
//! | `ReadMetadata`    | yes      | yes           | yes       | no                               |
//! | `WriteMetadata`   | yes      | no            | no        | no                               |
//! | `…Permissions`    | yes      | no            | no        | no                               |
//! | `ReadDefinition`  | yes      | yes           | yes       | for the container of its scope   |
//! | `DeleteContainer` | yes      | no            | no        | mode All of the whole container  |
//! | `…Scripts`        | yes      | reading       | reading   | by scope, mode and partition key |
//! | `…Data`           | yes      | reading       | yes       | by scope, mode and partition key |
//!
//! Each row of the table of operations (`operations.rs`) names the rights that it requires; this
//! file alone decides which callers have them.
//!
//! Directory identities of the service handle data and no resources above containers, whatever
//! their role; the same holds here. A read-only key cannot read permissions, because the answers
//! contain tokens that may allow writes. A token of a whole container with the mode All
//! allows deleting the container, and no token allows replacing one. A token of one logical
//! partition requires that every request for data names this partition.

use super::Caller;
use super::tokens::{ItemName, TokenScope};
use crate::headers::RequestHeaders;
use crate::route::{Path, Target};
use orrery_engine::request::ReadReply;
use orrery_engine::{Container, Engine, PermissionContent, PermissionMode};
use orrery_model::json::parse;
use orrery_model::{Error, Json, Kind, Result};

/// The rights that an operation requires of its caller. *Metadata* is everything above containers,
/// and containers themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Any accepted credentials.
    Identity,
    /// Reads databases, lists of containers, offers, users and client encryption keys.
    ReadMetadata,
    /// Creates, replaces or deletes any of these, or creates or replaces a container.
    WriteMetadata,
    /// Reads permissions, and with them resource tokens.
    ReadPermissions,
    /// Creates, replaces or deletes permissions.
    WritePermissions,
    /// Reads the definition or the partition key ranges of a container.
    ReadDefinition,
    /// Deletes a container.
    DeleteContainer,
    /// Reads scripts.
    ReadScripts,
    /// Creates, replaces or deletes scripts.
    WriteScripts,
    /// Reads items, conflicts or query plans.
    ReadData,
    /// Writes items, deletes conflicts or executes a stored procedure.
    WriteData,
}

impl Rights {
    /// Returns true if an operation with these rights changes anything.
    pub(crate) const fn includes_writes(self) -> bool {
        match self {
            Rights::Identity
            | Rights::ReadMetadata
            | Rights::ReadPermissions
            | Rights::ReadDefinition
            | Rights::ReadScripts
            | Rights::ReadData => false,
            Rights::WriteMetadata
            | Rights::DeleteContainer
            | Rights::WritePermissions
            | Rights::WriteScripts
            | Rights::WriteData => true,
        }
    }
}

/// The parts of a request that decide about access.
pub(crate) struct AccessRequest<'a> {
    /// The rights that the operation requires.
    pub(crate) rights: Rights,
    pub(crate) target: Target,
    pub(crate) path: &'a Path,
    pub(crate) headers: &'a RequestHeaders,
}

/// Checks that a caller has the rights that a request requires.
///
/// # Errors
/// 403 that names the missing right.
pub(crate) fn check(request: &AccessRequest<'_>, caller: &Caller, engine: &Engine) -> Result<()> {
    use Rights::*;
    match (caller, request.rights) {
        (Caller::FullKey(_), _) | (_, Identity) => Ok(()),
        (Caller::ReadOnlyKey, ReadPermissions | WritePermissions) => Err(forbidden(
            "The key that signed the request does not give access to permissions.",
        )),
        (Caller::ReadOnlyKey, rights) if rights.includes_writes() => Err(forbidden(
            "The key that signed the request allows reading only. Writes need the primary or \
             secondary key of the account.",
        )),
        (Caller::ReadOnlyKey, _) => Ok(()),
        (
            Caller::DirectoryIdentity,
            WriteMetadata | DeleteContainer | ReadPermissions | WritePermissions | WriteScripts,
        ) => Err(not_for_identities()),
        (Caller::DirectoryIdentity, _) => Ok(()),
        (
            Caller::ResourceToken(..),
            ReadMetadata | WriteMetadata | ReadPermissions | WritePermissions,
        ) => Err(forbidden(
            "This needs a key of the account: resource tokens give access to what is in \
             containers. Create the client with the account key for requests about databases, \
             lists of containers, users, permissions and throughput.",
        )),
        (Caller::ResourceToken(permission, scope), _) => {
            check_token(request, permission, scope.as_ref(), engine)
        }
    }
}

/// Checks a request with a resource token for a container or a resource in a container.
fn check_token(
    request: &AccessRequest<'_>,
    permission: &PermissionContent,
    scope: Option<&TokenScope>,
    engine: &Engine,
) -> Result<()> {
    let beyond = || {
        forbidden(
            "The resource token does not reach what is asked for. It is valid for the one resource \
             that its permission names: read that resource, or create a permission for this one.",
        )
    };
    let scope = scope.ok_or_else(beyond)?;

    // A missing container and a container out of scope give the same answer, so that a token does
    // not reveal which containers exist.
    let container = request.path.container(engine).map_err(|_| beyond())?;
    if scope.container() != container.rid() {
        return Err(beyond());
    }

    // Clients read the definition of the container before they can address an item in it.
    if request.rights == Rights::ReadDefinition {
        return Ok(());
    }

    // A token for an item or a script allows requests for this item or script only.
    let is_in_scope = match scope {
        TokenScope::Container(_) => true,
        TokenScope::Item(_, name) => {
            request.target == Target::Item && names_item(request, name, &container, engine)
        }
        TokenScope::Script(_, kind, script) => {
            request.target == Target::Script(*kind)
                && request
                    .path
                    .child_id(engine)
                    .and_then(|id| engine.script_rid(&container, *kind, id))
                    == Some(*script)
        }
    };
    if !is_in_scope {
        return Err(beyond());
    }

    if request.rights.includes_writes() && permission.mode == PermissionMode::Read {
        return Err(forbidden(
            "The permission of the resource token allows reading only. Writes need a permission \
             with the permissionMode 'All'.",
        ));
    }
    check_partition_key(request, permission)
}

/// Checks a request against the logical partition to which a permission is limited, if it is
/// limited to one.
fn check_partition_key(request: &AccessRequest<'_>, permission: &PermissionContent) -> Result<()> {
    let Some(key) = &permission.partition_key else {
        return Ok(());
    };
    match request.rights {
        Rights::WriteScripts | Rights::DeleteContainer => Err(forbidden(
            "The permission of the resource token is for one logical partition; this changes all.",
        )),
        // A query plan reveals nothing about stored items.
        Rights::ReadData | Rights::WriteData
            if !request.headers.is_query_plan
                && request.headers.partition_key.as_ref() != Some(key) =>
        {
            Err(forbidden(
                "The permission of the resource token is for one logical partition, and the \
                 request does not name it (header x-ms-documentdb-partitionkey).",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns true if the path names the item `wanted`. If one name is an id and the other a resource
/// id, the stored item decides.
fn names_item(
    request: &AccessRequest<'_>,
    wanted: &ItemName,
    container: &Container,
    engine: &Engine,
) -> bool {
    let Some(id) = request.path.child_id(engine) else {
        return false;
    };
    // Names of the same form are compared without a read.
    match (ItemName::from(id), wanted) {
        (ItemName::Id(id), ItemName::Id(wanted)) => return id == *wanted,
        (ItemName::Rid(rid), ItemName::Rid(wanted)) => return rid == *wanted,
        (ItemName::Id(_), ItemName::Rid(_)) | (ItemName::Rid(_), ItemName::Id(_)) => {}
    }
    // An id is unique in a logical partition only, so the request must name the partition key.
    let Some(key) = &request.headers.partition_key else {
        return false;
    };
    let pending = engine.read_item(container, key, id, None, None);
    let Ok(ReadReply::Item { body, .. }) = pending.wait().result else {
        return false;
    };
    let (member, wanted) = match wanted {
        ItemName::Id(id) => ("id", id.clone()),
        ItemName::Rid(rid) => ("_rid", rid.to_string()),
    };
    parse(&body).is_ok_and(|item| item.get(member).and_then(Json::as_str) == Some(&wanted))
}

fn not_for_identities() -> Error {
    Error::new(
        Kind::DirectoryOperation,
        "Directory identities handle items and read what is above them; this operation needs a \
         key of the account.",
    )
}

fn forbidden(message: &str) -> Error {
    Error::new(Kind::Forbidden, message)
}
