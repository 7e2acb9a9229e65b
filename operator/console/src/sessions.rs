//! Sign-in and the sessions of browsers.
//!
//! A person signs in with an admin key, or by the one-time address that the server prints when it
//! starts. A session is a random number in a cookie that scripts cannot read, and a token for the
//! pages, which each of their requests carries.
//!
//! Promises: only digests of secrets are stored and compared; the one-time token is accepted once;
//! sessions end after [`IDLE_MS`] without a request and with the process; the number of sessions is
//! bounded.
//!
//! Left out: a limit on attempts to sign in. The management API takes the same keys without one,
//! and a limit would let one guesser lock others out; the keys of the server have 256 bits.

use orrery_model::hex;
use orrery_model::sync::lock;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Mutex;
use subtle::ConstantTimeEq;

/// Milliseconds without a request after which a session ends.
const IDLE_MS: u64 = 12 * 60 * 60 * 1000;
/// Sessions at a time; one more ends the one that was not used for the longest time.
const SESSIONS: usize = 100;

type Secret = [u8; 32];

/// A session that has begun: its secret for the cookie and its token for the pages.
pub(crate) struct NewSession {
    /// Secret for the cookie, as hexadecimal digits.
    pub(crate) secret: String,
    /// Token for the pages, as hexadecimal digits.
    pub(crate) token: String,
}

#[derive(Debug)]
struct Session {
    token: String,
    used_ms: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Sessions by the digest of their secret.
    sessions: HashMap<Secret, Session>,
    /// Digest of the one-time token, until it is used.
    one_time: Option<Secret>,
}

/// The sessions of a server.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<State>);

impl Sessions {
    /// Creates a new one-time token, as hexadecimal digits. The token before it becomes invalid.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new_one_time_token(&self) -> Result<String, getrandom::Error> {
        let token = new_secret()?;
        lock(&self.0).one_time = Some(digest(&token));
        Ok(token)
    }

    /// Uses up the one-time token; returns true if `token` was the token.
    pub(crate) fn redeem(&self, token: &str) -> bool {
        let presented = digest(token);
        let mut state = lock(&self.0);
        let is_valid = match &state.one_time {
            Some(expected) => expected.ct_eq(&presented).into(),
            None => false,
        };
        if is_valid {
            state.one_time = None;
        }
        is_valid
    }

    /// Begins a session.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn begin(&self, now_ms: u64) -> Result<NewSession, getrandom::Error> {
        let (secret, token) = (new_secret()?, new_secret()?);
        let mut state = lock(&self.0);
        if state.sessions.len() >= SESSIONS {
            let oldest = state
                .sessions
                .iter()
                .min_by_key(|(_, session)| session.used_ms)
                .map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                state.sessions.remove(&oldest);
            }
        }
        let session = Session {
            token: token.clone(),
            used_ms: now_ms,
        };
        state.sessions.insert(digest(&secret), session);
        Ok(NewSession { secret, token })
    }

    /// Returns the token of the session with this secret, and keeps the session alive; `None` if
    /// there is no such session.
    pub(crate) fn token_of(&self, secret: &str, now_ms: u64) -> Option<String> {
        let key = digest(secret);
        let mut state = lock(&self.0);
        let session = state.sessions.get_mut(&key)?;
        if now_ms.saturating_sub(session.used_ms) > IDLE_MS {
            state.sessions.remove(&key);
            return None;
        }
        session.used_ms = now_ms;
        Some(session.token.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, secret: &str) {
        lock(&self.0).sessions.remove(&digest(secret));
    }
}

/// Returns true if two secrets are equal. The time of the comparison reveals nothing about them.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    digest(one).ct_eq(&digest(other)).into()
}

/// Returns 256 random bits as hexadecimal digits.
#[expect(
    clippy::disallowed_methods,
    reason = "a secret needs the randomness of the system"
)]
pub(crate) fn new_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(&bytes))
}

fn digest(text: &str) -> Secret {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_one_time_token_is_accepted_once() {
        let sessions = Sessions::default();
        assert!(!sessions.redeem(""));
        let first = sessions.new_one_time_token().expect("random");
        let token = sessions.new_one_time_token().expect("random");
        assert!(!sessions.redeem(&first), "the newer token replaced it");
        assert!(sessions.redeem(&token));
        assert!(!sessions.redeem(&token));
    }

    #[test]
    fn a_session_ends_by_sign_out_and_after_twelve_idle_hours() {
        let sessions = Sessions::default();
        let secret = sessions.begin(0).expect("random").secret;
        let token = sessions.token_of(&secret, IDLE_MS).expect("a session");
        assert_eq!(sessions.token_of(&secret, 2 * IDLE_MS), Some(token));
        assert_eq!(sessions.token_of(&secret, 3 * IDLE_MS + 1), None);
        let secret = sessions.begin(0).expect("random").secret;
        sessions.end(&secret);
        assert_eq!(sessions.token_of(&secret, 1), None);
        assert_eq!(sessions.token_of("", 1), None);
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::default();
        let first = sessions.begin(0).expect("random").secret;
        for now in 1..=SESSIONS as u64 {
            sessions.begin(now).expect("random");
        }
        assert_eq!(sessions.token_of(&first, 1), None);
    }
}
