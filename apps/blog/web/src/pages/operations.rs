//! Pages for those who run the site: health and metrics.

use crate::state::AppState;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use orrery_blog::Model;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time for the answer of the database to a health check.
const HEALTH_PATIENCE: Duration = Duration::from_secs(1);

/// `GET /healthz`: 200 if the database answers.
pub(crate) async fn health(State(state): State<AppState>) -> Response {
    let deadline = Instant::now() + HEALTH_PATIENCE;
    let blog = state.blog(state.site.home(), deadline);
    let users = blog
        .containers()
        .first()
        .copied()
        .unwrap_or_default()
        .to_owned();
    blog.client().clear_cached_metadata(&users);
    let check = blog.client().ranges(&users);
    match tokio::time::timeout(HEALTH_PATIENCE, check).await {
        Ok(Ok(_)) => (StatusCode::OK, "ok\n").into_response(),
        _ => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the database does not answer\n",
        )
            .into_response(),
    }
}

/// `GET /metrics`: counters in the text format of Prometheus.
pub(crate) async fn metrics(State(state): State<AppState>) -> Response {
    let mut response = counters_text(&state).into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    response
}

fn counters_text(state: &AppState) -> String {
    let counters = &state.counters;
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, samples: Vec<(String, String)>| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
        for (labels, sample) in samples {
            let _ = writeln!(text, "{name}{labels} {sample}");
        }
    };
    let mut responses = Vec::new();
    for (index, counter) in counters.responses.iter().enumerate() {
        let labels = format!("{{class=\"{}xx\"}}", index + 1);
        responses.push((labels, value(counter).to_string()));
    }
    metric(
        "blog_responses_total",
        "Responses by class of status.",
        responses,
    );
    let mut charges = Vec::new();
    for model in Model::ALL {
        let ru = value(&counters.charges[model as usize]) as f64 / 100.0;
        let labels = format!("{{model=\"{}\"}}", model.to_string().to_lowercase());
        charges.push((labels, format!("{ru:.2}")));
    }
    metric(
        "blog_request_units_total",
        "Request units of pages and writes by model.",
        charges,
    );
    let own = value(&counters.own_charges) as f64 / 100.0;
    for (name, help, sample) in [
        (
            "blog_own_request_units_total",
            "Request units of sessions, accounts and the journal.",
            format!("{own:.2}"),
        ),
        (
            "blog_writes_total",
            "Write operations that were applied.",
            value(&counters.writes).to_string(),
        ),
        (
            "blog_repeated_writes_total",
            "Forms that were sent again and answered from the journal.",
            value(&counters.repeated_writes).to_string(),
        ),
        (
            "blog_passwords_hashed_total",
            "Passwords that were hashed or compared.",
            state.accounts.hashed().to_string(),
        ),
        (
            "blog_throttled_total",
            "Throttled attempts of requests to the database.",
            value(&counters.throttled).to_string(),
        ),
    ] {
        metric(name, help, vec![(String::new(), sample)]);
    }
    if let Some(pipelines) = &state.options.pipelines {
        text.push_str(&pipelines.metrics());
    }
    text
}
