//! The page that loads all others, and the built files.

use crate::console::Console;
use crate::refusal::Refusal;
use crate::reply::{no_randomness, redirect, set_cookie};
use crate::service::Base;
use crate::sessions::new_secret;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use orrery_gateway::Connection;

impl Console {
    /// Returns the page with a new nonce for its style elements. A one-time token in the query
    /// signs the browser in, and the browser is sent to the address without the token.
    pub(crate) fn page(
        &self,
        head: &Parts,
        connection: &Connection,
        base: Base,
    ) -> Result<Response<Bytes>, Refusal> {
        let query = head.uri.query().unwrap_or_default();
        let token = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("token="));
        if let Some(token) = token
            && head.method == Method::GET
        {
            if !self.sessions.redeem(token) {
                return Ok(redirect(base, "#/sign-in?address=used"));
            }
            let session = self.begin_session()?;
            let mut response = redirect(base, "");
            set_cookie(&mut response, &session.secret, connection, base);
            return Ok(response);
        }

        let missing = || Refusal::new(404, "NotBuilt", "the files of the console are missing");
        let index = self.files.index().ok_or_else(missing)?;
        let nonce = new_secret().map_err(|_| no_randomness())?;
        let page = index.replace("{{nonce}}", &nonce);
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src \
             'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action \
             'self'; frame-ancestors 'none'"
        );
        let mut response = Response::new(Bytes::from(page));
        let headers = response.headers_mut();
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        headers.insert(CONTENT_TYPE, html);
        if let Ok(policy) = HeaderValue::from_str(&policy) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        Ok(response)
    }

    pub(crate) fn file(&self, name: &str, head: &Parts) -> Result<Response<Bytes>, Refusal> {
        let file = self.files.find(name, &head.headers);
        let file = file.ok_or_else(Refusal::not_found)?;
        let mut response = Response::new(file.data);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        let forever = "public, max-age=31536000, immutable";
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(forever));
        if let Some(encoding) = file.encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        Ok(response)
    }
}
