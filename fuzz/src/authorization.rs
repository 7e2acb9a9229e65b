//! The header `authorization`, in the first line of the input, and the date of the request in the
//! second.
//!
//! `{S}` in the input stands for the signature of the request with that date, `{T}` for a resource
//! token of the account, `{M}` and `{C}` for its MAC and its claim: no mutation would hit them.

use crate::fixture::{Fixture, NOW_MS, check_refusal, object};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use orrery_engine::TokenSigner;
use orrery_engine::request::{AccessResourceKind, Id};
use orrery_gateway::Keys;
use orrery_gateway::fuzzing::{AccountRead, Credentials};
use orrery_model::json::parse;
use orrery_model::{Json, Rid};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::sync::LazyLock;

const KEY: &str = "ZnV6emluZyBrZXkgb2YgdGhlIGFjY291bnQ=";
const NOW: i64 = (NOW_MS / 1_000) as i64;
const TOKEN_SECONDS: u64 = 3_600;
/// The date at which the server is, and that of an input without a second line.
const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// An account with a permission.
struct Account {
    fixture: Fixture,
    credentials: Credentials,
    /// The resource token, and its two secret parts.
    token: String,
    mac: String,
    claim: String,
}

static ACCOUNT: LazyLock<Account> = LazyLock::new(account);

fn account() -> Account {
    let fixture = Fixture::new(1);
    let engine = &fixture.engine;
    let credentials = Credentials::new(Keys::new(KEY).expect("a key"));
    let create = |owner: Rid, kind, body, signer| {
        let created = engine.create_access_resource(owner, kind, &object(body), false, signer);
        created.result.expect("it is created")
    };
    let database = engine.database(Id::Name("db")).expect("a database");
    let no_token = TokenSigner(&|_| String::new());
    let user = create(
        database.rid(),
        AccessResourceKind::User,
        r#"{"id":"u"}"#,
        no_token,
    );
    let sign = |grant: &_| {
        let token = credentials.token(grant, engine, NOW, TOKEN_SECONDS);
        token.expect("the account has a key")
    };
    let permission = create(
        user.rid,
        AccessResourceKind::Permission,
        r#"{"id":"p","permissionMode":"Read","resource":"dbs/db/colls/items"}"#,
        TokenSigner(&sign),
    );
    let body = parse(&permission.body).expect("JSON");
    let token = body
        .get("_token")
        .and_then(Json::as_str)
        .expect("a token")
        .to_owned();
    let parts = token
        .strip_prefix("type=resource&ver=1&sig=")
        .expect("a token");
    let mut parts = parts.split(';');
    let (mac, claim) = (parts.next().expect("a MAC"), parts.next().expect("a claim"));
    Account {
        mac: mac.to_owned(),
        claim: claim.to_owned(),
        token,
        fixture,
        credentials,
    }
}

/// Signs a request to read the account, without code of the gateway.
fn signature(date: &str) -> String {
    let key = STANDARD.decode(KEY).expect("base64");
    let mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("a key");
    let text = format!("get\n\n\n{}\n\n", date.to_lowercase());
    STANDARD.encode(mac.chain_update(text).finalize().into_bytes())
}

/// Checks an input: credentials are accepted only if they have the signature or the token, and a
/// refusal does not show them.
pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (sent, date) = text.split_once('\n').unwrap_or((text, DATE));
    let account = &*ACCOUNT;
    let signature = signature(date);
    let header = sent
        .replace("{S}", &signature)
        .replace("{T}", &account.token)
        .replace("{M}", &account.mac)
        .replace("{C}", &account.claim);
    match ask(&header, date) {
        Ok(()) => check_accepted(&header, date, &signature),
        Err((status, message)) => {
            assert!([401, 403].contains(&status), "{status}: {message}");
            // What a client has sent is no secret to it.
            let sent = percent_decode_str(&header).decode_utf8_lossy();
            for secret in [&signature, &account.mac] {
                let is_shown = message.contains(&secret[..]) && !sent.contains(&secret[..]);
                assert!(!is_shown, "the refusal shows a secret: {message}");
            }
        }
    }
}

/// Returns the answer to credentials: the status and the message of a refusal.
fn ask(authorization: &str, date: &str) -> Result<(), (u16, String)> {
    let request = AccountRead {
        authorization,
        date,
        now: NOW,
    };
    let account = &*ACCOUNT;
    let answer = account.credentials.check(request, &account.fixture.engine);
    answer.map_err(|error| {
        check_refusal(&error, 3 * authorization.len() + date.len());
        (error.status(), error.message().to_owned())
    })
}

/// Checks accepted credentials: the header has the secret parts, and what clients send with these
/// is accepted as well, percent-encoded or not.
fn check_accepted(header: &str, date: &str, signature: &str) {
    let decoded = percent_decode_str(header).decode_utf8().expect("UTF-8");
    // Some clients send a blank for the `+` of base64.
    let decoded = decoded.replace(' ', "+");
    let account = &*ACCOUNT;
    let is_signed = decoded.contains(signature);
    let has_token = decoded.contains(&account.mac) && decoded.contains(&account.claim);
    assert!(is_signed || has_token, "{header:?} is accepted at {date:?}");
    let canonical = match has_token {
        true => account.token.clone(),
        false => format!("type=master&ver=1.0&sig={signature}"),
    };
    let encoded = utf8_percent_encode(&canonical, NON_ALPHANUMERIC).to_string();
    for form in [canonical, encoded] {
        assert_eq!(ask(&form, date), Ok(()), "{form}");
    }
}
