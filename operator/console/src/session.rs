//! The session of a browser: who is signed in, sign-in, sign-out.

use crate::console::{Access, Console};
use crate::refusal::Refusal;
use crate::reply::{cookie_name, json, no_randomness, set_cookie};
use crate::service::Base;
use crate::sessions::NewSession;
use bytes::Bytes;
use http::header::COOKIE;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use orrery_gateway::{Connection, RequestBody, Service, body};
use orrery_model::json::parse;
use orrery_model::{Json, object};

/// Text of the refusal of a body without a key.
const NO_KEY: &str = "the body is not a JSON object with the member 'key'";

impl Console {
    /// Reads the session (GET), signs in (POST) or signs out (DELETE).
    ///
    /// # Errors
    /// 401 without a session or with a wrong key.
    pub(crate) async fn session(
        &self,
        head: &Parts,
        body: RequestBody,
        connection: &Connection,
        base: Base,
    ) -> Result<Response<Bytes>, Refusal> {
        match head.method {
            Method::GET | Method::HEAD => {
                if let Some((_, token)) = self.signed_in(head, connection) {
                    return Ok(json(200, self.session_body(&token)));
                }
                if !self.open {
                    return Err(Refusal::sign_in_required());
                }
                // The page of another origin cannot read this answer, and cannot send the cookie.
                let session = self.begin_session()?;
                let mut response = json(200, self.session_body(&session.token));
                set_cookie(&mut response, &session.secret, connection, base);
                Ok(response)
            }
            Method::POST => {
                let body = body::read(body, self.admin.memory()).await?;
                let session = self.sign_in(&body)?;
                let mut response = json(200, self.session_body(&session.token));
                set_cookie(&mut response, &session.secret, connection, base);
                Ok(response)
            }
            Method::DELETE => {
                self.check_session(head, connection)?;
                if let Some((secret, _)) = self.signed_in(head, connection) {
                    self.sessions.end(&secret);
                }
                let mut response = Response::new(Bytes::new());
                *response.status_mut() = StatusCode::NO_CONTENT;
                set_cookie(&mut response, "", connection, base);
                Ok(response)
            }
            _ => Err(Refusal::new(
                405,
                "MethodNotAllowed",
                "the session has the methods GET, POST and DELETE",
            )),
        }
    }

    /// Begins a session if the body has an admin key.
    ///
    /// # Errors
    /// 400 for a body without a key, 401 for a wrong key.
    fn sign_in(&self, body: &[u8]) -> Result<NewSession, Refusal> {
        let json = parse(body).map_err(|_| Refusal::new(400, "BadRequest", NO_KEY))?;
        let key = json.get("key").and_then(Json::as_str);
        let key = key.ok_or_else(|| Refusal::new(400, "BadRequest", NO_KEY))?;
        if !self.admin.accepts_key(key.trim()) {
            let message = "this is no key of the management API of this server; the start of the \
                           server prints the key or the file with the key";
            return Err(Refusal::new(401, "WrongKey", message));
        }
        self.begin_session()
    }

    /// Begins a session.
    ///
    /// # Errors
    /// 500 if the system has no random numbers.
    pub(crate) fn begin_session(&self) -> Result<NewSession, Refusal> {
        let session = self.sessions.begin(self.now_ms());
        session.map_err(|_| no_randomness())
    }

    /// Returns the facts that the pages need, as JSON text.
    fn session_body(&self, token: &str) -> String {
        let mut body = object! {
            "csrf" => token,
            "readOnly" => self.access == Access::ReadOnly,
            "version" => self.version,
        };
        if let Some(database) = self.database.get() {
            body.set("endpoint", database.endpoint.as_str());
            body.set("account", database.gateway.account_name());
            body.set("hasWellKnownKey", database.has_well_known_key);
        } else if let Some(remote) = self.remote.get() {
            body.set("endpoint", remote.endpoint.as_str());
            body.set("account", remote.account.as_str());
            body.set("hasWellKnownKey", remote.has_well_known_key);
        }
        if let Some(blog) = self.blog.get() {
            let link = object! {
                "address" => blog.address.as_str(),
                "prefix" => blog.prefix.as_str(),
            };
            body.set("blog", Json::Object(link));
        }
        Json::Object(body).to_text()
    }

    /// Returns the secret and the token of the session that the cookies of a request name.
    pub(crate) fn signed_in(
        &self,
        head: &Parts,
        connection: &Connection,
    ) -> Option<(String, String)> {
        let name = cookie_name(connection);
        for cookies in head.headers.get_all(COOKIE) {
            let Ok(cookies) = cookies.to_str() else {
                continue;
            };
            for cookie in cookies.split(';') {
                let Some((found, secret)) = cookie.trim().split_once('=') else {
                    continue;
                };
                if found != name {
                    continue;
                }
                if let Some(token) = self.sessions.token_of(secret, self.now_ms()) {
                    return Some((secret.to_owned(), token));
                }
            }
        }
        None
    }
}
