//! One request of a browser: its cookies and user, the meters of its requests to the database, and
//! the answer.
//!
//! A visit has two meters. `meter` records the requests of the model that the page shows; its sum
//! is the price of the page. `own` records the requests of the application itself: session,
//! account, journal.

use crate::frame::Frame;
use crate::secret;
use crate::sessions::{LIFETIME_S, SignedIn};
use crate::state::{AppState, Counters};
use crate::trouble::Trouble;
use askama::Template;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use orrery_blog::writes::Receipt;
use orrery_blog::{Blog, BlogError, Client, Measurement, Meter, Model};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time after which throttled requests of a page are not repeated.
const PATIENCE: Duration = Duration::from_secs(3);
/// Name of the cookie.
const COOKIE: &str = "blog_session";

/// The address of the visitor, which the application adds to each request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visitor(pub(crate) IpAddr);

/// A request of a browser and what is known so far about its answer.
pub(crate) struct Visit {
    pub(crate) state: AppState,
    /// The address of the visitor.
    pub(crate) visitor: IpAddr,
    /// The requests of the model.
    pub(crate) meter: Meter,
    /// The requests of the application itself.
    pub(crate) own: Meter,
    pub(crate) started: Instant,
    /// Time after which throttled requests are not repeated.
    pub(crate) deadline: Instant,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// The parameters of the URL.
    pub(crate) query: HashMap<String, String>,
    /// The model of the page, if the page belongs to one.
    pub(crate) model: Option<Model>,
    /// Path of the page without the model; the key of remembered prices.
    pub(crate) page: Option<String>,
    /// Names of the article's requests that the page made, e.g. `Q2`.
    pub(crate) codes: Vec<&'static str>,
    /// The write after which the page is shown.
    pub(crate) written: Option<Receipt>,
    /// The signed-in user, after [`Visit::load_user`].
    pub(crate) user: Option<SignedIn>,
    /// The secret of the browser.
    pub(crate) secret: String,
    /// True if the secret claims to be one of a session.
    has_session: bool,
    /// The cookie to set, if it changes.
    set_cookie: Option<String>,
}

impl FromRequestParts<AppState> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Infallible> {
        let started = Instant::now();
        let uri = match parts.extensions.get::<axum::extract::OriginalUri>() {
            Some(original) => original.0.clone(),
            None => parts.uri.clone(),
        };
        let unknown = Visitor(IpAddr::from([0, 0, 0, 0]));
        let Visitor(visitor) = *parts.extensions.get::<Visitor>().unwrap_or(&unknown);
        let query = axum::extract::Query::<HashMap<String, String>>::try_from_uri(&uri);
        let mut visit = Self {
            state: state.clone(),
            visitor,
            meter: Meter::listing_items(),
            own: Meter::recording(),
            started,
            deadline: started + PATIENCE,
            method: parts.method.clone(),
            headers: parts.headers.clone(),
            query: query.map(|query| query.0).unwrap_or_default(),
            uri,
            model: None,
            page: None,
            codes: Vec::new(),
            written: None,
            user: None,
            secret: String::new(),
            has_session: false,
            set_cookie: None,
        };
        match cookie_of(&parts.headers) {
            Some((kind, secret)) => {
                visit.has_session = kind == "s";
                visit.secret = secret;
            }
            None => visit.forget_session(),
        }
        Ok(visit)
    }
}

/// Returns the kind (`s` for a session, `v` for a visitor) and the secret in the cookie.
fn cookie_of(headers: &HeaderMap) -> Option<(String, String)> {
    for value in headers.get_all(header::COOKIE) {
        for pair in value.to_str().ok()?.split(';') {
            let Some((name, value)) = pair.trim().split_once('=') else {
                continue;
            };
            if name != COOKIE {
                continue;
            }
            let (kind, secret) = value.split_once('.')?;
            let is_valid = matches!(kind, "s" | "v") && secret::is_secret(secret);
            return is_valid.then(|| (kind.to_owned(), secret.to_owned()));
        }
    }
    None
}

impl Visit {
    /// Returns the client of the application's own containers.
    pub(crate) fn client(&self) -> Client {
        let client = &self.state.site.control().client;
        client.with_deadline(self.deadline)
    }

    /// Returns the blog of a model.
    pub(crate) fn blog(&self, model: Model) -> Blog {
        self.state.blog(model, self.deadline)
    }

    /// Returns the blog of the home model.
    pub(crate) fn home(&self) -> Blog {
        self.blog(self.state.site.home())
    }

    /// Returns the model of the page, or else the home model.
    pub(crate) fn shown_model(&self) -> Model {
        self.model.unwrap_or_else(|| self.state.site.home())
    }

    /// Sets the model of the page from the path. A form of a model that is no longer present writes
    /// to the home model.
    ///
    /// # Errors
    /// [`Trouble::NotFound`] unless the text names a model; [`Trouble::NotPresent`] for a page of a
    /// model that is not present.
    pub(crate) fn enter(&mut self, model: &str) -> Result<Model, Trouble> {
        let is_name = matches!(model, "v1" | "v2" | "v3");
        let model = match model.parse::<Model>() {
            Ok(model) if is_name => model,
            _ => return Err(Trouble::NotFound("page")),
        };
        if !self.state.site.models().contains(&model) {
            if self.method != Method::POST {
                return Err(Trouble::NotPresent(model));
            }
            self.model = Some(self.state.site.home());
            return Ok(self.state.site.home());
        }
        self.model = Some(model);
        Ok(model)
    }

    /// Reads the user of the session, mostly from memory.
    pub(crate) async fn load_user(&mut self) -> Result<(), BlogError> {
        if !self.has_session {
            return Ok(());
        }
        let sessions = &self.state.sessions;
        self.user = sessions
            .user(&self.client(), &self.own, &self.secret)
            .await?;
        if self.user.is_none() {
            self.forget_session();
        }
        Ok(())
    }

    /// Returns the signed-in user.
    ///
    /// # Errors
    /// [`Trouble::SignInFirst`] if there is none.
    pub(crate) fn signed_in(&self) -> Result<SignedIn, Trouble> {
        self.user.clone().ok_or(Trouble::SignInFirst)
    }

    /// Starts a session for `user`.
    pub(crate) async fn start_session(&mut self, user: &SignedIn) -> Result<(), BlogError> {
        let (client, sessions) = (self.client(), &self.state.sessions);
        let secret = sessions.start(&client, &self.own, user).await?;
        self.set_cookie = Some(format!(
            "{COOKIE}=s.{secret}; Path=/; Max-Age={LIFETIME_S}; HttpOnly; SameSite=Lax"
        ));
        self.secret = secret;
        self.has_session = true;
        self.user = Some(user.clone());
        Ok(())
    }

    /// Gives the browser a new secret without a session.
    pub(crate) fn forget_session(&mut self) {
        self.secret = secret::random::<32>();
        self.has_session = false;
        self.user = None;
        let secret = &self.secret;
        self.set_cookie = Some(format!(
            "{COOKIE}=v.{secret}; Path=/; HttpOnly; SameSite=Lax"
        ));
    }

    /// Returns the token that the forms of this browser contain.
    pub(crate) fn csrf(&self) -> String {
        secret::csrf_token(&self.secret)
    }

    /// Returns the cost of the model's requests so far.
    pub(crate) fn cost(&self) -> Measurement {
        self.meter.measurement(self.started.elapsed())
    }

    /// Loads the receipt that the URL names, so that the page shows the cost of the write.
    pub(crate) async fn load_receipt(&mut self) -> Result<(), BlogError> {
        let Some(id) = self.query.get("done").cloned() else {
            return Ok(());
        };
        if !crate::text::is_id(&id) {
            return Ok(());
        }
        self.written = match self.state.receipts.get(&id) {
            Some(receipt) => Some(receipt),
            None => self.state.writes.receipt(&self.own, &id).await?,
        };
        Ok(())
    }

    /// Returns the parts of a page outside its main content.
    pub(crate) async fn frame(&self, title: &str) -> Frame {
        Frame::of(self, title).await
    }

    /// Returns a page.
    pub(crate) fn page(&self, status: StatusCode, template: &impl Template) -> Response {
        match template.render() {
            Ok(html) => self.finished((status, axum::response::Html(html)).into_response()),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }

    /// Returns an answer that leads the browser to another page.
    pub(crate) fn redirect(&self, to: &str) -> Response {
        // Only paths of this site are passed; a path with other characters leads home.
        let location = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
        let mut response = StatusCode::SEE_OTHER.into_response();
        response.headers_mut().insert(header::LOCATION, location);
        self.finished(response)
    }

    /// Returns the page, or the page that explains the trouble.
    pub(crate) async fn answer(&self, result: Result<Response, Trouble>) -> Response {
        match result {
            Ok(response) => response,
            Err(trouble) if self.has_lost_model(&trouble).await => {
                let model = self.model.unwrap_or(self.state.site.home());
                Trouble::NotPresent(model).page(self, None).await
            }
            Err(trouble) => trouble.page(self, None).await,
        }
    }

    /// Returns true if the page failed because its model was dropped while the page was made. Only
    /// a site with a single model drops models.
    async fn has_lost_model(&self, trouble: &Trouble) -> bool {
        let site = &self.state.site;
        let is_suspect = matches!(trouble, Trouble::NotFound(_) | Trouble::Database(_));
        let Some(model) = self
            .model
            .filter(|_| is_suspect && site.models().len() == 1)
        else {
            return false;
        };
        site.refresh().await.is_ok() && !site.models().contains(&model)
    }

    /// Adds the cookie and the figures of the visit to an answer.
    pub(crate) fn finished(&self, mut response: Response) -> Response {
        let cost = self.cost();
        let own = self.own.measurement(self.started.elapsed());
        let counters = &self.state.counters;
        Counters::add(&counters.charges[self.shown_model() as usize], cost.ru.0);
        Counters::add(&counters.own_charges, own.ru.0);
        Counters::add(&counters.throttled, (cost.throttled + own.throttled) as u64);

        let timing = format!(
            "database;desc=\"{} requests\";dur={:.1}, total;dur={:.1}",
            cost.requests,
            longest_chain_ms(&self.meter),
            cost.ms
        );
        let figures = [
            ("x-orrery-request-charge", cost.ru.to_string()),
            ("x-orrery-requests", cost.requests.to_string()),
            ("x-orrery-own-charge", own.ru.to_string()),
            ("server-timing", timing),
        ];
        let headers = response.headers_mut();
        for (name, value) in figures {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("private, no-cache"),
        );
        if let Some(cookie) = &self.set_cookie
            && let Ok(cookie) = HeaderValue::from_str(cookie)
        {
            headers.append(header::SET_COOKIE, cookie);
        }
        response
    }
}

/// Returns the time of the slowest request, a lower bound of the time spent in the database.
fn longest_chain_ms(meter: &Meter) -> f64 {
    let records = meter.records();
    records.iter().map(|record| record.ms).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_of_another_form_is_ignored() {
        let headers = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_str(value).unwrap());
            headers
        };
        let secret = secret::random::<32>();
        let found = cookie_of(&headers(&format!("a=b; {COOKIE}=s.{secret}")));
        assert_eq!(found, Some(("s".into(), secret.clone())));
        for forged in ["", "s", "s.", "x.abc", "s.<script>", &format!("q.{secret}")] {
            assert_eq!(cookie_of(&headers(&format!("{COOKIE}={forged}"))), None);
        }
        assert_eq!(cookie_of(&HeaderMap::new()), None);
    }
}
