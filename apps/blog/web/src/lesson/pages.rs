//! The handlers of `/compare`, `/lesson` and `/lab`.
//!
//! The pages ask the database for nothing: they show the last comparison and the state of the lab,
//! which are in memory. They are therefore of use while the database is gone.

use super::chapters::{CHAPTERS, ChapterPart, FormFields, Overview};
use super::comparison::ComparisonPart;
use super::laboratory::LabPart;
use super::opening::{Opening, Ranges};
use super::story::Story;
use super::trials::{self, Trial};
use crate::forms::{Form, Retry, SentForm};
use crate::frame::Frame;
use crate::secret;
use crate::state::AppState;
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderValue, StatusCode, header};
use orrery_blog::BlogError;
use orrery_blog::lesson::Comparison;
use orrery_blog::lesson::compare::RUNS_MAX;
use orrery_blog::lesson::lab::{Experiment, LabError};
use std::sync::Arc;

/// Runs of each action, unless the form says another number.
const RUNS: usize = 10;
/// The chapter with the lab.
const LAB_CHAPTER: usize = 7;
/// The chapters whose pictures show the lab's small blog.
const SMALL_BLOG_CHAPTERS: [usize; 2] = [4, 5];

/// Returns the routes of `/compare`, `/lesson` and `/lab`.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
        .route("/compare", get(show_comparison).post(start_comparison))
        .route("/compare.csv", get(comparison_csv))
        .route("/compare.json", get(comparison_json))
        .route("/lesson", get(overview))
        .route("/lesson/{number}", get(chapter))
        .route("/lesson/run/{trial}", post(run_trial))
        .route("/lab", get(lab))
        .route("/lab/state", get(lab_state))
        .route("/lab/state.json", get(lab_state_json))
        .route("/lab/start", post(start_experiment))
        .route("/lab/stop", post(stop_experiment))
        .route("/lab/reset", post(reset_lab))
        .merge(super::lab_pages::router())
}

/// A page of the lesson: a part within the frame.
#[derive(Template)]
#[template(path = "lesson/page.html")]
struct LessonPage {
    frame: Frame,
    /// Markup of this program.
    body: String,
}

/// The page of the comparison: its form, and the part that changes.
#[derive(Template)]
#[template(path = "lesson/compare.html")]
struct ComparePage {
    frame: Frame,
    part: String,
    token: String,
    runs: String,
    runs_error: String,
    runs_max: usize,
    post: String,
    is_measured: bool,
}

/// Returns the markup of a part.
fn rendered(part: &impl Template) -> String {
    // A part that does not render leaves a gap, not an error page.
    part.render().unwrap_or_default()
}

/// `GET /compare`
async fn show_comparison(mut visit: Visit) -> Response {
    if let Err(error) = visit.load_user().await {
        return visit.answer(Err(error.into())).await;
    }
    comparison_page(&visit, None).await
}

/// Returns the page of the comparison, after a form with a number of runs that is not possible with
/// what was typed.
async fn comparison_page(visit: &Visit, mistaken: Option<&Form>) -> Response {
    let status = visit.state.comparing.status();
    let icons = crate::assets::path("icons.svg");
    let last = status.last.as_ref();
    let last_runs = last.map_or(RUNS, |comparison| comparison.runs);
    let last_post = last.map_or(String::new(), |comparison| comparison.probe.post.clone());
    let (code, runs, runs_error, post) = match mistaken {
        None => (
            StatusCode::OK,
            last_runs.to_string(),
            String::new(),
            last_post,
        ),
        Some(form) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            form.text("runs").to_owned(),
            format!("Enter a whole number from 1 to {RUNS_MAX}."),
            form.text("post").to_owned(),
        ),
    };
    let page = ComparePage {
        frame: visit.frame("Compare").await,
        part: rendered(&ComparisonPart::of(&status, &icons)),
        token: secret::random::<16>(),
        runs,
        runs_error,
        runs_max: RUNS_MAX,
        post,
        is_measured: last.is_some(),
    };
    visit.page(code, &page)
}

/// `POST /compare`
async fn start_comparison(mut visit: Visit, SentForm(form): SentForm) -> Response {
    let form = match checked(&visit, form, "/compare").await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let typed = form.text("runs").trim();
    let runs = match typed.parse() {
        // A form without the field asks for the usual number.
        _ if typed.is_empty() => RUNS,
        Ok(runs) if (1..=RUNS_MAX).contains(&runs) => runs,
        _ => {
            if let Err(error) = visit.load_user().await {
                return visit.answer(Err(error.into())).await;
            }
            return comparison_page(&visit, Some(&form)).await;
        }
    };
    let post = Some(form.text("post").trim().to_owned()).filter(|post| !post.is_empty());
    // A comparison that is running goes on; the page shows it.
    let _ = visit.state.comparing.start(&visit.state.site, post, runs);
    visit.redirect("/compare")
}

/// Returns the form if this site made it for this browser, and otherwise the page that says so.
pub(super) async fn checked(
    visit: &Visit,
    form: Result<Form, Trouble>,
    back: &str,
) -> Result<Form, Response> {
    let form = match form {
        Ok(form) => form,
        Err(trouble) => return Err(trouble.page(visit, None).await),
    };
    match form.check_origin(visit) {
        Ok(()) => Ok(form),
        Err(trouble) => {
            let retry = Retry::new(visit.uri.path(), back, "")
                .field(&form, "runs", "Runs", "hidden")
                .field(&form, "post", "Post", "hidden")
                .field(&form, "experiment", "Experiment", "hidden");
            Err(trouble.page(visit, Some((&form, retry))).await)
        }
    }
}

/// Returns the last comparison.
fn last(visit: &Visit) -> Result<Arc<Comparison>, Trouble> {
    let last = visit.state.comparing.status().last;
    last.ok_or(Trouble::NotFound("comparison"))
}

/// `GET /compare.csv`
async fn comparison_csv(visit: Visit) -> Response {
    match last(&visit) {
        Ok(comparison) => {
            let csv = comparison.to_csv();
            download(&visit, csv, "text/csv; charset=utf-8", "compare.csv")
        }
        Err(trouble) => trouble.page(&visit, None).await,
    }
}

/// `GET /compare.json`
async fn comparison_json(visit: Visit) -> Response {
    match last(&visit) {
        Ok(comparison) => {
            let json = comparison.to_json().to_string();
            download(&visit, json, "application/json", "compare.json")
        }
        Err(trouble) => trouble.page(&visit, None).await,
    }
}

/// Returns a file that a browser saves.
fn download(
    visit: &Visit,
    body: String,
    content_type: &'static str,
    name: &'static str,
) -> Response {
    let mut response = visit.finished(Response::new(body.into()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    let disposition = format!("attachment; filename=\"{name}\"");
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response
}

/// `GET /lesson`
async fn overview(mut visit: Visit) -> Response {
    load_user_if_possible(&mut visit).await;
    let page = LessonPage {
        frame: visit.frame("Lesson").await,
        body: rendered(&overview_of(&visit).await),
    };
    visit.page(StatusCode::OK, &page)
}

/// `GET /lesson/{number}`
async fn chapter(mut visit: Visit, Path(number): Path<String>) -> Response {
    let number = number.parse().unwrap_or_default();
    let result = chapter_page(&mut visit, number, None).await;
    visit.answer(result).await
}

async fn overview_of(visit: &Visit) -> Overview {
    let comparison = visit.state.comparing.status().last;
    let mut ranges = Ranges::new();
    for model in visit.state.site.models() {
        let blog = visit.blog(model);
        let mut own = Vec::new();
        for container in blog.containers() {
            // Without an answer of the database the picture has no squares.
            own.push(blog.client().ranges(container).await.unwrap_or_default());
        }
        ranges.insert(model, own);
    }
    let opening = Opening::of(comparison.as_ref(), &ranges, &visit.query).html();
    let story = Story { comparison };
    let price = |model| match story.is_measured() {
        true => story.live("Q6", model),
        false => story.article("Q6", model),
    };
    Overview {
        toc: &CHAPTERS,
        first: price(1),
        last: price(3),
        opening,
    }
}

/// Reads the user of the session. The lesson stays readable while the database is gone.
async fn load_user_if_possible(visit: &mut Visit) {
    let loaded: Result<(), BlogError> = visit.load_user().await;
    drop(loaded);
}

/// `POST /lesson/run/{trial}`
async fn run_trial(
    mut visit: Visit,
    Path(name): Path<String>,
    SentForm(form): SentForm,
) -> Response {
    let form = match form {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let Some(trial) = Trial::named(&name) else {
        return Trouble::NotFound("experiment").page(&visit, None).await;
    };
    let element = match form.check_csrf(&visit) {
        Ok(()) => trials::run(&visit, &form, trial).await,
        Err(Trouble::OldForm) => trials::refused(&visit, &form, trial).await,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    // A script takes the element alone into its page.
    if visit.headers.contains_key("x-part") {
        return visit.finished(axum::response::Html(element).into_response());
    }
    let result = chapter_page(&mut visit, trial.chapter(), Some((trial, element))).await;
    visit.answer(result).await
}

async fn chapter_page(
    visit: &mut Visit,
    number: usize,
    done: Option<(Trial, String)>,
) -> Result<Response, Trouble> {
    load_user_if_possible(visit).await;
    let notice = match visit.query.get("lab").map(String::as_str) {
        Some("busy") => "An experiment is running. Wait for its end or stop it.",
        Some("not-offered") => "This experiment would not end with the limits of this server.",
        _ => "",
    };
    let form = FormFields {
        csrf: visit.csrf(),
        token: secret::random::<16>(),
        notice: notice.to_owned(),
        answers: visit.state.answers.get(&visit.secret).unwrap_or_default(),
        trials: trials::elements(visit, number, done).await,
    };
    let comparison = visit.state.comparing.status().last;
    let lab = &visit.state.lab;
    if SMALL_BLOG_CHAPTERS.contains(&number) && lab.is_free() {
        lab.small_blog().prepare();
    }
    let part = ChapterPart::of(number, comparison, lab, &visit.query, form)
        .ok_or(Trouble::NotFound("chapter"))?;
    let page = LessonPage {
        frame: visit.frame(part.title()).await,
        body: rendered(&part),
    };
    Ok(visit.page(StatusCode::OK, &page))
}

/// `GET /lab`
async fn lab(visit: Visit) -> Response {
    visit.redirect(&lab_address(""))
}

/// Returns the address of the lab, with a notice.
fn lab_address(notice: &str) -> String {
    match notice {
        "" => format!("/lesson/{LAB_CHAPTER}"),
        notice => format!("/lesson/{LAB_CHAPTER}?lab={notice}"),
    }
}

/// `GET /lab/state`
async fn lab_state(visit: Visit) -> Response {
    visit.page(StatusCode::OK, &LabPart::of(&visit.state.lab))
}

/// `GET /lab/state.json`
async fn lab_state_json(visit: Visit) -> Response {
    let json = visit.state.lab.state().to_json().to_string();
    let mut response = visit.finished(Response::new(json.into()));
    let content_type = HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// `POST /lab/start`
async fn start_experiment(visit: Visit, SentForm(form): SentForm) -> Response {
    let form = match checked(&visit, form, &lab_address("")).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let experiment: Result<Experiment, BlogError> = form.text("experiment").parse();
    let Ok(experiment) = experiment else {
        return Trouble::NotFound("experiment").page(&visit, None).await;
    };
    let result = visit.state.lab.start(experiment);
    lab_answer(&visit, result).await
}

/// `POST /lab/stop`
async fn stop_experiment(visit: Visit, SentForm(form): SentForm) -> Response {
    if let Err(response) = checked(&visit, form, &lab_address("")).await {
        return response;
    }
    visit.state.lab.stop();
    visit.redirect(&lab_address(""))
}

/// `POST /lab/reset`
async fn reset_lab(visit: Visit, SentForm(form): SentForm) -> Response {
    let form = match checked(&visit, form, &lab_address("")).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let result = visit.state.lab.reset().await;
    // The chapters with the small blog have the button too, and are shown again.
    match form.text("chapter").parse::<usize>() {
        Ok(chapter) if result.is_ok() && SMALL_BLOG_CHAPTERS.contains(&chapter) => {
            visit.redirect(&format!("/lesson/{chapter}"))
        }
        _ => lab_answer(&visit, result).await,
    }
}

/// Returns the answer to a form of the lab.
async fn lab_answer(visit: &Visit, result: Result<(), LabError>) -> Response {
    match result {
        Ok(()) => visit.redirect(&lab_address("")),
        Err(LabError::Busy) => visit.redirect(&lab_address("busy")),
        Err(LabError::NotOffered) => visit.redirect(&lab_address("not-offered")),
        Err(LabError::Failed(error)) => Trouble::Database(error).page(visit, None).await,
    }
}
