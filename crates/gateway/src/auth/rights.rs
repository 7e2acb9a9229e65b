//! What each caller may do: a table from what is addressed to what it needs, and from that to yes or 403.
//!
//! | needs            | full key | read-only key | directory | resource token                                    |
//! |------------------|----------|---------------|-----------|---------------------------------------------------|
//! | being somebody   | yes      | yes           | yes       | yes                                               |
//! | reading above    | yes      | yes           | yes       | no                                                |
//! | managing         | yes      | no            | no        | no                                                |
//! | permissions      | yes      | no            | no        | no                                                |
//! | the definition   | yes      | yes           | yes       | of the container that it reaches, or reaches into |
//! | scripts          | yes      | reading       | reading   | within its reach, mode and partition key          |
//! | data             | yes      | reading       | yes       | within its reach, mode and partition key          |
//!
//! The service's directory identities handle data and no resources above it, whatever their role; so do ours.
//! A read-only key does not read permissions, because their answers hold tokens that may write. A token of a whole
//! container neither replaces nor deletes it, and one for a logical partition names it on every request for data.

use super::Caller;
use super::tokens::{ItemName, TokenScope};
use crate::headers::RequestHeaders;
use crate::route::{Path, Target};
use orrery_engine::request::{AccessResourceKind, ReadReply};
use orrery_engine::{Container, Engine, Grant, PermissionMode};
use orrery_model::json::parse;
use orrery_model::{Error, Json, Kind, Result};

/// A request as far as rights go.
pub(crate) struct Asked<'a> {
    pub(crate) target: Target,
    pub(crate) method: &'a str,
    /// Whether the operation changes anything.
    pub(crate) writes: bool,
    pub(crate) path: &'a Path,
    pub(crate) headers: &'a RequestHeaders,
}

/// What a request needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// To be somebody.
    Identity,
    /// To read what stands above containers.
    ReadAbove,
    /// To change what stands above containers, or a container itself.
    Manage,
    /// To see or change permissions.
    Permissions,
    /// To read a container's definition and ranges.
    ReadDefinition,
    /// To read or change scripts.
    Scripts,
    /// To read or write items, or run a procedure.
    Data,
}

/// The table. A new target has to find its place here.
fn need(asked: &Asked<'_>) -> Need {
    match asked.target {
        Target::Account => Need::Identity,
        Target::Plains(AccessResourceKind::Permission)
        | Target::Plain(AccessResourceKind::Permission) => Need::Permissions,
        Target::Databases
        | Target::Database
        | Target::Containers
        | Target::Offers
        | Target::Offer
        | Target::Plains(AccessResourceKind::User | AccessResourceKind::EncryptionKey)
        | Target::Plain(AccessResourceKind::User | AccessResourceKind::EncryptionKey)
        | Target::Addresses
        | Target::Refused(_) => {
            if asked.writes {
                Need::Manage
            } else {
                Need::ReadAbove
            }
        }
        Target::Container => {
            if asked.writes {
                Need::Manage
            } else {
                Need::ReadDefinition
            }
        }
        Target::Ranges => Need::ReadDefinition,
        Target::Scripts(_) => Need::Scripts,
        Target::Script(_) => {
            if asked.method == "POST" {
                Need::Data
            } else {
                Need::Scripts
            }
        }
        Target::Items
        | Target::Item
        | Target::LogicalPartition
        | Target::Conflicts
        | Target::Conflict => Need::Data,
    }
}

/// Checks that a caller may do this.
///
/// # Errors
/// 403 that says what is lacking.
pub(crate) fn check(asked: &Asked<'_>, caller: &Caller, engine: &Engine) -> Result<()> {
    match (caller, need(asked)) {
        (Caller::FullKey(_), _) | (_, Need::Identity) => Ok(()),
        (Caller::ReadOnlyKey, Need::Permissions) => Err(forbidden(
            "The key that signed the request does not give access to permissions.",
        )),
        (Caller::ReadOnlyKey, _) if asked.writes => Err(forbidden(
            "The key that signed the request allows reading only.",
        )),
        (Caller::ReadOnlyKey, _) => Ok(()),
        (Caller::DirectoryIdentity, Need::Manage | Need::Permissions) => Err(not_for_identities()),
        (Caller::DirectoryIdentity, Need::Scripts) if asked.writes => Err(not_for_identities()),
        (Caller::DirectoryIdentity, _) => Ok(()),
        (Caller::ResourceToken(..), Need::ReadAbove | Need::Manage | Need::Permissions) => {
            Err(forbidden(
                "This needs a key of the account: resource tokens give access to what is in containers.",
            ))
        }
        (Caller::ResourceToken(grant, reach), need) => {
            check_bearer(asked, need, grant, reach.as_ref(), engine)
        }
    }
}

fn check_bearer(
    asked: &Asked<'_>,
    need: Need,
    grant: &Grant,
    reach: Option<&TokenScope>,
    engine: &Engine,
) -> Result<()> {
    let beyond = || forbidden("The resource token does not reach what is asked for.");
    let reach = reach.ok_or_else(beyond)?;
    // What is not there is not told from what is out of reach.
    let container = asked.path.container(engine).map_err(|_| beyond())?;
    if reach.container() != container.rid() {
        return Err(beyond());
    }
    if need == Need::ReadDefinition {
        return Ok(());
    }
    let is_it = match reach {
        TokenScope::Container(_) => true,
        TokenScope::Item(_, name) => {
            asked.target == Target::Item && names_item(asked, name, &container, engine)
        }
        TokenScope::Script(_, kind, script) => {
            let named = asked
                .path
                .child_id(engine)
                .and_then(|id| engine.script_rid(&container, *kind, id));
            asked.target == Target::Script(*kind) && named == Some(*script)
        }
    };
    if !is_it {
        return Err(beyond());
    }
    if asked.writes && grant.mode == PermissionMode::Read {
        return Err(forbidden(
            "The permission of the resource token allows reading only.",
        ));
    }
    match &grant.partition_key {
        Some(_) if need == Need::Scripts && asked.writes => Err(forbidden(
            "The permission of the resource token is for one logical partition; scripts are for all.",
        )),
        // A plan says nothing of what is stored.
        Some(key)
            if need == Need::Data
                && !asked.headers.plan
                && asked.headers.partition_key.as_ref() != Some(key) =>
        {
            Err(forbidden(
                "The permission of the resource token is for one logical partition, and the request does not name it \
                 (header x-ms-documentdb-partitionkey).",
            ))
        }
        _ => Ok(()),
    }
}

/// Whether the path names this item. If one is by id and the other by resource id, the item itself has to say.
fn names_item(
    asked: &Asked<'_>,
    wanted: &ItemName,
    container: &Container,
    engine: &Engine,
) -> bool {
    let Some(id) = asked.path.child_id(engine) else {
        return false;
    };
    let read = |key| {
        engine
            .read_item(container, key, id, None, None)
            .wait()
            .result
            .ok()
    };
    match (ItemName::from(id), wanted) {
        (ItemName::Id(id), ItemName::Id(wanted)) => id == *wanted,
        (ItemName::Rid(rid), ItemName::Rid(wanted)) => rid == *wanted,
        (_, wanted) => {
            let Some(ReadReply::Item { body, .. }) =
                asked.headers.partition_key.as_ref().and_then(read)
            else {
                return false;
            };
            let (member, wanted) = match wanted {
                ItemName::Id(id) => ("id", id.clone()),
                ItemName::Rid(rid) => ("_rid", rid.to_string()),
            };
            parse(&body).is_ok_and(|item| item.get(member).and_then(Json::as_str) == Some(&wanted))
        }
    }
}

fn not_for_identities() -> Error {
    Error::new(
        Kind::DirectoryOperation,
        "Directory identities handle items and read what is above them; this operation needs a key of the account.",
    )
}

fn forbidden(message: &str) -> Error {
    Error::new(Kind::Forbidden, message)
}
