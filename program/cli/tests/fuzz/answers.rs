//! A connection that is reopened after errors, and the checks of responses.

use super::grammar::RawRequest;
use crate::program::{Answer, Server};
use orrery_model::json::parse;
use orrery_model::{Json, Kind};
use std::io::{self, BufReader, Write};
use std::net::TcpStream;

/// A connection that is reopened if the server closes it.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(server: &Server) -> Self {
        Connection(BufReader::new(server.stream()))
    }

    /// Sends a request and returns the response; if the connection was closed meanwhile, sends it
    /// once more on a new one.
    pub(crate) fn send(&mut self, server: &Server, request: &RawRequest) -> Answer {
        self.try_send(request).unwrap_or_else(|_| {
            *self = Connection::open(server);
            self.try_send(request)
                .unwrap_or_else(|error| panic!("no answer ({error}) to\n{request}"))
        })
    }

    fn try_send(&mut self, request: &RawRequest) -> io::Result<Answer> {
        // A server that refuses a request early may stop reading: its response counts, not the
        // write error.
        let written = self.0.get_mut().write_all(&request.bytes);
        let answer = match request.method.as_str() {
            "HEAD" => Answer::read_head(&mut self.0),
            _ => Answer::read(&mut self.0),
        };
        answer.or_else(|broken| written.and(Err(broken)))
    }
}

/// Returns the defect of a response, if there is one.
pub(crate) fn defect(request: &RawRequest, answer: &Answer) -> Option<String> {
    let has_body = request.method != "HEAD" && !matches!(answer.status, 204 | 304);
    let json = || parse(&answer.body).ok();
    if answer.status >= 400 {
        return wrong_status(answer)
            .or_else(|| has_body.then(|| wrong_error(json()))?)
            .or_else(|| wrong_headers(answer));
    }
    if !matches!(answer.status, 200 | 201 | 204 | 207 | 304) {
        return Some(format!(
            "the status {} is none of the service",
            answer.status
        ));
    }
    if has_body && !answer.body.is_empty() && json().is_none() && !is_deep(&answer.body) {
        return Some("the body is no JSON".into());
    }
    wrong_headers(answer)
}

/// Returns true if a body may be nested too deeply for the parser: rows may contain items of the
/// maximum depth.
fn is_deep(body: &[u8]) -> bool {
    body.iter().filter(|b| matches!(b, b'[' | b'{')).count() > 100
}

fn wrong_status(answer: &Answer) -> Option<String> {
    let sub_status = match answer.header("x-ms-substatus").map(str::parse::<u32>) {
        None => 0,
        Some(Ok(number)) => number,
        Some(Err(_)) => return Some("the sub-status is no number".into()),
    };
    let declared = |kind: &Kind| (kind.status(), kind.sub_status()) == (answer.status, sub_status);
    // A script may set any number as the sub-status of its failure.
    let is_from_script = answer.status == 400 && sub_status != 0;
    let is_internal = answer.status == Kind::Internal.status();
    (is_internal || !is_from_script && !Kind::ALL.iter().any(declared)).then(|| {
        format!(
            "{}/{sub_status} is not in the table of errors, or our own fault",
            answer.status
        )
    })
}

fn wrong_error(body: Option<Json>) -> Option<String> {
    let Some(body) = body else {
        return Some("the error's body is no JSON".into());
    };
    let text = |name: &str| body.get(name).and_then(Json::as_str);
    let (Some(code), Some(message)) = (text("code"), text("message")) else {
        return Some("the error's body has no code or message".into());
    };
    let leaks = [
        "panicked",
        "src/",
        ".rs:",
        "unwrap",
        "RUST_BACKTRACE",
        "/root/",
        "poisoned",
    ];
    if let Some(leak) = leaks.iter().find(|leak| message.contains(**leak)) {
        return Some(format!("the message shows '{leak}' of our code"));
    }
    (code.is_empty() || message.is_empty()).then(|| "the error has an empty code or message".into())
}

fn wrong_headers(answer: &Answer) -> Option<String> {
    let charge = answer
        .header("x-ms-request-charge")
        .and_then(|text| text.parse::<f64>().ok());
    if !charge.is_some_and(|charge| charge.is_finite() && charge >= 0.0) {
        return Some("there is no charge".into());
    }
    if answer.header("x-ms-activity-id").is_none_or(str::is_empty) {
        return Some("there is no activity id".into());
    }
    let empty = answer
        .head_lines()
        .filter(|line| !line.is_empty())
        .find(|line| line.trim_end().ends_with(':'));
    if let Some(line) = empty {
        return Some(format!("the header '{line}' is empty"));
    }
    let session = answer.header("x-ms-session-token");
    session
        .filter(|token| token.matches(':').count() != 1)
        .map(|token| format!("the session token is '{token}'"))
}
