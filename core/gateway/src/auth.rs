//! Authentication and authorization: the sender of a request and the rights of the sender, decided
//! once for each request.
//!
//! ```text
//! authorization header -> Credentials -> keys       a signature with a key of the account
//!                                        tokens     a resource token, issued for a permission
//!                                        directory  a token of Microsoft Entra ID, if accepted
//!                                        -> Caller -> rights    allowed, or 403
//! ```
//! All secrets are compared in constant time: signatures with `subtle`, tokens with the check of
//! the `hmac` crate. The duration of a comparison reveals at most which of the few keys of the
//! account matched, and only to a sender who has this key.
//!
//! Left out: shared access signatures, which are refused by name, and roles of directory
//! identities.

mod directory;
mod keys;
mod rights;
mod tokens;

pub use directory::{Directory, DirectoryError};
pub use keys::{Keys, KeysError};
pub(crate) use rights::{AccessRequest, Rights, check};
pub(crate) use tokens::check_link;

use crate::connection::TrustedAccess;
use orrery_engine::{Engine, PermissionContent};
use orrery_model::sync::{read, write};
use orrery_model::{Error, Kind, Result};
use std::sync::{Arc, RwLock};
use tokens::{TokenIssuer, TokenScope};

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// A holder of a key that allows everything. The issuer makes resource tokens with this key.
    FullKey(TokenIssuer),
    /// A holder of a key that allows reading only.
    ReadOnlyKey,
    /// A bearer of a resource token: what its permission grants, and the resource that the
    /// permission names, if this resource exists.
    ResourceToken(PermissionContent, Option<TokenScope>),
    /// An identity of a directory.
    DirectoryIdentity,
}

impl Caller {
    /// Returns true if the credentials cover the path of the request: signatures do, tokens do not.
    pub(crate) fn has_signed_path(&self) -> bool {
        matches!(self, Caller::FullKey(_) | Caller::ReadOnlyKey)
    }
}

/// The parts of a request that its signature covers, and the signature.
pub(crate) struct SignedRequest<'a> {
    /// The HTTP method.
    pub(crate) verb: &'a str,
    /// The resource type, such as `docs`.
    pub(crate) resource_type: &'a str,
    /// The links that the client may have signed, the most likely first.
    pub(crate) links: Vec<String>,
    /// `authorization`
    pub(crate) authorization: Option<&'a str>,
    /// `x-ms-date`
    pub(crate) ms_date: Option<&'a str>,
    /// `Date`
    pub(crate) date: Option<&'a str>,
}

/// Checks credentials.
pub(crate) struct Authenticator {
    keys: RwLock<Arc<Keys>>,
    directory: Option<Directory>,
}

impl Authenticator {
    /// Creates an authenticator with the keys of the account and, if directory identities are
    /// accepted, their directory.
    pub(crate) fn new(keys: Keys, directory: Option<Directory>) -> Self {
        Authenticator {
            keys: RwLock::new(Arc::new(keys)),
            directory,
        }
    }

    /// Replaces the keys. Signatures and tokens made with a removed key are no longer accepted.
    pub(crate) fn replace_keys(&self, keys: Keys) {
        *write(&self.keys) = Arc::new(keys);
    }

    /// Returns true if anyone can make credentials that are accepted: with the well-known key, or
    /// because tokens of a directory are accepted unchecked.
    pub(crate) fn is_open(&self) -> bool {
        let has_unchecked_tokens = match &self.directory {
            Some(directory) => directory.is_unchecked(),
            None => false,
        };
        has_unchecked_tokens || read(&self.keys).has_well_known_key()
    }

    /// Returns the caller with the rights `access` at `now` (seconds since 1970). Resource tokens
    /// are issued with the primary key.
    ///
    /// # Errors
    /// 500 if the account has no key that allows everything.
    pub(crate) fn trusted_caller(&self, access: TrustedAccess, now: i64) -> Result<Caller> {
        match access {
            TrustedAccess::ReadOnly => Ok(Caller::ReadOnlyKey),
            TrustedAccess::Full => match read(&self.keys).token_keys().next() {
                Some(key) => Ok(Caller::FullKey(TokenIssuer {
                    key: key.clone(),
                    now,
                })),
                None => Err(Error::internal("the account has no primary key")),
            },
        }
    }

    /// Returns the sender of a request at `now` (seconds since 1970).
    ///
    /// # Errors
    /// 401 for missing, malformed or wrong credentials, 403 for credentials of another time.
    pub(crate) fn authenticate(
        &self,
        request: &SignedRequest<'_>,
        engine: &Engine,
        now: i64,
    ) -> Result<Caller> {
        let credentials = Credentials::parse(request.authorization)?;
        let signature = &credentials.signature;
        let keys = Arc::clone(&read(&self.keys));
        match credentials.kind {
            CredentialKind::Master => keys.verify(request, signature, now),
            CredentialKind::Resource => tokens::verify(&keys, signature, engine, now),
            CredentialKind::Directory => {
                let Some(directory) = &self.directory else {
                    return Err(Error::new(
                        Kind::DirectoryDisabled,
                        "Directory identities (type=aad) are not accepted: the server was started \
                         without --entra.",
                    ));
                };
                directory.verify(signature, now)?;
                Ok(Caller::DirectoryIdentity)
            }
        }
    }
}

/// The kinds of credentials that the server can check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CredentialKind {
    Master,
    Resource,
    Directory,
}

/// A parsed authorization header: `type=master&ver=1.0&sig=…`.
#[derive(Debug, PartialEq, Eq)]
struct Credentials {
    kind: CredentialKind,
    signature: String,
}

/// The longest decoded authorization of type master, in bytes.
const MASTER_BYTES: usize = 1024;
/// The longest authorization of any type, in bytes.
const ANY_BYTES: usize = 16 * 1024;

impl Credentials {
    /// Parses the header, percent-encoded or not.
    ///
    /// Only `%XX` is decoded, because form decoding would turn the `+` of base64 into a blank. Some
    /// clients send such a blank, so blanks become `+` again. A token contains `=` and `;`, so
    /// everything after `sig=` belongs to the signature, up to a comma.
    ///
    /// # Errors
    /// 401 with the sub-status for a missing or malformed header.
    fn parse(header: Option<&str>) -> Result<Self> {
        let header = header.unwrap_or_default().trim();
        if header.is_empty() {
            return Err(Error::new(
                Kind::AuthorizationMissing,
                "Required Header authorization is missing. Ensure a valid Authorization token is \
                 passed.",
            )
            .with_help(
                "A client of the service signs each request with the account key: give the \
                 endpoint and the key, or the connection string, to an SDK.",
            ));
        }
        if header.len() > ANY_BYTES {
            return Err(malformed());
        }
        let decoded = percent_encoding::percent_decode_str(header)
            .decode_utf8()
            .map_err(|_| malformed())?;

        // The three parts must come in this order.
        let mut parts = decoded.splitn(3, '&');
        let kind = value_of("type", parts.next())?.to_ascii_lowercase();
        let version = value_of("ver", parts.next())?;
        let signature = value_of("sig", parts.next())?;
        let kind = match kind.as_str() {
            "master" => CredentialKind::Master,
            "resource" => CredentialKind::Resource,
            "aad" => CredentialKind::Directory,
            "sas" => {
                return Err(unauthorized(
                    "Shared access signatures (type=sas) are not supported by this server. Use an \
                     account key or a resource token.",
                ));
            }
            _ => {
                return Err(unauthorized(format!(
                    "The authorization type '{kind}' is unknown; it must be master, resource or \
                     aad."
                )));
            }
        };

        // Tokens of the service have the version 1; clients that write the header again may make it
        // 1.0.
        let is_version_known =
            version == "1.0" || version == "1" && kind == CredentialKind::Resource;
        if !is_version_known {
            return Err(unauthorized(format!(
                "The authorization version '{version}' is unknown; it must be 1.0."
            )));
        }

        let (signature, _) = signature.split_once(',').unwrap_or((signature, ""));
        let signature = signature.trim().replace(' ', "+");
        let is_too_long = kind == CredentialKind::Master && decoded.len() > MASTER_BYTES;
        if signature.is_empty() || is_too_long {
            return Err(malformed());
        }
        Ok(Credentials { kind, signature })
    }
}

/// Returns the value of a part `name=value`; the empty text if the part has no `=`.
fn value_of<'a>(name: &str, part: Option<&'a str>) -> Result<&'a str> {
    let part = part.ok_or_else(malformed)?;
    let (found, value) = part.split_once('=').unwrap_or((part, ""));
    if found.trim().eq_ignore_ascii_case(name) {
        Ok(value)
    } else {
        Err(malformed())
    }
}

fn malformed() -> Error {
    Error::new(
        Kind::AuthorizationMalformed,
        "The authorization header does not have the form \
         'type={typeoftoken}&ver={tokenversion}&sig={hash}'.",
    )
    .with_help(
        "The header is a signature made with the account key, percent-encoded, and not the key \
         itself and not 'Bearer …'.",
    )
}

fn unauthorized(message: impl Into<String>) -> Error {
    Error::new(Kind::Unauthorized, message)
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn sub(header: Option<&str>) -> std::result::Result<CredentialKind, (u16, u32)> {
        Credentials::parse(header)
            .map(|c| c.kind)
            .map_err(|error| (error.status(), error.sub_status()))
    }

    #[test]
    fn missing_and_malformed_headers_have_their_own_sub_status() {
        assert_eq!(sub(None), Err((401, 5000)));
        assert_eq!(sub(Some("")), Err((401, 5000)));
        assert_eq!(sub(Some("Bearer abc")), Err((401, 5001)));
        assert_eq!(sub(Some("type=master&ver=1.0")), Err((401, 5001)));
        assert_eq!(sub(Some("type=master&ver=1.0&sig=")), Err((401, 5001)));
        assert_eq!(
            sub(Some(&format!(
                "type=master&ver=1.0&sig={}",
                "A".repeat(1025)
            ))),
            Err((401, 5001))
        );
        assert_eq!(
            sub(Some(&format!(
                "type=resource&ver=1&sig={}",
                "A".repeat(16 * 1024)
            ))),
            Err((401, 5001))
        );
        assert_eq!(sub(Some("type=master&ver=2.0&sig=AAAA")), Err((401, 0)));
        assert_eq!(sub(Some("type=master&ver=1&sig=AAAA")), Err((401, 0)));
        assert_eq!(
            sub(Some("type=aad&ver=1.0&sig=a.b.c")),
            Ok(CredentialKind::Directory)
        );
        assert_eq!(sub(Some("type=sas&ver=1.0&sig=abc")), Err((401, 0)));
        assert_eq!(
            sub(Some("type=resource&ver=1&sig=a==;b;")),
            Ok(CredentialKind::Resource)
        );
        assert_eq!(
            sub(Some("type=resource&ver=1.0&sig=a==;b;")),
            Ok(CredentialKind::Resource)
        );
    }

    #[test]
    fn a_token_keeps_all_its_semicolons_and_equal_signs() {
        let plain = "type=resource&ver=1&sig=ab+/==;cd==;";
        for form in [
            plain,
            "type%3Dresource%26ver%3D1%26sig%3Dab%2b%2F%3d%3d%3Bcd%3D%3D%3B",
            &plain.replace('+', " "),
        ] {
            assert_eq!(
                Credentials::parse(Some(form)).expect(form).signature,
                "ab+/==;cd==;"
            );
        }
    }
}
