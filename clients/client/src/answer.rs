//! The answer to one request, of any status.

use crate::error::{ClientError, Refusal};
use bytes::Bytes;
use http::HeaderMap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// An answer of the server.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Method and path of the request, for messages.
    pub operation: String,
    /// HTTP status.
    pub status: u16,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// Body of the response.
    pub body: Bytes,
    /// Attempts before this answer that the server throttled (429) or asked to repeat (449).
    pub throttled: usize,
    /// Time from the first attempt to the complete answer.
    pub elapsed: Duration,
}

impl Answer {
    /// Returns the text of a header, if it is present and ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the request units of the request; 0 if the server states none.
    pub fn charge(&self) -> f64 {
        let text = self.header("x-ms-request-charge").unwrap_or_default();
        match text.parse::<f64>() {
            Ok(charge) if charge.is_finite() => charge,
            _ => 0.0,
        }
    }

    /// Returns `x-ms-substatus`; 0 if the server sent none.
    pub fn sub_status(&self) -> u32 {
        let text = self.header("x-ms-substatus").unwrap_or_default();
        text.parse().unwrap_or_default()
    }

    /// Returns `x-ms-activity-id`, which names the request in the server's log.
    pub fn activity_id(&self) -> Option<&str> {
        self.header("x-ms-activity-id")
    }

    /// Returns the position of the next page; `None` on the last page.
    pub fn continuation(&self) -> Option<&str> {
        self.header("x-ms-continuation").filter(|t| !t.is_empty())
    }

    /// Returns the session token.
    pub fn session_token(&self) -> Option<&str> {
        self.header("x-ms-session-token")
    }

    /// Returns the number of the last commit of the physical partition that answered.
    pub fn lsn(&self) -> Option<u64> {
        // A session token is `version#lsn`, with the id of the range in front of it.
        let lsn = self.session_token()?.rsplit(['#', ':']).next()?;
        lsn.parse().ok()
    }

    /// Returns the time after which a throttled request may be repeated.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.header("x-ms-retry-after-ms")?;
        let milliseconds: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] if the body has another form.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|e| ClientError::unexpected(&self.operation, format!("not the JSON: {e}")))
    }

    /// Returns the answer if its status is below 400.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the server's message.
    pub fn into_success(self) -> Result<Self, ClientError> {
        if self.status < 400 {
            return Ok(self);
        }
        let (code, message) = self.code_and_message();
        Err(ClientError::Refused(Box::new(Refusal {
            sub_status: self.sub_status(),
            code,
            message,
            activity_id: self.activity_id().unwrap_or_default().to_owned(),
            charge: self.charge(),
            retry_after: self.retry_after(),
            status: self.status,
            operation: self.operation,
        })))
    }

    /// Returns code and message of an error's body.
    fn code_and_message(&self) -> (String, String) {
        let Ok(body) = serde_json::from_slice::<Value>(&self.body) else {
            let text = String::from_utf8_lossy(&self.body);
            return (String::new(), text.trim().to_owned());
        };
        let code = body["code"].as_str().unwrap_or_default().to_owned();
        let message = body["message"].as_str().unwrap_or_default();
        // The service ends a message with the activity id, which has a field of its own here.
        let message = match message.find("ActivityId:") {
            Some(end) => message[..end].trim_end(),
            None => message,
        };
        (code, message.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        Answer {
            operation: "GET /dbs".into(),
            status,
            headers: map,
            body: body.to_owned().into(),
            throttled: 0,
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn a_refusal_has_the_servers_words_and_numbers() {
        let body = r#"{"code":"TooManyRequests","message":"Slow down.\r\nActivityId: 1-2, x"}"#;
        let headers = [
            ("x-ms-substatus", "3200"),
            ("x-ms-retry-after-ms", "12.5"),
            ("x-ms-request-charge", "0.38"),
        ];
        let refused = answer(429, &headers, body).into_success().unwrap_err();
        let refusal = refused.refusal().unwrap();
        assert_eq!((refusal.status, refusal.sub_status), (429, 3200));
        assert_eq!(refusal.code, "TooManyRequests");
        assert_eq!(refusal.message, "Slow down.");
        assert_eq!(refusal.retry_after, Some(Duration::from_micros(12_500)));
        assert_eq!(refusal.charge, 0.38);
    }

    #[test]
    fn an_answer_that_is_no_json_is_told_as_text() {
        let refused = answer(502, &[], "bad gateway\n").into_success();
        assert_eq!(
            refused.unwrap_err().refusal().unwrap().message,
            "bad gateway"
        );
        assert!(answer(200, &[], "<html>").json::<Value>().is_err());
        assert_eq!(
            answer(200, &[("x-ms-request-charge", "NaN")], "").charge(),
            0.0
        );
    }
}
