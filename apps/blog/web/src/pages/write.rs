//! Forms that write posts, comments and likes.
//!
//! A form has a random token. The write operation and its ids are functions of the token, so a form
//! that is sent twice is applied once and gets the same answer. After a write the browser is sent
//! to a page whose address names the receipt (`?done=…`).

use crate::forms::{Form, Retry, SentForm};
use crate::frame::{Frame, path_name};
use crate::pages::read::{CommentMistake, show_post};
use crate::sessions::SignedIn;
use crate::state::Counters;
use crate::trouble::Trouble;
use crate::visit::Visit;
use crate::{secret, text};
use askama::Template;
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use orrery_blog::Model;
use orrery_blog::writes::{Outcome, Receipt, WriteError, WriteOperation, date_now, derived_id};

#[derive(Template)]
#[template(path = "editor.html")]
struct EditorPage<'a> {
    frame: Frame,
    heading: &'a str,
    button: &'a str,
    action: String,
    cancel: String,
    draft: String,
    token: String,
    title: String,
    title_error: String,
    content: String,
    content_error: String,
    /// HTML of the text, for a preview without scripts.
    preview: String,
}

#[derive(Template)]
#[template(path = "delete.html")]
struct DeletePage<'a> {
    frame: Frame,
    title: &'a str,
    post_id: &'a str,
    token: String,
}

/// Applies a write operation and returns its receipt.
///
/// # Errors
/// The trouble of the operation: a failed request, a deleted post, a post of another user.
pub(crate) async fn submit(
    visit: &mut Visit,
    token: &str,
    operation: WriteOperation,
) -> Result<Receipt, Trouble> {
    let submitted = visit
        .state
        .writes
        .submit(token, operation, &visit.own, visit.deadline)
        .await;
    count(visit, submitted)
}

/// Counts a submitted write operation and returns its receipt, or the trouble.
pub(crate) fn count(
    visit: &Visit,
    submitted: Result<Receipt, WriteError>,
) -> Result<Receipt, Trouble> {
    let receipt = match submitted {
        Ok(receipt) => receipt,
        Err(WriteError::SentBefore) => return Err(Trouble::SentBefore),
        Err(WriteError::Failed(e)) => return Err(e.into()),
    };
    let counters = &visit.state.counters;
    if receipt.is_repeated {
        Counters::add(&counters.repeated_writes, 1);
    } else {
        Counters::add(&counters.writes, 1);
        for cost in &receipt.models {
            let counter = &counters.charges[cost.model as usize];
            Counters::add(counter, cost.measurement.ru.0);
            if let Some(pipelines) = &visit.state.options.pipelines {
                pipelines.wake().ring_after(&cost.records);
            }
        }
        // The receipt in memory has the records of the requests, the journal's has only sums.
        visit.state.receipts.insert(&receipt.id, receipt.clone());
        if let Some(cost) = receipt.cost(visit.shown_model()) {
            visit
                .state
                .sessions
                .add_page(&visit.secret, 0, &cost.measurement);
        }
    }
    match receipt.outcome {
        Outcome::Done => Ok(receipt),
        Outcome::PostGone => Err(Trouble::PostGone),
        Outcome::NotAuthor => Err(Trouble::Forbidden("The post belongs to another user.")),
        Outcome::UserGone => Err(Trouble::Forbidden(
            "Your user is no longer in the database. Sign out and sign up again.",
        )),
    }
}

/// Adds the charge of a write in the model of the page to the answer.
pub(crate) fn with_charge(mut response: Response, receipt: &Receipt, model: Model) -> Response {
    if let Some(cost) = receipt.cost(model)
        && let Ok(value) = http::HeaderValue::from_str(&cost.measurement.ru.to_string())
    {
        let headers = response.headers_mut();
        headers.insert("x-orrery-request-charge", value);
        let requests = http::HeaderValue::from(cost.measurement.requests);
        headers.insert("x-orrery-requests", requests);
    }
    response
}

/// Returns the page after a write; `path` has no query.
fn done(visit: &Visit, receipt: &Receipt, path: &str, anchor: &str) -> Response {
    let response = visit.redirect(&format!("{path}?done={}{anchor}", receipt.id));
    with_charge(response, receipt, visit.shown_model())
}

/// Returns the answer to a form that was sent, or a page with the trouble and the typed text.
pub(crate) async fn answer(
    visit: &Visit,
    result: Result<Response, Trouble>,
    form: &Form,
    retry: Retry,
) -> Response {
    match result {
        Ok(response) => response,
        Err(trouble) => trouble.page(visit, Some((form, retry))).await,
    }
}

/// Checks the form and reads the user.
async fn author_of(visit: &mut Visit, v: &str, form: &Form) -> Result<SignedIn, Trouble> {
    visit.enter(v)?;
    visit.load_user().await?;
    form.check_origin(visit)?;
    visit.signed_in()
}

/// Returns the id of a post in a path.
fn post_id(id: &str) -> Result<String, Trouble> {
    match text::is_id(id) {
        true => Ok(id.to_owned()),
        false => Err(Trouble::NotFound("post")),
    }
}

/// `POST /preview`: HTML of the field `content`, which may be as long as the text of a post.
pub(crate) async fn preview(visit: Visit, SentForm(sent): SentForm) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    match form.draft() {
        Ok(text) => Html(visit.state.renderer.html(text).await).into_response(),
        Err(mistake) => (StatusCode::PAYLOAD_TOO_LARGE, mistake).into_response(),
    }
}

/// `GET /{v}/write`
pub(crate) async fn new_post(mut visit: Visit, Path(v): Path<String>) -> Response {
    let result = show_new_post(&mut visit, &v).await;
    visit.answer(result).await
}

async fn show_new_post(visit: &mut Visit, v: &str) -> Result<Response, Trouble> {
    visit.enter(v)?;
    visit.load_user().await?;
    visit.signed_in()?;
    let page = EditorPage {
        frame: visit.frame("Write a post").await,
        ..editor_page(visit, None, &Form::default()).await
    };
    Ok(visit.page(StatusCode::OK, &page))
}

/// Returns the editor with the fields of `form`, for a new post or the post `id`.
async fn editor_page<'a>(visit: &Visit, id: Option<&str>, form: &Form) -> EditorPage<'a> {
    let model = path_name(visit.shown_model());
    let (heading, button, action, cancel, draft) = match id {
        None => (
            "Write a post",
            "Publish",
            format!("/{model}/write"),
            format!("/{model}"),
            "post:new".to_owned(),
        ),
        Some(id) => (
            "Edit post",
            "Save",
            format!("/{model}/posts/{id}/edit"),
            format!("/{model}/posts/{id}"),
            format!("post:{id}"),
        ),
    };
    EditorPage {
        frame: visit.frame(heading).await,
        heading,
        button,
        action,
        cancel,
        draft,
        token: form.token(),
        title: form.text("title").to_owned(),
        title_error: String::new(),
        content: form.text("content").to_owned(),
        content_error: String::new(),
        preview: String::new(),
    }
}

/// Returns the editor again if the form asks for a preview or has a mistake.
async fn editor_again(visit: &Visit, id: Option<&str>, form: &Form) -> Option<Response> {
    let is_preview = form.text("intent") == "preview";
    let (title, content) = (form.title(), form.content());
    if !is_preview && title.is_ok() && content.is_ok() {
        return None;
    }
    let mut page = editor_page(visit, id, form).await;
    // A text that is too long has a mistake, and no preview.
    if let Ok(text) = form.draft() {
        page.preview = visit.state.renderer.html(text).await;
    }
    if is_preview {
        return Some(visit.page(StatusCode::OK, &page));
    }
    page.title_error = title.err().unwrap_or_default();
    page.content_error = content.err().unwrap_or_default();
    Some(visit.page(StatusCode::UNPROCESSABLE_ENTITY, &page))
}

/// Returns the form of a post for a page about a trouble.
fn retry_post(form: &Form, action: &str, draft: &str) -> Retry {
    Retry::new(action, action, draft)
        .field(form, "title", "Title", "text")
        .field(form, "content", "Text", "area")
}

/// `POST /{v}/write`
pub(crate) async fn create_post(
    mut visit: Visit,
    Path(v): Path<String>,
    SentForm(sent): SentForm,
) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = publish(&mut visit, &v, &form).await;
    let retry = retry_post(&form, &format!("/{v}/write"), "post:new");
    answer(&visit, result, &form, retry).await
}

async fn publish(visit: &mut Visit, v: &str, form: &Form) -> Result<Response, Trouble> {
    let user = author_of(visit, v, form).await?;
    if let Some(again) = editor_again(visit, None, form).await {
        return Ok(again);
    }
    let (Ok(title), Ok(content)) = (form.title(), form.content()) else {
        return Err(Trouble::OldForm);
    };
    let token = form.token();
    let post_id = derived_id(&["post", &token]);
    let operation = WriteOperation::CreatePost {
        post_id: post_id.clone(),
        user_id: user.user_id,
        title,
        content,
        created: date_now(),
    };
    let receipt = submit(visit, &token, operation).await?;
    Ok(done(visit, &receipt, &format!("/{v}/posts/{post_id}"), ""))
}

/// `GET /{v}/posts/{id}/edit`
pub(crate) async fn edit_page(mut visit: Visit, Path((v, id)): Path<(String, String)>) -> Response {
    let result = show_edit(&mut visit, &v, &id).await;
    visit.answer(result).await
}

/// Reads a post of the signed-in user in the model of the visit.
async fn own_post(visit: &mut Visit, v: &str, id: &str) -> Result<serde_json::Value, Trouble> {
    let model = visit.enter(v)?;
    visit.load_user().await?;
    let user = visit.signed_in()?;
    let id = post_id(id)?;
    visit.page = Some(format!("/posts/{id}"));
    visit.codes.push("Q2");
    let post = match visit.blog(model).post(&visit.meter, &id).await {
        Err(e) if e.is_not_found() => return Err(Trouble::NotFound("post")),
        post => post?,
    };
    if post["userId"] != user.user_id.as_str() {
        return Err(Trouble::Forbidden("The post belongs to another user."));
    }
    Ok(post)
}

async fn show_edit(visit: &mut Visit, v: &str, id: &str) -> Result<Response, Trouble> {
    let post = own_post(visit, v, id).await?;
    let mut page = editor_page(visit, Some(id), &Form::default()).await;
    page.title = post["title"].as_str().unwrap_or_default().to_owned();
    page.content = post["content"].as_str().unwrap_or_default().to_owned();
    page.preview = visit.state.renderer.html(page.content.clone()).await;
    Ok(visit.page(StatusCode::OK, &page))
}

/// `POST /{v}/posts/{id}/edit`
pub(crate) async fn edit_post(
    mut visit: Visit,
    Path((v, id)): Path<(String, String)>,
    SentForm(sent): SentForm,
) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = save(&mut visit, &v, &id, &form).await;
    let retry = retry_post(
        &form,
        &format!("/{v}/posts/{id}/edit"),
        &format!("post:{id}"),
    );
    answer(&visit, result, &form, retry).await
}

async fn save(visit: &mut Visit, v: &str, id: &str, form: &Form) -> Result<Response, Trouble> {
    let user = author_of(visit, v, form).await?;
    let post_id = post_id(id)?;
    if let Some(again) = editor_again(visit, Some(id), form).await {
        return Ok(again);
    }
    let (Ok(title), Ok(content)) = (form.title(), form.content()) else {
        return Err(Trouble::OldForm);
    };
    let operation = WriteOperation::EditPost {
        post_id,
        user_id: user.user_id,
        title,
        content,
    };
    let receipt = submit(visit, &form.token(), operation).await?;
    Ok(done(visit, &receipt, &format!("/{v}/posts/{id}"), ""))
}

/// `GET /{v}/posts/{id}/delete`
pub(crate) async fn delete_page(
    mut visit: Visit,
    Path((v, id)): Path<(String, String)>,
) -> Response {
    let result = show_delete(&mut visit, &v, &id).await;
    visit.answer(result).await
}

async fn show_delete(visit: &mut Visit, v: &str, id: &str) -> Result<Response, Trouble> {
    let post = own_post(visit, v, id).await?;
    let page = DeletePage {
        frame: visit.frame("Delete post").await,
        title: post["title"].as_str().unwrap_or_default(),
        post_id: id,
        token: secret::random::<16>(),
    };
    Ok(visit.page(StatusCode::OK, &page))
}

/// `POST /{v}/posts/{id}/delete`
pub(crate) async fn delete_post(
    mut visit: Visit,
    Path((v, id)): Path<(String, String)>,
    SentForm(sent): SentForm,
) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = remove(&mut visit, &v, &id, &form).await;
    let action = format!("/{v}/posts/{id}/delete");
    answer(&visit, result, &form, Retry::new(&action, &action, "")).await
}

async fn remove(visit: &mut Visit, v: &str, id: &str, form: &Form) -> Result<Response, Trouble> {
    let user = author_of(visit, v, form).await?;
    let operation = WriteOperation::DeletePost {
        post_id: post_id(id)?,
        user_id: user.user_id.clone(),
    };
    let receipt = submit(visit, &form.token(), operation).await?;
    Ok(done(
        visit,
        &receipt,
        &format!("/{v}/users/{}", user.user_id),
        "",
    ))
}

/// `POST /{v}/posts/{id}/comments`
pub(crate) async fn create_comment(
    mut visit: Visit,
    Path((v, id)): Path<(String, String)>,
    SentForm(sent): SentForm,
) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = comment(&mut visit, &v, &id, &form).await;
    let retry = Retry::new(
        &format!("/{v}/posts/{id}/comments"),
        &format!("/{v}/posts/{id}"),
        &format!("comment:{id}"),
    )
    .field(&form, "content", "Your comment", "area");
    answer(&visit, result, &form, retry).await
}

async fn comment(visit: &mut Visit, v: &str, id: &str, form: &Form) -> Result<Response, Trouble> {
    let user = author_of(visit, v, form).await?;
    let post_id = post_id(id)?;
    let token = form.token();
    let content = match form.comment() {
        Ok(content) => content,
        Err(mistake) => {
            let mistake = CommentMistake {
                text: form.text("content").to_owned(),
                mistake,
                token: Some(token),
            };
            return show_post(visit, v, id, mistake).await;
        }
    };
    let comment_id = derived_id(&["comment", &token]);
    let operation = WriteOperation::Comment {
        comment_id: comment_id.clone(),
        post_id,
        user_id: user.user_id,
        content,
        created: date_now(),
    };
    let receipt = submit(visit, &token, operation).await?;
    let path = format!("/{v}/posts/{id}");
    Ok(done(
        visit,
        &receipt,
        &path,
        &format!("#comment-{comment_id}"),
    ))
}

/// `POST /{v}/posts/{id}/likes`
pub(crate) async fn create_like(
    mut visit: Visit,
    Path((v, id)): Path<(String, String)>,
    SentForm(sent): SentForm,
) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = like(&mut visit, &v, &id, &form).await;
    let back = format!("/{v}/posts/{id}");
    let retry = Retry::new(&format!("{back}/likes"), &back, "");
    answer(&visit, result, &form, retry).await
}

async fn like(visit: &mut Visit, v: &str, id: &str, form: &Form) -> Result<Response, Trouble> {
    let user = author_of(visit, v, form).await?;
    let operation = WriteOperation::like(&post_id(id)?, &user.user_id);
    let receipt = submit(visit, &form.token(), operation).await?;
    Ok(done(visit, &receipt, &format!("/{v}/posts/{id}"), "#like"))
}
