//! Who is asking, and what they may do: decided here, once for each request.
//!
//! ```text
//! authorization  ──credentials──▶  keys       a signature with a key of the account
//!                                  tokens     a resource token, minted here for a permission
//!                                  directory  a token of a directory (Microsoft Entra ID), if any are accepted
//!                                  ▼
//!                                  Caller  ──rights──▶  may do this operation, or 403
//! ```
//! Everything secret is compared in constant time: signatures with `subtle`, tokens with the check of the `hmac` crate.
//! What a comparison may tell is which of the account's few keys fitted, and only to somebody who has it.
//!
//! Left out: shared access signatures, which are refused by name, and roles of directory identities.

mod directory;
mod keys;
mod rights;
mod tokens;

pub use directory::{Directory, DirectoryError};
pub use keys::{Keys, KeysError};
pub(crate) use rights::{Asked, check};
pub(crate) use tokens::check_link;

use orrery_engine::{Engine, Grant};
use orrery_model::{Error, Kind, Result};
use std::sync::{Arc, PoisonError, RwLock};
use tokens::{TokenIssuer, TokenScope};

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// A holder of a key that may do everything, and mints tokens.
    FullKey(TokenIssuer),
    /// A holder of a key that may only read.
    ReadOnlyKey,
    /// A bearer of a resource token: what its permission grants, and what that reaches.
    ResourceToken(Grant, Option<TokenScope>),
    /// An identity of a directory.
    DirectoryIdentity,
}

/// What of a request takes part in its signature.
pub(crate) struct SignedRequest<'a> {
    /// The HTTP method.
    pub(crate) verb: &'a str,
    /// The resource type, such as `docs`.
    pub(crate) resource_type: &'a str,
    /// The links that the client may have signed, the likeliest first.
    pub(crate) links: Vec<String>,
    /// `authorization`
    pub(crate) authorization: Option<&'a str>,
    /// `x-ms-date`
    pub(crate) ms_date: Option<&'a str>,
    /// `Date`
    pub(crate) date: Option<&'a str>,
}

/// Everything by which requests are told to come from somebody.
pub(crate) struct Authenticator {
    keys: RwLock<Arc<Keys>>,
    directory: Option<Directory>,
}

impl Authenticator {
    /// With these keys of the account, and perhaps a directory.
    pub(crate) fn new(keys: Keys, directory: Option<Directory>) -> Self {
        Authenticator {
            keys: RwLock::new(Arc::new(keys)),
            directory,
        }
    }

    /// Takes other keys from now on; what was signed or minted with one that is gone is worth nothing.
    pub(crate) fn replace_keys(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Who sent a request at `now` (seconds since 1970).
    ///
    /// # Errors
    /// 401 for missing, malformed or wrong credentials, 403 for those of another time.
    pub(crate) fn authenticate(
        &self,
        request: &SignedRequest<'_>,
        engine: &Engine,
        now: i64,
    ) -> Result<Caller> {
        let credentials = Credentials::parse(request.authorization)?;
        let keys = Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner));
        match credentials.kind {
            CredentialKind::Master => keys.verify(request, &credentials.signature, now),
            CredentialKind::Resource => tokens::verify(&keys, &credentials.signature, engine, now),
            CredentialKind::Directory => {
                let directory = self.directory.as_ref().ok_or_else(|| {
                    Error::new(
                        Kind::DirectoryDisabled,
                        "Directory identities (type=aad) are not accepted: the server was started without --entra.",
                    )
                })?;
                directory
                    .verify(&credentials.signature, now)
                    .map(|()| Caller::DirectoryIdentity)
            }
        }
    }
}

/// The kinds of credentials that we know how to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CredentialKind {
    Master,
    Resource,
    Directory,
}

/// What an authorization header says: `type=master&ver=1.0&sig=…`.
#[derive(Debug, PartialEq, Eq)]
struct Credentials {
    kind: CredentialKind,
    signature: String,
}

/// Bytes of a decoded master authorization, and of one of any type.
const MASTER_BYTES: usize = 1024;
const ANY_BYTES: usize = 16 * 1024;

impl Credentials {
    /// Reads the header, percent-encoded or not.
    ///
    /// Only `%XX` is decoded: form decoding would turn the `+` of base64 into a blank, and some clients do that for us.
    /// A token holds `=` and `;`, so all that follows `sig=` belongs to it, up to a comma.
    fn parse(header: Option<&str>) -> Result<Self> {
        let header = header.map(str::trim).filter(|header| !header.is_empty()).ok_or_else(|| {
            Error::new(
                Kind::AuthorizationMissing,
                "Required Header authorization is missing. Ensure a valid Authorization token is passed.",
            )
        })?;
        if header.len() > ANY_BYTES {
            return Err(malformed());
        }
        let decoded = percent_encoding::percent_decode_str(header)
            .decode_utf8()
            .map_err(|_| malformed())?;
        let mut parts = decoded
            .splitn(3, '&')
            .map(|part| part.split_once('=').unwrap_or((part, "")));
        let mut value = |name: &str| {
            parts
                .next()
                .filter(|(n, _)| n.trim().eq_ignore_ascii_case(name))
                .map(|(_, v)| v)
                .ok_or_else(malformed)
        };
        let (kind, version, signature) = (value("type")?, value("ver")?, value("sig")?);
        let kind = match kind.to_ascii_lowercase().as_str() {
            "master" => CredentialKind::Master,
            "resource" => CredentialKind::Resource,
            "aad" => CredentialKind::Directory,
            "sas" => {
                return Err(unauthorized(
                    "Shared access signatures (type=sas) are not supported by this server.",
                ));
            }
            _ => {
                let message = format!(
                    "The authorization type '{kind}' is unknown; it must be master, resource or aad."
                );
                return Err(unauthorized(message));
            }
        };
        // Tokens say 1, as the service's do; whoever writes the header anew may make it 1.0.
        if version != "1.0" && !(kind == CredentialKind::Resource && version == "1") {
            return Err(unauthorized(format!(
                "The authorization version '{version}' is unknown; it must be 1.0."
            )));
        }
        let signature = signature
            .split(',')
            .next()
            .unwrap_or_default()
            .trim()
            .replace(' ', "+");
        if signature.is_empty() || kind == CredentialKind::Master && decoded.len() > MASTER_BYTES {
            return Err(malformed());
        }
        Ok(Credentials { kind, signature })
    }
}

fn malformed() -> Error {
    Error::new(
        Kind::AuthorizationMalformed,
        "The authorization header does not have the form 'type={typeoftoken}&ver={tokenversion}&sig={hash}'.",
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
