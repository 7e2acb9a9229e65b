//! The application of the reference blog: server-rendered pages over the three data models.
//!
//! ```text
//! application   one request of a visitor: address, turn, time, route
//!   │
//! pages    read, write, account, atom, operations; lesson   handlers, one for each route
//!   │
//! visit    one request of a browser: user, meters, answer
//! frame    header, footer, notice ── drawer   every request of the page with its price
//!                                  consequences   the work of the pipelines after a write
//! forms    reading and limits ── trouble      pages that explain failures, typed text kept
//! state    site, writes, sessions, accounts, remembered prices and receipts
//! ```
//! Every page works without scripts. A handler has this form:
//!
//! 1. take a `Visit` (an extractor); `visit.enter(v)` for a page of a model;
//! 2. `visit.load_user().await?`, and `visit.load_receipt().await?` for a page after a write;
//! 3. make the requests of the page with `visit.blog(model)` and `&visit.meter`, the requests of
//!    the application itself with `&visit.own`; push the article's names to `visit.codes`; set
//!    `visit.page` to the path without the model if the page exists in every model;
//! 4. fill a template that extends `layout.html` and has a field `frame`, from
//!    `visit.frame(title).await`, after all requests;
//! 5. return `visit.page(status, &template)`; `visit.answer(result).await` turns a `Trouble` into
//!    its page.
//!
//! A handler of a form takes a `SentForm` as its last argument, calls `form.check_origin(&visit)`,
//! and answers with `pages::write::answer`, which keeps the typed text if the write fails.
//!
//! The program accepts connections and hands over requests with their bodies, see `Application`.
//!
//! Promises: no text of a visitor is shown as HTML except through `markdown`; every form is
//! protected by a token; a form that is sent twice writes once.

mod accounts;
mod application;
mod assets;
mod bars;
mod cache;
mod consequences;
mod console;
mod drawer;
mod face;
mod forms;
mod frame;
mod lesson;
mod markdown;
mod pages;
mod prices;
mod registration;
mod requests;
mod scale;
mod secret;
mod sessions;
mod squares;
mod state;
mod text;
mod throttle;
mod trouble;
mod visit;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderName, HeaderValue};
use orrery_blog::Pipelines;
use orrery_blog::lesson::lab::LabOptions;
use pages::{account, atom, item, operations, pipelines, read, write};
use state::{AppState, Counters};
use std::net::IpAddr;
use std::sync::Arc;
use trouble::Trouble;
use visit::Visit;

pub use application::Application;
pub use forms::BODY_BYTES_MAX;

/// Headers of every answer. Scripts and styles come from this site only.
const SECURITY_HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// The parts of the application that differ from start to start.
#[derive(Clone, Default)]
pub struct Options {
    /// True if visitors may sign in as a seeded user without a password.
    pub demo: bool,
    /// The pipelines of this site: a write wakes them, and pages show their work.
    pub pipelines: Option<Arc<Pipelines>>,
    /// Address of the server's console, with a slash at its end; `None` if it is not known.
    pub console: Option<String>,
    /// The limits of the server, for the lab of the lesson.
    pub lab: LabOptions,
    /// True if the models are measured at the start and after changes, and a page that is shown in
    /// one model is measured in the others.
    pub measures: bool,
    /// Addresses of proxies in front, whose header `x-forwarded-for` names the visitor.
    pub proxies: Vec<IpAddr>,
}

/// Returns all routes.
fn router(state: AppState) -> Router {
    Router::new()
        .route("/", get(read::root))
        .route("/{v}", get(read::front))
        .route("/{v}/posts/{id}", get(read::post))
        .route(
            "/{v}/posts/{id}/edit",
            get(write::edit_page).post(write::edit_post),
        )
        .route(
            "/{v}/posts/{id}/delete",
            get(write::delete_page).post(write::delete_post),
        )
        .route("/{v}/posts/{id}/comments", post(write::create_comment))
        .route(
            "/{v}/posts/{id}/likes",
            get(read::likes).post(write::create_like),
        )
        .route("/{v}/users/{id}", get(read::user))
        .route("/{v}/users/{id}/feed.atom", get(atom::user))
        .route("/{v}/feed.atom", get(atom::site))
        .route("/{v}/items/{container}/{key}/{id}", get(item::show))
        .route("/prices/{v}", get(bars::show))
        .route("/{v}/write", get(write::new_post).post(write::create_post))
        .route("/signup", get(account::signup_page).post(account::signup))
        .route("/signin", get(account::signin_page).post(account::signin))
        .route("/signin/demo", post(account::signin_demo))
        .route("/signout", post(account::signout))
        .route("/profile", get(account::profile_page).post(account::rename))
        .route("/preview", post(write::preview))
        .route("/pipelines", get(pipelines::show))
        .route("/consequences/{id}", get(pipelines::consequences))
        .route("/metrics", get(operations::metrics))
        .route("/healthz", get(operations::health))
        .route("/assets/{name}", get(assets::show))
        .merge(lesson::router())
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(forms::BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(state.clone(), with_headers))
        .with_state(state)
}

async fn not_found(visit: Visit) -> Response {
    Trouble::NotFound("page").page(&visit, None).await
}

/// Adds the headers of every answer and counts the answer.
async fn with_headers(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let path = percent_encoding::percent_decode_str(request.uri().path());
    let mut response = match path.decode_utf8() {
        Ok(_) => next.run(request).await,
        Err(_) => {
            let (mut parts, _) = request.into_parts();
            match Visit::from_request_parts(&mut parts, &state).await {
                Ok(visit) => Trouble::BadAddress.page(&visit, None).await,
                Err(never) => match never {},
            }
        }
    };
    for (name, value) in SECURITY_HEADERS {
        let (name, value) = (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        response.headers_mut().insert(name, value);
    }
    let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
    Counters::add(&state.counters.responses[class], 1);
    response
}
