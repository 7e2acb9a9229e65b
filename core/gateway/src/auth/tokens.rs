//! Resource tokens: issued with every answer about a permission, and checked without being stored.
//!
//! ```text
//! type=resource&ver=1&sig=<base64 of the MAC>;<base64 of the claim>;
//! claim   version·1  resource id of the permission·16  expiry in seconds since 1970·8
//! MAC     HMAC-SHA256 over the claim and the meaning of the permission,
//!         with a key that is derived from a key of the account
//! ```
//! A token does not contain what it allows: the stored permission does, and the MAC covers the
//! meaning of the permission at the time when the token was issued. So a token is valid until its
//! time is over, until the key that it was requested with is removed, and until its permission is
//! deleted, grants something else, or names another container because the original one was deleted.
//! A permission that is replaced by an equal one keeps its tokens valid.

use super::{Caller, Keys, unauthorized};
use crate::route::{Path, Target};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use orrery_engine::request::{Id, ScriptKind};
use orrery_engine::{Engine, PermissionContent};
use orrery_model::{Error, Json, Kind, Result, Rid};
use sha2::Sha256;
use std::fmt;

/// A key for tokens, derived from a key of the account.
#[derive(Clone)]
pub(super) struct TokenKey(Hmac<Sha256>);

/// Issues the tokens of one request.
#[derive(Clone)]
pub(crate) struct TokenIssuer {
    pub(super) key: TokenKey,
    /// The time of the request, in seconds since 1970.
    pub(super) now: i64,
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenIssuer")
    }
}

/// The resource that a permission names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenScope {
    /// A container and everything in it.
    Container(Rid),
    /// An item of a container, in any logical partition.
    Item(Rid, ItemName),
    /// A script of a container.
    Script(Rid, ScriptKind, Rid),
}

/// An item as a link names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemName {
    Id(String),
    Rid(Rid),
}

impl From<Id<'_>> for ItemName {
    fn from(id: Id<'_>) -> Self {
        match id {
            Id::Name(name) => ItemName::Id(name.to_owned()),
            Id::Rid(rid) => ItemName::Rid(rid),
        }
    }
}

impl TokenScope {
    /// Returns the resource that a link names now; `None` if it names none.
    ///
    /// Clients send links percent-encoded or not, so the link is tried as sent and then decoded.
    pub(super) fn of(link: &str, engine: &Engine) -> Option<TokenScope> {
        if let Some(scope) = TokenScope::at(&Path::from_link(link), engine) {
            return Some(scope);
        }
        TokenScope::at(&Path::parse(link).ok()?, engine)
    }

    fn at(path: &Path, engine: &Engine) -> Option<TokenScope> {
        let target = path.route().ok()?.target;
        let container = path.container(engine).ok()?;
        match target {
            Target::Container => Some(TokenScope::Container(container.rid())),
            Target::Item => {
                let name = path.child_id(engine)?.into();
                Some(TokenScope::Item(container.rid(), name))
            }
            Target::Script(kind) => {
                let script = engine.script_rid(&container, kind, path.child_id(engine)?)?;
                Some(TokenScope::Script(container.rid(), kind, script))
            }
            _ => None,
        }
    }

    /// Returns the container that the scope is or lies in.
    pub(super) fn container(&self) -> Rid {
        match self {
            TokenScope::Container(rid) | TokenScope::Item(rid, _) | TokenScope::Script(rid, ..) => {
                *rid
            }
        }
    }
}

/// Checks that the link in a permission has the form of a resource that tokens can be issued for.
///
/// # Errors
/// 400 for a link that names neither a container nor an item or script in one; resources above
/// containers require a key of the account.
pub(crate) fn check_link(link: &str) -> Result<()> {
    match Path::from_link(link).route().map(|route| route.target) {
        Ok(Target::Container | Target::Item | Target::Script(_)) => Ok(()),
        _ => Err(Error::bad(format!(
            "The resource '{link}' of a permission must be the link of a container, an item, a \
             stored procedure, a trigger or a user-defined function."
        ))),
    }
}

/// The part of a token that its bearer can read.
struct Claim {
    permission: Rid,
    /// Seconds since 1970.
    expires: i64,
}

const CLAIM_VERSION: u8 = 1;

impl Claim {
    fn bytes(&self) -> Vec<u8> {
        [
            &[CLAIM_VERSION][..],
            self.permission.as_bytes(),
            &self.expires.to_be_bytes(),
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> Option<Claim> {
        let (permission, expires) = bytes.strip_prefix(&[CLAIM_VERSION])?.split_at_checked(16)?;
        let permission = Rid::from_bytes(permission).filter(Rid::is_permission)?;
        let expires = i64::from_be_bytes(expires.try_into().ok()?);
        Some(Claim {
            permission,
            expires,
        })
    }
}

impl TokenKey {
    /// Derives the key for tokens from a key of the account.
    pub(super) fn derive(key: &Hmac<Sha256>) -> Self {
        let derived = key
            .clone()
            .chain_update(b"orrery resource tokens")
            .finalize()
            .into_bytes();
        TokenKey(Hmac::new_from_slice(&derived).expect("HMAC takes keys of any length"))
    }

    fn mac(
        &self,
        claim: &[u8],
        permission: &PermissionContent,
        scope: Option<&TokenScope>,
    ) -> Hmac<Sha256> {
        self.0
            .clone()
            .chain_update(claim)
            .chain_update(meaning(permission, scope).as_bytes())
    }
}

impl TokenIssuer {
    /// Returns a token of a permission with a lifetime of `seconds`.
    pub(crate) fn issue(
        &self,
        permission: &PermissionContent,
        engine: &Engine,
        seconds: u64,
    ) -> String {
        let claim = Claim {
            permission: permission.rid,
            expires: self.now.saturating_add_unsigned(seconds),
        };
        let claim = claim.bytes();
        let scope = TokenScope::of(&permission.resource, engine);
        let mac = self.key.mac(&claim, permission, scope.as_ref());
        format!(
            "type=resource&ver=1&sig={};{};",
            STANDARD.encode(mac.finalize().into_bytes()),
            STANDARD.encode(claim)
        )
    }
}

/// Returns the meaning of a permission as a text: mode, partition key and resource ids. Permissions
/// that allow different requests have different texts.
fn meaning(permission: &PermissionContent, scope: Option<&TokenScope>) -> String {
    let key = match &permission.partition_key {
        Some(key) => key.to_json(),
        None => Json::Null,
    };
    let scope: Vec<Json> = match scope {
        None => Vec::new(),
        Some(TokenScope::Container(container)) => vec![container.to_string().into()],
        Some(TokenScope::Item(container, ItemName::Id(id))) => {
            vec![container.to_string().into(), id.as_str().into()]
        }
        Some(TokenScope::Item(container, ItemName::Rid(rid))) => {
            vec![
                container.to_string().into(),
                "docs".into(),
                rid.to_string().into(),
            ]
        }
        Some(TokenScope::Script(container, kind, script)) => {
            vec![
                container.to_string().into(),
                format!("{kind:?}").into(),
                script.to_string().into(),
            ]
        }
    };
    Json::Array(vec![permission.mode.name().into(), key, Json::Array(scope)]).to_text()
}

/// Checks a token at `now` (seconds since 1970).
///
/// # Errors
/// 401 for a token that no current key issued for the permission as it is now, 403 for an expired
/// token.
pub(super) fn verify(keys: &Keys, token: &str, engine: &Engine, now: i64) -> Result<Caller> {
    let invalid = || {
        unauthorized(
            "The resource token is not valid: this account did not issue it with a key that is in \
             force, or its permission was changed or deleted since. Read the permission to get \
             another.",
        )
    };

    // Split the token, and find the permission that its claim names.
    let (mac, claim) = token
        .strip_suffix(';')
        .and_then(|token| token.split_once(';'))
        .ok_or_else(invalid)?;
    let mac = STANDARD.decode(mac).map_err(|_| invalid())?;
    let bytes = STANDARD.decode(claim).map_err(|_| invalid())?;
    let claim = Claim::read(&bytes).ok_or_else(invalid)?;
    let permission = engine
        .permission_content(claim.permission)
        .ok_or_else(invalid)?;
    let scope = TokenScope::of(&permission.resource, engine);

    // The MAC shows that a current key issued the token for what the permission means now.
    let is_issued_by = |key: &TokenKey| {
        let expected = key.mac(&bytes, &permission, scope.as_ref());
        expected.verify_slice(&mac).is_ok()
    };
    if !keys.token_keys().any(is_issued_by) {
        return Err(invalid());
    }

    // The expiry is trustworthy only after the MAC was checked.
    if now >= claim.expires {
        return Err(Error::new(
            Kind::Forbidden,
            format!(
                "The resource token has expired (token expiry time: {}, current server time: {}). \
                 Read the permission to get another.",
                crate::date::print(claim.expires),
                crate::date::print(now)
            ),
        ));
    }
    Ok(Caller::ResourceToken(permission, scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_names_a_container_or_an_item_or_script_in_one() {
        for link in [
            "dbs/d/colls/c",
            "/dbs/d/colls/c/",
            "dbs/d/colls/c/docs/i",
            "dbs/d/colls/c/sprocs/s",
        ] {
            check_link(link).expect(link);
        }
        for link in [
            "dbs/d/colls/c/triggers/t",
            "dbs/d/colls/c/udfs/u",
            "dbs/AQAAAA==/colls/AQAAAJ0fgTc=",
        ] {
            check_link(link).expect(link);
        }
        for link in [
            "",
            "posts",
            "dbs/d",
            "dbs/d/colls",
            "dbs/d/users/u",
            "dbs/d/colls/c/docs",
            "offers/o",
        ] {
            assert_eq!(check_link(link).expect_err(link).status(), 400);
        }
    }

    #[test]
    fn a_claim_reads_back_and_other_bytes_are_refused() {
        let permission = Rid::permission(Rid::user(Rid::database(1), 2), 3);
        let bytes = Claim {
            permission,
            expires: 7,
        }
        .bytes();
        let read = Claim::read(&bytes).expect("a claim");
        assert_eq!((read.permission, read.expires), (permission, 7));
        let of_another_kind = Claim {
            permission: Rid::encryption_key(Rid::database(1), 2),
            expires: 7,
        }
        .bytes();
        for wrong in [
            &[][..],
            &bytes[..24],
            &bytes[1..],
            &[&bytes[..], &[0]].concat(),
            &of_another_kind,
        ] {
            assert!(Claim::read(wrong).is_none());
        }
    }
}
