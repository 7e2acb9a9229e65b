//! A browser without JavaScript: one connection, cookies, redirects, forms.

use super::html::Form;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, SET_COOKIE};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Redirects that a browser follows.
const REDIRECTS_MAX: usize = 5;
/// Time after which a request counts as failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The answer to a request, after redirects.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// HTTP status of the last answer.
    pub(crate) status: u16,
    /// Path of the last answer.
    pub(crate) path: String,
    /// Body of the last answer.
    pub(crate) html: String,
    /// Value of `Server-Timing` of the last answer.
    pub(crate) timing: String,
    /// Milliseconds of the first answer, which is a redirect after a form.
    pub(crate) first_ms: f64,
    /// Milliseconds of the last answer.
    pub(crate) last_ms: f64,
}

/// A browser of one simulated user.
pub(crate) struct Browser {
    address: String,
    connection: Option<SendRequest<Full<Bytes>>>,
    cookies: BTreeMap<String, String>,
}

/// One answer, before redirects.
struct Answer {
    status: u16,
    location: Option<String>,
    timing: String,
    html: String,
    ms: f64,
}

impl Browser {
    /// Creates a browser for the application at `address` (host and port).
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            connection: None,
            cookies: BTreeMap::new(),
        }
    }

    /// Returns a second browser with the same cookies, as another tab has them.
    pub(crate) fn tab(&self) -> Self {
        Self {
            address: self.address.clone(),
            connection: None,
            cookies: self.cookies.clone(),
        }
    }

    /// Requests a page.
    ///
    /// # Errors
    /// A description of a request without an answer.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Page, String> {
        let answer = self.send(Method::GET, path, None).await?;
        self.follow(path, answer).await
    }

    /// Sends a form and follows the redirect.
    ///
    /// # Errors
    /// A description of a request without an answer.
    pub(crate) async fn submit(&mut self, form: &Form) -> Result<Page, String> {
        let mut body = String::new();
        for (name, value) in &form.fields {
            if !body.is_empty() {
                body.push('&');
            }
            body.extend(utf8_percent_encode(name, NON_ALPHANUMERIC));
            body.push('=');
            body.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
        }
        let answer = self.send(Method::POST, &form.action, Some(body)).await?;
        self.follow(&form.action, answer).await
    }

    async fn follow(&mut self, path: &str, first: Answer) -> Result<Page, String> {
        let first_ms = first.ms;
        let (mut path, mut answer) = (path.to_owned(), first);
        for _ in 0..REDIRECTS_MAX {
            let Some(location) = answer.location.take() else {
                return Ok(Page {
                    status: answer.status,
                    path,
                    html: answer.html,
                    timing: answer.timing,
                    first_ms,
                    last_ms: answer.ms,
                });
            };
            // A fragment names a place on the page and is not sent.
            let target = location.split('#').next().unwrap_or_default();
            path = target.to_owned();
            answer = self.send(Method::GET, &path, None).await?;
        }
        Err(format!("{path}: more than {REDIRECTS_MAX} redirects"))
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Answer, String> {
        let sent = self.try_send(&method, path, body);
        match tokio::time::timeout(TIMEOUT, sent).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(cause)) => {
                self.connection = None;
                Err(format!("{method} {path}: {cause}"))
            }
            Err(_) => {
                self.connection = None;
                Err(format!(
                    "{method} {path}: no answer within {} s",
                    TIMEOUT.as_secs()
                ))
            }
        }
    }

    async fn try_send(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Answer, String> {
        let started = Instant::now();
        // The application may close an idle connection; a browser opens another one.
        if let Some(connection) = &mut self.connection
            && connection.ready().await.is_err()
        {
            self.connection = None;
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut response = connection
            .try_send_request(self.request(method, path, body.as_deref())?)
            .await;
        if let Err(failed) = &mut response
            && let Some(unsent) = failed.take_message()
        {
            connection = self.connect().await?;
            response = connection.try_send_request(unsent).await;
        }
        let response = response.map_err(|failed| failed.into_error().to_string())?;
        self.keep_cookies(&response);
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let status = response.status();
        let location = header(LOCATION.as_str()).filter(|_| status.is_redirection());
        let timing = header("server-timing").unwrap_or_default();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        self.connection = Some(connection);
        Ok(Answer {
            status: status.as_u16(),
            location,
            timing,
            html: String::from_utf8_lossy(&body).into_owned(),
            ms: started.elapsed().as_secs_f64() * 1000.0,
        })
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut builder = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(HOST, &self.address)
            .header("accept", "text/html");
        if !self.cookies.is_empty() {
            let cookies: Vec<String> = self
                .cookies
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            builder = builder.header(COOKIE, cookies.join("; "));
        }
        if body.is_some() {
            builder = builder
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .header("origin", format!("http://{}", self.address))
                .header("sec-fetch-site", "same-origin");
        }
        let body = Bytes::from(body.unwrap_or_default().to_owned());
        builder
            .body(Full::new(body))
            .map_err(|error| error.to_string())
    }

    /// Keeps the cookies of an answer. Paths and ages are not looked at, except that an age of 0
    /// deletes a cookie.
    fn keep_cookies<B>(&mut self, response: &Response<B>) {
        for header in response.headers().get_all(SET_COOKIE) {
            let text = header.to_str().unwrap_or_default();
            let mut parts = text.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            if parts.any(|part| part.eq_ignore_ascii_case("max-age=0")) {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect(&self.address)
            .await
            .map_err(|error| format!("cannot connect: {error}"))?;
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        // Errors of the connection also reach the request that uses it.
        tokio::spawn(async move { connection.await.ok() });
        Ok(sender)
    }
}
