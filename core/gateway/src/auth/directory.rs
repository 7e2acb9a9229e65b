//! Identities of a directory (Microsoft Entra ID): JSON web tokens, checked with the keys of an
//! issuer, or accepted without a check of the signature in development.
//!
//! ```text
//! base64url of {"alg":"RS256","kid":…} . base64url of {"aud":…,"iss":…,"nbf":…,"exp":…}
//!     . base64url of the signature
//! ```
//! The keys come from a file in the form in which issuers publish them (JWKS); nothing is fetched
//! over the network. Signatures are RSA with SHA-256, the one algorithm that Entra uses, so a token
//! cannot select a weaker algorithm.
//!
//! Left out: roles. Every identity with a token for one of the audiences may handle all items.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_model::json::parse;
use orrery_model::{Error, Json, Kind, Result};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use std::fmt;

/// The identities that are accepted.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The issuer of accepted tokens and its keys; `None` accepts tokens without a check of the
    /// signature.
    issuer: Option<Issuer>,
    /// The accepted audiences; empty for all.
    audiences: Vec<String>,
}

#[derive(Clone, Debug)]
struct Issuer {
    name: String,
    keys: Vec<Key>,
}

/// An RSA key of an issuer.
#[derive(Clone, Debug)]
struct Key {
    id: String,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

/// The error for a text that is not a key set.
#[derive(Debug, PartialEq, Eq)]
pub struct DirectoryError(String);

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DirectoryError {}

/// The seconds by which the clock of the issuer may be ahead. The libraries of the issuer use the
/// same tolerance.
const SKEW_SECONDS: i64 = 300;

/// The only accepted algorithm: RSA with PKCS #1 padding and SHA-256.
const ALGORITHM: &str = "RS256";

impl Directory {
    /// Accepts every token that is well-formed and not expired, for development.
    pub fn accept_any() -> Self {
        Directory {
            issuer: None,
            audiences: Vec::new(),
        }
    }

    /// Accepts tokens of `issuer` that are signed with a key in `jwks`, a JSON web key set.
    ///
    /// # Errors
    /// The text is not a key set, or has no RSA keys.
    pub fn issued_by(issuer: &str, jwks: &str) -> std::result::Result<Self, DirectoryError> {
        let set = parse(jwks.as_bytes())
            .map_err(|error| DirectoryError(format!("it is no JSON: {error}")))?;
        let Some(Json::Array(keys)) = set.get("keys") else {
            return Err(DirectoryError("it has no member 'keys'".into()));
        };
        let keys: Vec<Key> = keys.iter().filter_map(Key::read).collect();
        if keys.is_empty() {
            return Err(DirectoryError(
                "it has no RSA key for signatures with a 'kid'".into(),
            ));
        }
        Ok(Directory {
            issuer: Some(Issuer {
                name: issuer.to_owned(),
                keys,
            }),
            audiences: Vec::new(),
        })
    }

    /// Returns true if tokens are accepted without a check of their signatures.
    pub(super) fn is_unchecked(&self) -> bool {
        self.issuer.is_none()
    }

    /// Accepts only tokens for one of these audiences (the claim `aud`).
    #[must_use]
    pub fn for_audiences(mut self, audiences: Vec<String>) -> Self {
        self.audiences = audiences;
        self
    }

    /// Checks a token at `now` (seconds since 1970).
    ///
    /// # Errors
    /// 401 with the sub-status of the check that failed.
    pub(super) fn verify(&self, token: &str, now: i64) -> Result<()> {
        let token = Token::read(token).ok_or_else(|| {
            Error::new(
                Kind::DirectoryTokenMalformed,
                "The token of the directory identity is no JSON web token.",
            )
        })?;

        // The claims below are trustworthy only after the signature was checked.
        if let Some(issuer) = &self.issuer {
            issuer.check(&token)?;
        }
        let is_for_us = token
            .audiences
            .iter()
            .any(|audience| self.audiences.contains(audience));
        if !self.audiences.is_empty() && !is_for_us {
            let message = format!(
                "The token is for the audience '{}' and not for this account.",
                token.audiences.join(", ")
            );
            return Err(Error::new(Kind::DirectoryTokenAudience, message));
        }
        if now + SKEW_SECONDS < token.not_before {
            return Err(Error::new(
                Kind::DirectoryTokenNotYetValid,
                "The time of the token has not come.",
            ));
        }
        if now >= token.expires {
            return Err(Error::new(
                Kind::DirectoryTokenExpired,
                "The token has expired.",
            ));
        }
        Ok(())
    }
}

impl Key {
    /// Reads a key of a set. Returns `None` for keys of other types or for other uses.
    fn read(json: &Json) -> Option<Key> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let is_for_signatures = text("kty") == Some("RSA")
            && matches!(text("use"), None | Some("sig"))
            && matches!(text("alg"), None | Some(ALGORITHM));
        if !is_for_signatures {
            return None;
        }
        Some(Key {
            id: text("kid")?.to_owned(),
            modulus: bytes("n")?,
            exponent: bytes("e")?,
        })
    }
}

impl Issuer {
    /// Checks the algorithm, the key, the signature and the issuer of a token, in this order.
    fn check(&self, token: &Token<'_>) -> Result<()> {
        let wrong = |message: String| Error::new(Kind::DirectoryTokenSignature, message);
        // The token states its algorithm, so the algorithm must be checked before the signature.
        if token.algorithm != ALGORITHM {
            return Err(wrong(format!(
                "The token is signed with '{}' and not with {ALGORITHM}.",
                token.algorithm
            )));
        }
        if token.has_critical_extensions {
            return Err(wrong(
                "The token has critical extensions (crit), which this server does not know.".into(),
            ));
        }
        let key = self
            .keys
            .iter()
            .find(|key| Some(&key.id) == token.key_id.as_ref());
        let key = key.ok_or_else(|| {
            wrong("The token is signed with a key that its issuer is not known for.".into())
        })?;
        let public = RsaPublicKeyComponents {
            n: &key.modulus,
            e: &key.exponent,
        };
        public
            .verify(
                &RSA_PKCS1_2048_8192_SHA256,
                token.signed.as_bytes(),
                &token.signature,
            )
            .map_err(|_| wrong("The signature of the token is wrong.".into()))?;
        // The name of the issuer is a claim, which the signature protects.
        if token.issuer.as_ref() != Some(&self.name) {
            let issuer = token.issuer.as_deref().unwrap_or_default();
            return Err(Error::new(
                Kind::DirectoryTokenIssuer,
                format!("The token's issuer '{issuer}' is another."),
            ));
        }
        Ok(())
    }
}

/// A parsed token, not yet checked.
struct Token<'a> {
    /// The part of the token that the signature covers.
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: String,
    key_id: Option<String>,
    /// True if the header demands extensions, which a verifier must know or refuse.
    has_critical_extensions: bool,
    issuer: Option<String>,
    audiences: Vec<String>,
    /// Seconds since 1970.
    not_before: i64,
    /// Seconds since 1970.
    expires: i64,
}

impl<'a> Token<'a> {
    /// Parses a token. Returns `None` if it is malformed or lacks a required claim.
    fn read(text: &'a str) -> Option<Self> {
        // Three parts separated by dots: header, claims and signature.
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let (header, claims) = (json_object(header)?, json_object(claims)?);

        // The audience is a string or a list of strings; `nbf` is optional.
        let text = |json: &Json, name: &str| Some(json.get(name)?.as_str()?.to_owned());
        let audiences = match claims.get("aud")? {
            Json::String(audience) => vec![audience.clone()],
            Json::Array(audiences) => {
                let texts = audiences.iter().map(|one| Some(one.as_str()?.to_owned()));
                texts.collect::<Option<Vec<String>>>()?
            }
            _ => return None,
        };
        let not_before = match claims.get("nbf") {
            None | Some(Json::Null) => i64::MIN,
            Some(seconds) => seconds.as_i64()?,
        };
        Some(Token {
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
            algorithm: text(&header, "alg")?,
            key_id: text(&header, "kid"),
            has_critical_extensions: header.get("crit").is_some(),
            issuer: text(&claims, "iss"),
            audiences,
            not_before,
            expires: claims.get("exp")?.as_i64()?,
        })
    }
}

/// Decodes a part of a token, which must be a JSON object.
fn json_object(part: &str) -> Option<Json> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    let json = parse(&bytes).ok()?;
    json.as_object().is_some().then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key set and a token that is valid from 2023 to the end of the century, made with another
    /// program.
    const IDENTITY: &str = include_str!("test_identity.json");
    const ISSUER: &str = "https://issuer.example/tenant/";
    const AUDIENCE: &str = "https://orrery.example";
    const BEGINS: i64 = 1_700_000_000;
    const ENDS: i64 = 4_102_444_800;

    fn identity() -> (String, String) {
        let json = parse(IDENTITY.as_bytes()).expect("JSON");
        let token = json
            .get("token")
            .and_then(Json::as_str)
            .expect("a token")
            .to_owned();
        (json.get("jwks").expect("a key set").to_text(), token)
    }

    fn sub_status(directory: &Directory, token: &str, now: i64) -> u32 {
        directory.verify(token, now).err().map_or(0, |error| {
            assert_eq!(error.status(), 401);
            error.sub_status()
        })
    }

    #[test]
    fn a_token_of_the_issuer_is_accepted_for_its_audience_and_time() {
        let (keys, token) = identity();
        let directory = Directory::issued_by(ISSUER, &keys)
            .expect("keys")
            .for_audiences(vec![AUDIENCE.into()]);
        assert_eq!(sub_status(&directory, &token, BEGINS), 0);
        assert_eq!(sub_status(&directory, &token, BEGINS - SKEW_SECONDS), 0);
        assert_eq!(
            sub_status(&directory, &token, BEGINS - SKEW_SECONDS - 1),
            5005
        );
        assert_eq!(sub_status(&directory, &token, ENDS - 1), 0);
        assert_eq!(sub_status(&directory, &token, ENDS), 5006);
        let others = directory
            .clone()
            .for_audiences(vec!["https://other.example".into()]);
        assert_eq!(sub_status(&others, &token, BEGINS), 5008);
        let another = Directory::issued_by("https://issuer.example/other/", &keys).expect("keys");
        assert_eq!(sub_status(&another, &token, BEGINS), 5007);
        let unknown =
            Directory::issued_by(ISSUER, &keys.replace("test-key", "other-key")).expect("keys");
        assert_eq!(sub_status(&unknown, &token, BEGINS), 5004);
    }

    #[test]
    fn no_altered_character_of_a_token_of_the_issuer_passes() {
        let (keys, token) = identity();
        let directory = Directory::issued_by(ISSUER, &keys).expect("keys");
        for (at, old) in token.char_indices() {
            for by in ['A', 'B', '.', '-'].into_iter().filter(|by| *by != old) {
                let altered = format!("{}{by}{}", &token[..at], &token[at + 1..]);
                assert!(
                    matches!(sub_status(&directory, &altered, BEGINS), 5003 | 5004),
                    "{altered}"
                );
            }
        }
        let unsigned = format!("{}.", token.rsplit_once('.').expect("three parts").0);
        assert_eq!(sub_status(&directory, &unsigned, BEGINS), 5004);
    }

    #[test]
    fn a_token_cannot_select_its_algorithm() {
        let (keys, token) = identity();
        let directory = Directory::issued_by(ISSUER, &keys).expect("keys");
        let (_, rest) = token.split_once('.').expect("three parts");
        for header in [
            r#"{"alg":"none","kid":"test-key"}"#,
            r#"{"alg":"HS256","kid":"test-key"}"#,
            r#"{"alg":"RS256"}"#,
        ] {
            let forged = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header));
            assert_eq!(sub_status(&directory, &forged, BEGINS), 5004);
        }
    }

    #[test]
    fn a_token_with_critical_extensions_is_refused_for_them() {
        let (keys, token) = identity();
        let directory = Directory::issued_by(ISSUER, &keys).expect("keys");
        let (_, rest) = token.split_once('.').expect("three parts");
        let header = r#"{"alg":"RS256","kid":"test-key","crit":["b64"],"b64":false}"#;
        let extended = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header));
        let error = directory.verify(&extended, BEGINS).expect_err("refused");
        assert_eq!(error.sub_status(), 5004);
        assert!(error.message().contains("crit"), "{error}");
    }

    #[test]
    fn in_development_a_token_must_be_well_formed_and_not_expired() {
        let token = |claims: &str| {
            format!(
                "{}.{}.c2ln",
                URL_SAFE_NO_PAD.encode(r#"{"alg":"x"}"#),
                URL_SAFE_NO_PAD.encode(claims)
            )
        };
        let any = Directory::accept_any();
        assert_eq!(sub_status(&any, &token(r#"{"aud":"a","exp":20}"#), 19), 0);
        assert_eq!(
            sub_status(&any, &token(r#"{"aud":["a","b"],"exp":20,"nbf":1}"#), 19),
            0
        );
        assert_eq!(
            sub_status(&any, &token(r#"{"aud":"a","exp":20}"#), 20),
            5006
        );
        assert_eq!(
            sub_status(&any, &token(r#"{"aud":"a","exp":2000,"nbf":1000}"#), 20),
            5005
        );
        let for_audience = any.clone().for_audiences(vec!["b".into()]);
        assert_eq!(
            sub_status(&for_audience, &token(r#"{"aud":["a","b"],"exp":20}"#), 19),
            0
        );
        assert_eq!(
            sub_status(&for_audience, &token(r#"{"aud":"a","exp":20}"#), 19),
            5008
        );
        for claims in [
            r#"{"aud":"a"}"#,
            r#"{"exp":20}"#,
            r#"{"aud":1,"exp":20}"#,
            r#"{"aud":"a","exp":"20"}"#,
            "[]",
            "{",
        ] {
            assert_eq!(sub_status(&any, &token(claims), 19), 5003, "{claims}");
        }
        for text in ["", "a", "a.b", "..", "a.b.c"] {
            assert_eq!(sub_status(&any, text, 19), 5003, "{text}");
        }
    }

    #[test]
    fn a_key_set_without_rsa_keys_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"keys":[]}"#,
            r#"{"keys":[{"kty":"EC","kid":"k"}]}"#,
            r#"{"keys":[{"kty":"RSA"}]}"#,
            r#"{"keys":[{"kty":"RSA","kid":"k","alg":"PS256","n":"AQAB","e":"AQAB"}]}"#,
        ] {
            assert!(Directory::issued_by(ISSUER, text).is_err(), "{text}");
        }
    }
}
