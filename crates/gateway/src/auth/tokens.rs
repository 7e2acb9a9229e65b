//! Resource tokens: minted whenever a permission is answered, and checked without having been kept.
//!
//! ```text
//! type=resource&ver=1&sig=<base64 of the MAC>;<base64 of the claim>;
//! claim   version·1 permission's resource id·16 expiry in seconds since 1970·8
//! MAC     HMAC-SHA256 over the claim and what the permission reaches, under a key derived from the account's
//! ```
//! A token does not say what it allows: the permission does, and the MAC holds it to what it said when the token was
//! minted. So a token ends with its time, with the key that it was asked for with, and when its permission is deleted,
//! grants something else, or reaches another container because the one it named was deleted. A permission that is
//! written again as it was leaves its tokens alone.

use super::{Caller, Keys, unauthorized};
use crate::route::{Path, Target};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use orrery_engine::request::{Id, ScriptKind};
use orrery_engine::{Engine, Grant};
use orrery_model::{Error, Json, Kind, Result, Rid};
use sha2::Sha256;
use std::fmt;

/// A key for tokens, derived from one of the account's.
#[derive(Clone)]
pub(super) struct TokenKey(Hmac<Sha256>);

/// What mints tokens for one request.
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

/// What a permission's link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenScope {
    /// A container and all below it.
    Container(Rid),
    /// An item of a container, in whichever logical partition.
    Item(Rid, ItemName),
    /// A script.
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
    /// What a link leads to now; `None` if nothing is there.
    ///
    /// A link is percent-encoded or not, as its client likes, so it is tried as it is first.
    pub(super) fn of(link: &str, engine: &Engine) -> Option<TokenScope> {
        let as_it_is = TokenScope::at(&Path::of_link(link), engine);
        as_it_is.or_else(|| TokenScope::at(&Path::parse(link).ok()?, engine))
    }

    fn at(path: &Path, engine: &Engine) -> Option<TokenScope> {
        let target = path.route().ok()?.target;
        let container = path.container(engine).ok()?;
        match target {
            Target::Container => Some(TokenScope::Container(container.rid())),
            Target::Item => Some(TokenScope::Item(
                container.rid(),
                path.child_id(engine)?.into(),
            )),
            Target::Script(kind) => {
                let script = engine.script_rid(&container, kind, path.child_id(engine)?)?;
                Some(TokenScope::Script(container.rid(), kind, script))
            }
            _ => None,
        }
    }

    /// The container that it is or lies in.
    pub(super) fn container(&self) -> Rid {
        match self {
            TokenScope::Container(rid) | TokenScope::Item(rid, _) | TokenScope::Script(rid, ..) => {
                *rid
            }
        }
    }
}

/// Checks that a permission's link has the form of one that a token can reach.
///
/// # Errors
/// 400 if it names neither a container nor an item or script in one: what stands above is for the account's keys.
pub(crate) fn check_link(link: &str) -> Result<()> {
    match Path::of_link(link).route().map(|route| route.target) {
        Ok(Target::Container | Target::Item | Target::Script(_)) => Ok(()),
        _ => Err(Error::bad(format!(
            "The resource '{link}' of a permission must be the link of a container, an item, a stored procedure, a \
             trigger or a user-defined function."
        ))),
    }
}

/// What stands in a token for anybody to read.
struct Claim {
    permission: Rid,
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
        Some(Claim {
            permission,
            expires: i64::from_be_bytes(expires.try_into().ok()?),
        })
    }
}

impl TokenKey {
    /// The key for tokens that belongs to a key of the account.
    pub(super) fn derive(key: &Hmac<Sha256>) -> Self {
        let derived = key
            .clone()
            .chain_update(b"orrery resource tokens")
            .finalize()
            .into_bytes();
        TokenKey(Hmac::new_from_slice(&derived).expect("a key of any length will do"))
    }

    fn mac(&self, claim: &[u8], grant: &Grant, reach: Option<&TokenScope>) -> Hmac<Sha256> {
        self.0
            .clone()
            .chain_update(claim)
            .chain_update(meaning(grant, reach).as_bytes())
    }
}

impl TokenIssuer {
    /// The token of a permission that lives so long.
    pub(crate) fn issue(&self, grant: &Grant, engine: &Engine, seconds: u64) -> String {
        let expires = self.now.saturating_add_unsigned(seconds);
        let claim = Claim {
            permission: grant.permission,
            expires,
        }
        .bytes();
        let mac = self
            .key
            .mac(
                &claim,
                grant,
                TokenScope::of(&grant.resource, engine).as_ref(),
            )
            .finalize()
            .into_bytes();
        format!(
            "type=resource&ver=1&sig={};{};",
            STANDARD.encode(mac),
            STANDARD.encode(claim)
        )
    }
}

/// What a permission allows, as a text that no other permission has.
fn meaning(grant: &Grant, reach: Option<&TokenScope>) -> String {
    let key = grant
        .partition_key
        .as_ref()
        .map_or(Json::Null, |key| key.to_json());
    let reach: Vec<Json> = match reach {
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
    Json::Array(vec![grant.mode.name().into(), key, Json::Array(reach)]).to_text()
}

/// Checks a token at `now` (seconds since 1970).
///
/// # Errors
/// 401 for a token that no key in force minted for a permission as it is now, 403 for one whose time is over.
pub(super) fn verify(keys: &Keys, token: &str, engine: &Engine, now: i64) -> Result<Caller> {
    let invalid = || {
        unauthorized(
            "The resource token is not valid: this account did not issue it with a key that is in force, or its \
             permission was changed or deleted since. Read the permission to get another.",
        )
    };
    let (mac, claim) = token
        .strip_suffix(';')
        .and_then(|token| token.split_once(';'))
        .ok_or_else(invalid)?;
    let mac = STANDARD.decode(mac).map_err(|_| invalid())?;
    let bytes = STANDARD.decode(claim).map_err(|_| invalid())?;
    let claim = Claim::read(&bytes).ok_or_else(invalid)?;
    let grant = engine.grant(claim.permission).ok_or_else(invalid)?;
    let reach = TokenScope::of(&grant.resource, engine);
    if !keys.token_keys().any(|key| {
        key.mac(&bytes, &grant, reach.as_ref())
            .verify_slice(&mac)
            .is_ok()
    }) {
        return Err(invalid());
    }
    if now >= claim.expires {
        return Err(Error::new(
            Kind::Forbidden,
            format!(
                "The resource token has expired (token expiry time: {}, current server time: {}). Read the permission \
                 to get another.",
                crate::date::print(claim.expires),
                crate::date::print(now)
            ),
        ));
    }
    Ok(Caller::ResourceToken(grant, reach))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_containers_and_what_is_in_them_make_permissions() {
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
    fn a_claim_reads_back_and_nothing_else_is_one() {
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
