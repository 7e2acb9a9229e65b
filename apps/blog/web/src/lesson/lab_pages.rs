//! The handlers of the steps in the lab's small blog, and of the five questions.
//!
//! A step that fails leaves the page as it was and says what happened at its picture: a database
//! that is stopped stops no page.

use super::chapters::QUESTIONS_CHAPTER;
use super::pages::checked;
use super::questions::{Answer, is_prediction};
use super::small_blog::{Fields, Picture, rendered};
use crate::forms::SentForm;
use crate::secret;
use crate::state::AppState;
use crate::trouble::Trouble;
use crate::visit::Visit;
use axum::Router;
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use orrery_blog::lesson::lab::small_blog::{Step, Trial};
use std::collections::BTreeMap;

/// Returns the routes below `/lesson/lab` and `/lesson/questions`.
pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/lesson/lab/{step}", post(run_step))
        .route("/lesson/lab/part/{picture}", get(picture))
        .route("/lesson/questions", get(questions))
        .route("/lesson/questions/{trial}", post(answer_question))
}

/// Returns the fields of the forms of a browser.
pub(super) fn fields(visit: &Visit) -> Fields {
    Fields {
        csrf: visit.csrf(),
        token: secret::random::<16>(),
    }
}

/// `POST /lesson/lab/{step}`
async fn run_step(visit: Visit, Path(name): Path<String>, SentForm(form): SentForm) -> Response {
    let Ok(step) = name.parse::<Step>() else {
        return Trouble::NotFound("experiment").page(&visit, None).await;
    };
    let picture = Picture::of(step);
    let back = format!("/lesson/{}#{}", picture.chapter(), picture.id());
    if let Err(response) = checked(&visit, form, &back).await {
        return response;
    }
    // The picture shows a failure.
    let _ = visit.state.lab.small_blog().run(step).await;
    visit.redirect(&back)
}

/// `GET /lesson/lab/part/{picture}`
async fn picture(visit: Visit, Path(id): Path<String>) -> Response {
    let pictures = [
        Picture::Names,
        Picture::Feed,
        Picture::Uncut,
        Picture::Policies,
    ];
    let Some(picture) = pictures.into_iter().find(|picture| picture.id() == id) else {
        return Trouble::NotFound("picture").page(&visit, None).await;
    };
    let results = visit.state.lab.small_blog().results();
    let html = rendered(picture, &results, &fields(&visit));
    visit.finished(Html(html).into_response())
}

/// `GET /lesson/questions`
async fn questions(visit: Visit) -> Response {
    visit.redirect(&format!("/lesson/{QUESTIONS_CHAPTER}"))
}

/// `POST /lesson/questions/{trial}`
async fn answer_question(
    visit: Visit,
    Path(name): Path<String>,
    SentForm(form): SentForm,
) -> Response {
    let Ok(trial) = name.parse::<Trial>() else {
        return Trouble::NotFound("question").page(&visit, None).await;
    };
    let page = format!("/lesson/{QUESTIONS_CHAPTER}");
    let form = match checked(&visit, form, &page).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let prediction = form.text("prediction").trim().to_owned();
    if !is_prediction(trial, &prediction) {
        return visit.redirect(&format!("{page}?unanswered={trial}#q-{trial}"));
    }
    let measured = visit.state.lab.small_blog().measure(trial).await;
    let answer = Answer {
        prediction,
        measured,
    };
    visit
        .state
        .answers
        .update(&visit.secret, BTreeMap::new, |answers| {
            answers.insert(trial, answer);
        });
    visit.redirect(&format!("{page}#q-{trial}"))
}
