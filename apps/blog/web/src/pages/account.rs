//! Sign up, sign in, sign out, and the profile.

use crate::accounts::SignIn;
use crate::forms::{Form, Retry, SentForm};
use crate::frame::{Frame, path_name};
use crate::pages::write::{answer, count, with_charge};
use crate::registration::{Registered, Registration};
use crate::sessions::SignedIn;
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::response::Response;
use http::StatusCode;
use orrery_blog::Query;
use orrery_blog::writes::{Receipt, WriteError, derived_id};
use std::collections::BTreeSet;

const NAME_HINT: &str = "Shown beside your posts, comments and likes.";
const RENAME_HINT: &str = "Your posts, comments and likes get the new name too: at once in V1, by \
                           the change feed in V2 and V3.";

/// Users whose accounts are looked up in one query.
const USERS_AT_ONCE: usize = 100;

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    frame: Frame,
    /// `signup`, `signin` or `profile`.
    kind: &'a str,
    heading: &'a str,
    button: &'a str,
    token: String,
    next: String,
    username: String,
    username_hint: &'a str,
    username_error: String,
    password_error: String,
    form_error: String,
    /// Link to the user's posts.
    posts: String,
    is_demo: bool,
}

/// The mistakes in a form.
#[derive(Default)]
struct Mistakes {
    username: String,
    password: String,
    form: String,
}

/// Returns a page with an account form and what was typed.
async fn form_page(
    visit: &Visit,
    kind: &'static str,
    form: &Form,
    mistakes: Mistakes,
    status: StatusCode,
) -> Response {
    let (heading, button, username_hint) = match kind {
        "signup" => ("Sign up", "Sign up", NAME_HINT),
        "signin" => ("Sign in", "Sign in", ""),
        _ => ("Profile", "Save", RENAME_HINT),
    };
    let typed = form.text("username");
    let user = visit.user.as_ref();
    let page = AccountPage {
        frame: visit.frame(heading).await,
        kind,
        heading,
        button,
        token: form.token(),
        next: next_path(visit, form),
        username: match (typed.is_empty(), user) {
            (true, Some(user)) if kind == "profile" => user.username.clone(),
            _ => typed.to_owned(),
        },
        username_hint,
        username_error: mistakes.username,
        password_error: mistakes.password,
        form_error: mistakes.form,
        posts: match user {
            Some(user) if kind == "profile" => {
                format!("/{}/users/{}", path_name(visit.shown_model()), user.user_id)
            }
            _ => String::new(),
        },
        is_demo: kind == "signin" && visit.state.options.demo,
    };
    visit.page(status, &page)
}

/// Returns the page to show after sign-in: a path of this site, or nothing.
fn next_path(visit: &Visit, form: &Form) -> String {
    let next = match form.text("next") {
        "" => visit.query.get("next").map_or("", String::as_str),
        next => next,
    };
    let is_local = next.starts_with('/')
        && !next.starts_with("//")
        && next
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/-_.".contains(&b));
    match is_local {
        true => next.to_owned(),
        false => String::new(),
    }
}

/// Returns the page after sign-in.
fn welcome(visit: &Visit, form: &Form) -> Response {
    match next_path(visit, form).as_str() {
        "" => visit.redirect(&format!("/{}", path_name(visit.shown_model()))),
        next => visit.redirect(next),
    }
}

/// `GET /signup`
pub(crate) async fn signup_page(mut visit: Visit) -> Response {
    let result = show_form(&mut visit, "signup").await;
    visit.answer(result).await
}

/// `GET /signin`
pub(crate) async fn signin_page(mut visit: Visit) -> Response {
    let result = show_form(&mut visit, "signin").await;
    visit.answer(result).await
}

/// `GET /profile`
pub(crate) async fn profile_page(mut visit: Visit) -> Response {
    let result = show_form(&mut visit, "profile").await;
    visit.answer(result).await
}

async fn show_form(visit: &mut Visit, kind: &'static str) -> Result<Response, Trouble> {
    visit.load_user().await?;
    visit.load_receipt().await?;
    if kind == "profile" {
        visit.signed_in()?;
    }
    let form = Form::default();
    Ok(form_page(visit, kind, &form, Mistakes::default(), StatusCode::OK).await)
}

/// `POST /signup`
pub(crate) async fn signup(mut visit: Visit, SentForm(sent): SentForm) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = create_account(&mut visit, &form).await;
    let retry = Retry::new("/signup", "/signup", "")
        .field(&form, "username", "Name", "text")
        .field(&form, "password", "Password", "password");
    answer(&visit, result, &form, retry).await
}

async fn create_account(visit: &mut Visit, form: &Form) -> Result<Response, Trouble> {
    visit.load_user().await?;
    form.check_origin(visit)?;
    let (username, password) = match (form.username(), form.password()) {
        (Ok(username), Ok(password)) => (username, password),
        (username, password) => {
            let mistakes = Mistakes {
                username: username.err().unwrap_or_default(),
                password: password.err().unwrap_or_default(),
                form: String::new(),
            };
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return Ok(form_page(visit, "signup", form, mistakes, status).await);
        }
    };
    let token = form.token();
    // The id belongs to the form and the name, so that the form can be sent again after a failure.
    let user = SignedIn {
        user_id: derived_id(&["user", &token, &username]),
        username: username.clone(),
    };
    let registered = registration(visit, &token).sign_up(user, password).await;
    let (receipt, user) = match applied(visit, registered)? {
        Ok(applied) => applied,
        Err(mistakes) => return Ok(refused(visit, "signup", form, mistakes).await),
    };
    visit.start_session(&user).await?;
    let model = visit.shown_model();
    let next = match next_path(visit, form).as_str() {
        "" => format!("/{}", path_name(model)),
        next => next.to_owned(),
    };
    let response = visit.redirect(&format!("{next}?done={}", receipt.id));
    Ok(with_charge(response, &receipt, model))
}

/// Returns a sign-up or rename that uses the clients of the visit.
fn registration(visit: &Visit, token: &str) -> Registration {
    Registration {
        state: visit.state.clone(),
        client: visit.client(),
        home: visit.home(),
        own: visit.own.clone(),
        deadline: visit.deadline,
        token: token.to_owned(),
    }
}

/// Returns the receipt of a sign-up or rename and the user, or the mistakes of the form.
fn applied(
    visit: &Visit,
    registered: Result<Registered, WriteError>,
) -> Result<Result<(Receipt, SignedIn), Mistakes>, Trouble> {
    let mut mistakes = Mistakes::default();
    match registered {
        Ok(Registered::Applied(receipt, user)) => {
            let receipt = count(visit, Ok(*receipt))?;
            return Ok(Ok((receipt, user)));
        }
        Ok(Registered::Taken) => {
            mistakes.username = "This name is taken. Choose another one.".into();
        }
        Ok(Registered::OtherPassword) => {
            mistakes.form = "This form was sent before with another password, and you are signed \
                             up. Sign in with that password."
                .into();
        }
        Err(e) => return count(visit, Err(e)).map(|_| Err(mistakes)),
    }
    Ok(Err(mistakes))
}

/// Returns the form with its mistakes; nothing was written.
async fn refused(visit: &Visit, kind: &'static str, form: &Form, mistakes: Mistakes) -> Response {
    form_page(visit, kind, form, mistakes, StatusCode::CONFLICT).await
}

/// `POST /signin`
pub(crate) async fn signin(mut visit: Visit, SentForm(sent): SentForm) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = open_session(&mut visit, &form).await;
    let retry = Retry::new("/signin", "/signin", "")
        .field(&form, "next", "", "hidden")
        .field(&form, "username", "Name", "text")
        .field(&form, "password", "Password", "password");
    answer(&visit, result, &form, retry).await
}

async fn open_session(visit: &mut Visit, form: &Form) -> Result<Response, Trouble> {
    visit.load_user().await?;
    form.check_origin(visit)?;
    let (username, password) = (form.text("username").trim(), form.text("password"));
    // A text that no name can have is not looked up.
    let is_possible = form.username().is_ok() && password.chars().count() <= 200;
    let result = match is_possible {
        true => {
            let accounts = &visit.state.accounts;
            let client = visit.client();
            accounts
                .sign_in(&client, &visit.own, visit.visitor, (username, password))
                .await?
        }
        false => SignIn::Refused,
    };
    // A sign-up that is incomplete has an account and no user.
    let result = match result {
        SignIn::Accepted(user) => match stored_user(visit, &user.user_id).await? {
            Some(user) => SignIn::Accepted(user),
            None => SignIn::Refused,
        },
        result => result,
    };
    match result {
        SignIn::Accepted(user) => {
            visit.start_session(&user).await?;
            Ok(welcome(visit, form))
        }
        SignIn::Refused => {
            let mistakes = Mistakes {
                form: "The name or the password is wrong.".into(),
                ..Mistakes::default()
            };
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Ok(form_page(visit, "signin", form, mistakes, status).await)
        }
        SignIn::TooMany(wait) => Err(Trouble::TooMany(wait.as_millis().div_ceil(1_000) as u64)),
    }
}

/// `POST /signin/demo`: signs in as a seeded user without a password.
pub(crate) async fn signin_demo(mut visit: Visit, SentForm(sent): SentForm) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = open_demo_session(&mut visit, &form).await;
    let retry = Retry::new("/signin/demo", "/signin", "")
        .field(&form, "next", "", "hidden")
        .field(&form, "user", "", "hidden");
    answer(&visit, result, &form, retry).await
}

async fn open_demo_session(visit: &mut Visit, form: &Form) -> Result<Response, Trouble> {
    visit.load_user().await?;
    form.check_origin(visit)?;
    if !visit.state.options.demo {
        return Err(Trouble::Forbidden(
            "This site has no demonstration. Sign in with a name and a password.",
        ));
    }
    let user_id = match form.text("user") {
        "" => seeded_user(visit).await?,
        id => id.to_owned(),
    };
    if !crate::text::is_id(&user_id) {
        return Err(Trouble::NotFound("user"));
    }
    let Some(user) = stored_user(visit, &user_id).await? else {
        return Err(Trouble::NotFound("user"));
    };
    // A user with a password signs in with the password, also here.
    let accounts = &visit.state.accounts;
    let account = accounts
        .account(&visit.client(), &visit.own, &user_id)
        .await?;
    if account.is_some_and(|account| account.password_hash().is_some()) {
        return Err(Trouble::Forbidden(
            "This user has a password. Sign in with the name and the password.",
        ));
    }
    visit.start_session(&user).await?;
    Ok(welcome(visit, form))
}

/// Reads a user with the current name.
async fn stored_user(visit: &Visit, user_id: &str) -> Result<Option<SignedIn>, Trouble> {
    let user = match visit.home().user(&visit.own, user_id).await {
        Err(e) if e.is_not_found() => return Ok(None),
        user => user?,
    };
    Ok(Some(SignedIn {
        user_id: user_id.to_owned(),
        username: user["username"].as_str().unwrap_or_default().to_owned(),
    }))
}

/// Returns the id of a seeded user: an author of the newest posts, or any user who has no password.
async fn seeded_user(visit: &Visit) -> Result<String, Trouble> {
    let (client, home) = (visit.client(), visit.home());
    let mut authors = BTreeSet::new();
    for post in home.feed(&visit.own).await? {
        authors.insert(post["userId"].as_str().unwrap_or_default().to_owned());
    }
    if let Some(user_id) = without_password(visit, authors).await? {
        return Ok(user_id);
    }
    let query = Query::new("SELECT VALUE c.id FROM c WHERE IS_DEFINED(c.username)");
    let containers = home.containers();
    let users = containers.first().copied().unwrap_or_default();
    let mut user_ids = BTreeSet::new();
    for user_id in client.query_all(&visit.own, users, &query).await? {
        user_ids.insert(user_id.as_str().unwrap_or_default().to_owned());
    }
    let found = without_password(visit, user_ids).await?;
    found.ok_or(Trouble::NotFound("user"))
}

/// Returns the first of `user_ids` that belongs to a user without a password.
async fn without_password(
    visit: &Visit,
    user_ids: BTreeSet<String>,
) -> Result<Option<String>, Trouble> {
    let ids: Vec<&str> = user_ids.iter().map(String::as_str).collect();
    for some in ids.chunks(USERS_AT_ONCE) {
        let accounts = &visit.state.accounts;
        let registered = accounts
            .with_password(&visit.client(), &visit.own, some)
            .await?;
        if let Some(found) = some.iter().find(|id| !registered.contains(**id)) {
            return Ok(Some((*found).to_owned()));
        }
    }
    Ok(None)
}

/// `POST /signout`
pub(crate) async fn signout(mut visit: Visit, SentForm(sent): SentForm) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = close_session(&mut visit, &form).await;
    let retry = Retry::new("/signout", "/", "");
    answer(&visit, result, &form, retry).await
}

async fn close_session(visit: &mut Visit, form: &Form) -> Result<Response, Trouble> {
    form.check_csrf(visit)?;
    let secret = visit.secret.clone();
    let sessions = &visit.state.sessions;
    sessions.end(&visit.client(), &visit.own, &secret).await?;
    visit.forget_session();
    Ok(visit.redirect("/"))
}

/// `POST /profile`
pub(crate) async fn rename(mut visit: Visit, SentForm(sent): SentForm) -> Response {
    let form = match sent {
        Ok(form) => form,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let result = change_name(&mut visit, &form).await;
    let retry = Retry::new("/profile", "/profile", "").field(&form, "username", "Name", "text");
    answer(&visit, result, &form, retry).await
}

async fn change_name(visit: &mut Visit, form: &Form) -> Result<Response, Trouble> {
    visit.load_user().await?;
    form.check_origin(visit)?;
    let user = visit.signed_in()?;
    let username = match form.username() {
        Ok(username) => username,
        Err(mistake) => {
            let mistakes = Mistakes {
                username: mistake,
                ..Mistakes::default()
            };
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return Ok(form_page(visit, "profile", form, mistakes, status).await);
        }
    };
    let renamed = SignedIn {
        user_id: user.user_id.clone(),
        username,
    };
    let registered = registration(visit, &form.token()).rename(renamed).await;
    let (receipt, renamed) = match applied(visit, registered)? {
        Ok(applied) => applied,
        Err(mistakes) => return Ok(refused(visit, "profile", form, mistakes).await),
    };
    let (client, secret) = (visit.client(), visit.secret.clone());
    let sessions = &visit.state.sessions;
    sessions
        .store(&client, &visit.own, &secret, &renamed)
        .await?;
    sessions.rename(&user.user_id, &renamed.username);
    visit.user = Some(renamed);
    let response = visit.redirect(&format!("/profile?done={}", receipt.id));
    Ok(with_charge(response, &receipt, visit.shown_model()))
}
