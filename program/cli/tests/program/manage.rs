//! A connection to the management API.

use super::{Answer, TIMEOUT};
use std::io::{BufReader, Write};
use std::net::TcpStream;

/// A connection that stays open and sends a key with every request.
pub(crate) struct Manager {
    stream: BufReader<TcpStream>,
    host: String,
    key: String,
}

impl Manager {
    /// Opens a connection.
    pub(crate) fn connect(address: &str, key: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the management API listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        Manager {
            stream: BufReader::new(stream),
            host: address.to_owned(),
            key: key.to_owned(),
        }
    }

    /// Sends another key from now on, or no key if it is empty.
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = key.to_owned();
        self
    }

    /// Sends another host name from now on.
    pub(crate) fn with_host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    /// Sends a request and returns the response.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n",
            self.host,
            body.len()
        );
        if !self.key.is_empty() {
            head.push_str(&format!("authorization: Bearer {}\r\n", self.key));
        }
        self.stream
            .get_mut()
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .expect("the request is sent");
        let answer = if method == "HEAD" {
            Answer::read_head(&mut self.stream)
        } else {
            Answer::read(&mut self.stream)
        };
        answer.expect("a response")
    }

    /// Sends a GET that must succeed and returns the response.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        let answer = self.call("GET", path, "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    }

    /// Returns the value of a metric without labels, which must be there.
    #[track_caller]
    pub(crate) fn metric(&mut self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        let value = line.and_then(|line| line.rsplit(' ').next());
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// Sends a request that must succeed and returns the response.
    #[track_caller]
    pub(crate) fn ok(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let answer = self.call(method, path, body);
        assert!(
            (200..300).contains(&answer.status),
            "{} {}",
            answer.status,
            answer.text()
        );
        answer
    }

    /// Sends a request that must be refused with `status` and returns the error message.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, path: &str, body: &str, status: u16) -> String {
        let answer = self.call(method, path, body);
        assert_eq!(answer.status, status, "{}", answer.text());
        let json = answer.json();
        assert!(
            json.get("code").is_some_and(|code| code.as_str().is_some()),
            "{}",
            answer.text()
        );
        super::text(&json, "message")
    }
}
