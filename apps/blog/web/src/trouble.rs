//! The reasons for which a page cannot be shown, and the pages that explain them.
//!
//! A page says what happened and what to do. If a form was sent, the page contains the form again
//! with the typed text and the same token, so that sending the form again is no second write.

use crate::forms::{Form, Retry};
use crate::frame::{Frame, path_name};
use crate::secret;
use crate::text;
use crate::visit::Visit;
use askama::Template;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use orrery_blog::{BlogError, Model};

/// The reason for which a page cannot be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Trouble {
    /// There is nothing at this address; the noun names the missing thing.
    NotFound(&'static str),
    /// The model is not present on this site.
    NotPresent(Model),
    /// The address is not valid UTF-8.
    BadAddress,
    /// The position of a list is not valid.
    BadPosition,
    /// The page is for signed-in users.
    SignInFirst,
    /// The user may not do this; the text says the reason.
    Forbidden(&'static str),
    /// The form came from another site.
    OtherSite,
    /// The form belongs to another session of the browser.
    OldForm,
    /// The body is not a form; status and explanation.
    BadForm(StatusCode, &'static str),
    /// The post was deleted while the form was open.
    PostGone,
    /// The same form was sent before with other text.
    SentBefore,
    /// There were too many attempts; seconds to wait.
    TooMany(u64),
    /// A request to the database failed.
    Database(BlogError),
}

impl From<BlogError> for Trouble {
    fn from(error: BlogError) -> Self {
        match error {
            BlogError::InvalidPage => Self::BadPosition,
            other => Self::Database(other),
        }
    }
}

/// The texts of a page about a trouble.
struct Explanation {
    status: StatusCode,
    title: String,
    text: String,
    /// A detail for those who run the site.
    detail: String,
    retry_after_s: Option<u64>,
}

#[derive(Template)]
#[template(path = "trouble.html")]
struct TroublePage<'a> {
    frame: Frame,
    title: &'a str,
    text: &'a str,
    detail: &'a str,
    retry: Option<&'a Retry>,
    /// The form of a post that is gone.
    lost: Option<&'a Retry>,
    csrf: String,
    token: String,
    retry_ms: Option<u64>,
}

impl Trouble {
    /// Returns the page about the trouble. `sent` is the form that was sent, if any.
    pub(crate) async fn page(self, visit: &Visit, sent: Option<(&Form, Retry)>) -> Response {
        let has_text = match &sent {
            Some((_, retry)) => retry.fields.iter().any(|field| field.kind == "area"),
            None => false,
        };
        // A page with typed text is not left: the visitor signs in elsewhere and sends it again.
        if self == Self::SignInFirst && !has_text {
            let next = match &sent {
                Some((_, retry)) => &retry.back,
                None => visit.uri.path(),
            };
            return visit.redirect(&format!("/signin?next={}", escaped(next)));
        }
        if let Self::NotPresent(model) = self {
            return moved(visit, model);
        }
        let mut explanation = self.explanation(sent.is_some());
        if self == Self::SentBefore && !has_text {
            explanation.title = "The form was used before".into();
            explanation.text = "An earlier form with the same secret was applied, and this one \
                                was not. Send it again to apply it as well."
                .into();
        }
        let keeps_text = !matches!(self, Self::OtherSite | Self::PostGone | Self::NotFound(_));
        let (token, retry) = match &sent {
            Some((form, retry)) if keeps_text => {
                // Another text needs another token: the first belongs to the first text.
                let token = match self {
                    Self::SentBefore => secret::random::<16>(),
                    _ => form.token(),
                };
                (token, Some(retry))
            }
            _ => (String::new(), None),
        };
        // A text for a post that is gone cannot be sent again, but it can be copied.
        let lost = match &sent {
            Some((_, retry)) if has_text && matches!(self, Self::PostGone | Self::NotFound(_)) => {
                explanation.text.push_str(" Copy your text to keep it.");
                Some(retry)
            }
            _ => None,
        };
        let template = TroublePage {
            frame: visit.frame(&explanation.title).await,
            title: &explanation.title,
            text: &explanation.text,
            detail: &explanation.detail,
            retry,
            lost,
            csrf: visit.csrf(),
            token,
            retry_ms: explanation.retry_after_s.map(|seconds| seconds * 1_000),
        };
        let mut response = visit.page(explanation.status, &template);
        if let Some(seconds) = explanation.retry_after_s {
            let value = HeaderValue::from(seconds);
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        response
    }

    fn explanation(&self, was_sent: bool) -> Explanation {
        let explain = |status: StatusCode, title: &str, text: &str| Explanation {
            status,
            title: title.to_owned(),
            text: text.to_owned(),
            detail: String::new(),
            retry_after_s: None,
        };
        match self {
            Self::NotFound(noun) => explain(
                StatusCode::NOT_FOUND,
                &format!("There is no such {noun}"),
                match *noun {
                    "post" => "The address is mistyped, or the author has deleted the post.",
                    _ => "The address is mistyped, or out of date.",
                },
            ),
            Self::BadAddress => explain(
                StatusCode::BAD_REQUEST,
                "The address is not valid",
                "The address has an escape sequence that stands for no character.",
            ),
            Self::NotPresent(_) => explain(StatusCode::NOT_FOUND, "Another model", ""),
            Self::BadPosition => explain(
                StatusCode::BAD_REQUEST,
                "There is no such page of the list",
                "The position in the address is not valid. Start at the beginning of the list.",
            ),
            Self::SignInFirst => explain(
                StatusCode::FORBIDDEN,
                "Sign in first",
                "You are signed out, and nothing was written. Sign in in another tab, then send \
                 this form again.",
            ),
            Self::Forbidden(text) => explain(StatusCode::FORBIDDEN, "This is not allowed", text),
            Self::OtherSite => explain(
                StatusCode::FORBIDDEN,
                "The form came from another site",
                "Nothing was written. Open the page here and send the form again.",
            ),
            Self::OldForm => explain(
                StatusCode::FORBIDDEN,
                "The form is of an earlier session",
                "Nothing was written. Your text is below; send the form again.",
            ),
            Self::BadForm(status, text) => explain(*status, "The form could not be read", text),
            Self::PostGone => explain(
                StatusCode::GONE,
                "The post was deleted",
                "The author has deleted the post meanwhile. Nothing was written.",
            ),
            Self::SentBefore => explain(
                StatusCode::CONFLICT,
                "The form was sent before with other text",
                "The first text is saved. Your new text is below; send it to save it as well.",
            ),
            Self::TooMany(seconds) => Explanation {
                retry_after_s: Some(*seconds),
                ..explain(
                    StatusCode::TOO_MANY_REQUESTS,
                    "Too many attempts",
                    &wait_text(*seconds),
                )
            },
            Self::Database(error) => database_explanation(error, was_sent),
        }
    }
}

/// Returns the text for a visitor whose passwords were wrong too often.
fn wait_text(seconds: u64) -> String {
    let time = text::counted(seconds, "second", "seconds");
    format!(
        "From this address the name or password was wrong too often. Wait {time} and try again."
    )
}

/// Leads from a page of a model that is not present to the same page of the home model, which says
/// so. A migration may have dropped the model while a browser showed its pages.
fn moved(visit: &Visit, model: Model) -> Response {
    let home = path_name(visit.state.site.home());
    let path = visit.uri.path();
    let rest = path.get(3..).unwrap_or_default();
    visit.redirect(&format!("/{home}{rest}?absent={}", path_name(model)))
}

/// Explains the failure of a request to the database.
fn database_explanation(error: &BlogError, was_sent: bool) -> Explanation {
    let text_stays = if was_sent {
        " Your text is below; sending the form again saves it once only."
    } else {
        " Load the page again in a moment."
    };
    let detail = match error {
        BlogError::Refused {
            status, sub_status, ..
        } => format!("The database answered {status}/{sub_status}."),
        _ => String::new(),
    };
    let (status, title, text, retry_after_s) = if error.is_throttled() {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "The database is busy",
            "More request units were asked for than the container has this second.",
            Some(1),
        )
    } else if error.is_partition_full() {
        (
            StatusCode::INSUFFICIENT_STORAGE,
            "The logical partition is full",
            "All items with one partition key share a limited space, and it is used up. Other \
             posts and users are not affected.",
            None,
        )
    } else if is_unavailable(error) {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "The database does not answer",
            "The connection failed, or no answer came in time.",
            Some(2),
        )
    } else if matches!(error, BlogError::Refused { status: 413, .. }) {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "The item is too large",
            "The database does not store items of this size. Shorten the text.",
            None,
        )
    } else {
        (
            StatusCode::BAD_GATEWAY,
            "The database refused the request",
            "The site could not show this page.",
            None,
        )
    };
    Explanation {
        status,
        title: title.to_owned(),
        text: format!("{text}{text_stays}"),
        detail,
        retry_after_s,
    }
}

/// Returns true if the database could not answer, and may do so later.
fn is_unavailable(error: &BlogError) -> bool {
    matches!(
        error,
        BlogError::Unreachable { .. }
            | BlogError::Refused {
                status: 408 | 410 | 503,
                ..
            }
    )
}

/// Returns a path as the value of a parameter of a URL.
fn escaped(path: &str) -> String {
    percent_encoding::utf8_percent_encode(path, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, sub_status: u32) -> Trouble {
        Trouble::Database(BlogError::Refused {
            operation: "POST /dbs/x".into(),
            status,
            sub_status,
            message: "internal".into(),
        })
    }

    #[test]
    fn each_failure_of_the_database_has_its_status_and_no_internal_text() {
        let unreachable = Trouble::Database(BlogError::Unreachable {
            operation: "GET /".into(),
            cause: "internal".into(),
        });
        for (trouble, status, retry) in [
            (refused(429, 3200), 503, true),
            (refused(403, 1014), 507, false),
            (refused(413, 0), 413, false),
            (refused(500, 0), 502, false),
            (unreachable, 503, true),
        ] {
            let explanation = trouble.explanation(true);
            assert_eq!(explanation.status.as_u16(), status);
            assert_eq!(explanation.retry_after_s.is_some(), retry);
            let text = format!("{}{}", explanation.text, explanation.detail);
            assert!(
                !text.contains("internal") && !text.contains("dbs"),
                "{text}"
            );
        }
    }
}
