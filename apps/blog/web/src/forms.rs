//! Forms that browsers send: reading, limits, and protection against forms of other sites.

use crate::application::Unread;
use crate::secret;
use crate::trouble::Trouble;
use crate::visit::Visit;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form as AxumForm, FromRequest, Request};
use http::{StatusCode, header};
use std::collections::BTreeMap;

/// Bytes of the body of a form. A text of the greatest length has at most 1.2 MB in a form.
pub const BODY_BYTES_MAX: usize = 2 << 20;

/// Characters of a title, of a post's text, of a comment.
const TITLE_CHARS_MAX: usize = 200;
const CONTENT_CHARS_MAX: usize = 100_000;
const COMMENT_CHARS_MAX: usize = 10_000;
/// Characters of a username and of a password.
const USERNAME_CHARS: (usize, usize) = (3, 30);
const PASSWORD_CHARS: (usize, usize) = (8, 200);

/// The fields of a form that was sent.
#[derive(Debug, Default, Clone)]
pub(crate) struct Form(BTreeMap<String, String>);

/// A form, or the reason for which the body is none.
pub(crate) struct SentForm(pub(crate) Result<Form, Trouble>);

impl<S: Send + Sync> FromRequest<S> for SentForm {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        if let Some(Unread(status)) = request.extensions().get() {
            return Ok(Self(Err(unread(*status))));
        }
        let form = AxumForm::<BTreeMap<String, String>>::from_request(request, state).await;
        Ok(Self(match form {
            Ok(AxumForm(fields)) => Ok(Form(fields)),
            Err(FormRejection::InvalidFormContentType(_)) => Err(Trouble::BadForm(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "A form is sent as application/x-www-form-urlencoded.",
            )),
            Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err(unread(StatusCode::PAYLOAD_TOO_LARGE))
            }
            Err(_) => Err(Trouble::BadForm(
                StatusCode::BAD_REQUEST,
                "The fields of the form are not encoded as a browser encodes them.",
            )),
        }))
    }
}

/// Returns the trouble of a form that did not arrive.
fn unread(status: StatusCode) -> Trouble {
    let text = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "The form is larger than 2 MB. Shorten the text.",
        StatusCode::REQUEST_TIMEOUT => "The form did not arrive in time. Send it again.",
        StatusCode::TOO_MANY_REQUESTS => {
            "The site has no memory for the form now. Send it again in a moment."
        }
        _ => "The form did not arrive completely. Send it again.",
    };
    Trouble::BadForm(status, text)
}

/// A form that is shown again after a failure, with the typed text.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    /// The address to which the form is sent.
    pub(crate) action: String,
    /// The page to which the form belongs.
    pub(crate) back: String,
    /// The key under which the browser keeps the typed text.
    pub(crate) draft: String,
    pub(crate) fields: Vec<RetryField>,
}

/// A field of a form that is shown again.
#[derive(Debug, Clone)]
pub(crate) struct RetryField {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) value: String,
    /// `text`, `password`, `hidden`, or `area` for several lines.
    pub(crate) kind: &'static str,
}

impl Retry {
    /// Creates a form without fields.
    pub(crate) fn new(action: &str, back: &str, draft: &str) -> Self {
        Self {
            action: action.to_owned(),
            back: back.to_owned(),
            draft: draft.to_owned(),
            fields: Vec::new(),
        }
    }

    /// Adds a field with the text that was typed.
    pub(crate) fn field(
        mut self,
        form: &Form,
        name: &'static str,
        label: &'static str,
        kind: &'static str,
    ) -> Self {
        let value = match kind {
            "password" => String::new(),
            _ => form.text(name).to_owned(),
        };
        self.fields.push(RetryField {
            name,
            label,
            value,
            kind,
        });
        self
    }
}

impl Form {
    /// Returns the text of a field; empty if the field is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Returns the token of the form; a new one if the form has none of the right form.
    pub(crate) fn token(&self) -> String {
        let token = self.text("token");
        if secret::is_secret(token) {
            token.to_owned()
        } else {
            secret::random::<16>()
        }
    }

    /// Checks that the form was made by this site for this browser.
    ///
    /// # Errors
    /// [`Trouble::OtherSite`] if the browser says that another site sent the form,
    /// [`Trouble::OldForm`] if the form's secret is not the one of the browser.
    pub(crate) fn check_csrf(&self, visit: &Visit) -> Result<(), Trouble> {
        let header = |name: &str| {
            let value = visit.headers.get(name)?;
            Some(value.to_str().unwrap_or("?").to_owned())
        };
        if let Some(site) = header("sec-fetch-site")
            && site != "same-origin"
            && site != "none"
        {
            return Err(Trouble::OtherSite);
        }
        if let Some(origin) = header("origin") {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            let host = header(header::HOST.as_str());
            if authority.is_none() || authority.map(str::to_owned) != host {
                return Err(Trouble::OtherSite);
            }
        }
        if !secret::are_equal(self.text("csrf"), &visit.csrf()) {
            return Err(Trouble::OldForm);
        }
        Ok(())
    }

    /// Checks a form that writes: its origin, and its token.
    ///
    /// # Errors
    /// Those of [`Form::check_csrf`]; [`Trouble::OldForm`] for a token of another form.
    pub(crate) fn check_origin(&self, visit: &Visit) -> Result<(), Trouble> {
        self.check_csrf(visit)?;
        match secret::is_secret(self.text("token")) {
            true => Ok(()),
            false => Err(Trouble::OldForm),
        }
    }

    /// Returns the title without outer white space, or the mistake.
    pub(crate) fn title(&self) -> Result<String, String> {
        let title = self.text("title").trim();
        if !title.chars().any(is_visible) {
            return Err(format!(
                "Write a title. It may have up to {TITLE_CHARS_MAX} characters."
            ));
        }
        if title.chars().any(char::is_control) {
            return Err("The title has a control character. Remove it.".into());
        }
        limited(title, TITLE_CHARS_MAX, "The title")
    }

    /// Returns the text of a post, or the mistake.
    pub(crate) fn content(&self) -> Result<String, String> {
        self.long_text(CONTENT_CHARS_MAX, "Write a text.")
    }

    /// Returns the text of a post as typed, for a preview, or the mistake if it is too long.
    pub(crate) fn draft(&self) -> Result<String, String> {
        limited(self.text("content"), CONTENT_CHARS_MAX, "The text")
    }

    /// Returns the text of a comment, or the mistake.
    pub(crate) fn comment(&self) -> Result<String, String> {
        self.long_text(COMMENT_CHARS_MAX, "Write a comment.")
    }

    fn long_text(&self, chars_max: usize, if_empty: &str) -> Result<String, String> {
        // Browsers send line ends as CR LF.
        let text = self
            .text("content")
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let text = text.trim_end();
        if !text.chars().any(is_visible) {
            return Err(if_empty.to_owned());
        }
        let is_forbidden = |c: char| c.is_control() && c != '\n' && c != '\t';
        if text.chars().any(is_forbidden) {
            return Err("The text has a control character. Remove it.".into());
        }
        limited(text, chars_max, "The text")
    }

    /// Returns the username, or the mistake. Letters other than those of ASCII are refused: names
    /// that look alike must be the same name.
    pub(crate) fn username(&self) -> Result<String, String> {
        let name = self.text("username").trim();
        let (low, high) = USERNAME_CHARS;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !(low..=high).contains(&name.chars().count()) {
            return Err(format!("A name has {low} to {high} characters."));
        }
        if !name.chars().all(is_allowed) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(
                "A name has the letters a to z, digits, - _ and . and begins with a \
                        letter or digit."
                    .into(),
            );
        }
        Ok(name.to_owned())
    }

    /// Returns the password, or the mistake.
    pub(crate) fn password(&self) -> Result<String, String> {
        let password = self.text("password");
        let (low, high) = PASSWORD_CHARS;
        if !(low..=high).contains(&password.chars().count()) {
            return Err(format!("A password has {low} to {high} characters."));
        }
        Ok(password.to_owned())
    }
}

/// Returns true if a reader sees something of the character.
fn is_visible(c: char) -> bool {
    let is_invisible = c.is_whitespace()
        || c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    !is_invisible
}

/// Returns the text if it has at most `chars_max` characters, or the mistake.
fn limited(text: &str, chars_max: usize, what: &str) -> Result<String, String> {
    let length = text.chars().count();
    if length > chars_max {
        let most = crate::text::count(chars_max as u64);
        let length = crate::text::count(length as u64);
        return Err(format!(
            "{what} has {length} characters. It may have up to {most}."
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(name: &str, value: &str) -> Form {
        Form(BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn texts_have_limits() {
        assert!(form("title", "  ").title().is_err());
        assert!(form("title", "\u{200b}\u{3164} ").title().is_err());
        assert!(form("content", "\u{2060}\n\u{feff}").comment().is_err());
        assert!(form("content", "\u{200f}ש").comment().is_ok());
        assert!(form("title", "a\u{0}b").title().is_err());
        assert!(form("title", &"t".repeat(201)).title().is_err());
        assert_eq!(form("title", " x ").title(), Ok("x".into()));
        assert!(form("title", &"ä".repeat(200)).title().is_ok());

        assert!(form("content", "\r\n").content().is_err());
        assert!(form("content", "a\u{1b}[0m").content().is_err());
        assert_eq!(
            form("content", "a\r\nb\tc\r\n").content(),
            Ok("a\nb\tc".into())
        );
        assert!(form("content", &"c".repeat(100_001)).content().is_err());
        assert!(form("content", &"c".repeat(100_001)).draft().is_err());
        assert_eq!(form("content", " a\r\n").draft(), Ok(" a\r\n".into()));
        assert!(form("content", &"c".repeat(10_001)).comment().is_err());
        assert!(Form::default().comment().is_err());
    }

    #[test]
    fn names_and_passwords_have_limits() {
        for good in ["dora", "Dora.1-x_y", "abc", &"a".repeat(30)] {
            assert_eq!(form("username", good).username(), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "ab",
            "a b c",
            "..a",
            "<b>x",
            "a\u{202e}bc",
            "dóra",
            "\u{430}lice",
            "\u{3164}\u{3164}\u{3164}",
            &"a".repeat(31),
        ] {
            assert!(form("username", bad).username().is_err(), "{bad}");
        }
        assert!(form("password", "1234567").password().is_err());
        assert!(form("password", "12345678").password().is_ok());
        assert!(form("password", &"x".repeat(201)).password().is_err());
    }
}
