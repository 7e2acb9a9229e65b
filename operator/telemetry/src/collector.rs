//! One signal's way to the collector: a request of OTLP over HTTP, the meaning of its answer, and
//! the few lines of the log about it.

use crate::settings::Target;
use crate::wire::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use orrery_client::pool::Pool;
use orrery_gateway::{Field, Log, LogLevel};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

const PROTOBUF: &str = "application/x-protobuf";
const AGENT: &str = concat!("orrery/", env!("CARGO_PKG_VERSION"));
/// Characters of a collector's own words in a line of the log.
const CAUSE_CHARS: usize = 300;

/// The outcome of one export.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The collector took the batch, except for so many spans or data points.
    Taken { rejected: u64 },
    /// The collector could not be reached, or asks to try again, perhaps after a time.
    Later {
        cause: String,
        after: Option<Duration>,
    },
    /// The collector refuses the batch.
    Refused { cause: String },
}

/// The collector of one signal.
pub(crate) struct Collector {
    /// `spans` or `metrics`, for messages.
    signal: &'static str,
    target: Target,
    pool: Pool,
    reports: Reports,
}

/// Lines for the log, each at a change only.
pub(crate) struct Reports {
    log: Arc<Log>,
    now_ns: fn() -> u64,
    is_failing: bool,
}

impl Collector {
    /// Creates the way to a collector. No connection is opened.
    ///
    /// # Errors
    /// A description, if the certificates for HTTPS cannot be read.
    pub(crate) fn new(
        signal: &'static str,
        target: Target,
        log: Arc<Log>,
        now_ns: fn() -> u64,
    ) -> Result<Self, String> {
        let pool = Pool::with_trust(&target.uri.to_string(), 1, &target.trust)
            .map_err(|cause| format!("the OpenTelemetry collector for {signal}: {cause}"))?;
        let reports = Reports {
            log,
            now_ns,
            is_failing: false,
        };
        Ok(Collector {
            signal,
            target,
            pool,
            reports,
        })
    }

    /// Sends a batch once.
    pub(crate) async fn send(&self, batch: &impl Message) -> Outcome {
        let later = |cause: String| Outcome::Later { cause, after: None };
        let path = self.target.uri.path_and_query();
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path.map_or("/", |path| path.as_str()))
            .header(HOST, self.pool.authority())
            .header(CONTENT_TYPE, PROTOBUF)
            .header(USER_AGENT, AGENT);
        for (name, value) in &self.target.headers {
            request = request.header(name, value);
        }
        let request = match request.body(Full::new(Bytes::from(batch.encode_to_vec()))) {
            Ok(request) => request,
            Err(error) => return later(error.to_string()),
        };
        let exchange = tokio::time::timeout(self.target.timeout, self.pool.exchange(request));
        match exchange.await {
            Ok(Ok((head, body))) => {
                let after = head.headers.get(RETRY_AFTER);
                let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
                judge(head.status, after.map(Duration::from_secs), &body)
            }
            Ok(Err(error)) => later(error.cause),
            Err(_) => later(format!(
                "no answer within {} ms",
                self.target.timeout.as_millis()
            )),
        }
    }

    /// Tells a failure, unless the one before was told and nothing has succeeded since.
    pub(crate) fn tell_failure(&mut self, cause: &str) {
        if self.reports.is_failing {
            return;
        }
        self.reports.is_failing = true;
        let message = format!(
            "the OpenTelemetry collector does not take {}; the log tells when it does again",
            self.signal
        );
        self.write(LogLevel::Warn, &message, &[("cause", Field::Text(cause))]);
    }

    /// Tells a success after a failure, with the number of spans that were lost meanwhile.
    pub(crate) fn tell_success(&mut self, lost: Option<u64>) {
        if !self.reports.is_failing {
            return;
        }
        self.reports.is_failing = false;
        let message = format!("the OpenTelemetry collector takes {} again", self.signal);
        let lost = lost.map(|lost| ("lostSpans", Field::Number(lost as f64)));
        self.write(LogLevel::Info, &message, lost.as_slice());
    }

    /// Writes a line with the address of the collector, which has no secret.
    pub(crate) fn write(&self, level: LogLevel, message: &str, fields: &[(&str, Field<'_>)]) {
        let address = self.target.uri.to_string();
        let mut all = vec![("collector", Field::Text(&address))];
        all.extend_from_slice(fields);
        let now_ms = (self.reports.now_ns)() / 1_000_000;
        self.reports.log.write(now_ms, level, message, &all);
    }
}

/// Returns the meaning of an answer. The statuses to try again are those of the specification.
fn judge(status: StatusCode, after: Option<Duration>, body: &[u8]) -> Outcome {
    if status.is_success() {
        // A body that is no message is that of a collector which says nothing.
        let response = Response::decode(body).unwrap_or_default();
        let rejected = response
            .partial_success
            .map_or(0, |partial| partial.rejected);
        return Outcome::Taken {
            rejected: u64::try_from(rejected).unwrap_or(0),
        };
    }
    let words: String = String::from_utf8_lossy(body)
        .chars()
        .filter(|c| !c.is_control())
        .take(CAUSE_CHARS)
        .collect();
    let cause = format!("HTTP {}: {}", status.as_u16(), words.trim());
    match status.as_u16() {
        429 | 502 | 503 | 504 => Outcome::Later { cause, after },
        _ => Outcome::Refused { cause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PartialSuccess;

    #[test]
    fn an_answer_means_what_the_specification_says() {
        let partial = Response {
            partial_success: Some(PartialSuccess {
                rejected: 3,
                error_message: "too old".to_owned(),
            }),
        };
        let second = Some(Duration::from_secs(1));
        let of = |status: u16, body: &[u8]| {
            judge(
                StatusCode::from_u16(status).expect("a status"),
                second,
                body,
            )
        };
        assert_eq!(of(200, b""), Outcome::Taken { rejected: 0 });
        assert_eq!(of(200, b"{}"), Outcome::Taken { rejected: 0 });
        assert_eq!(
            of(200, &partial.encode_to_vec()),
            Outcome::Taken { rejected: 3 }
        );
        for status in [429, 502, 503, 504] {
            let Outcome::Later { after, .. } = of(status, b"busy") else {
                panic!("{status}");
            };
            assert_eq!(after, second);
        }
        let cause = "HTTP 401: no key".to_owned();
        assert_eq!(of(401, b"no\n key"), Outcome::Refused { cause });
    }
}
