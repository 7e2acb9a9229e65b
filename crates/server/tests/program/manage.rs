//! A connection to the management API.

use super::{Answer, PATIENCE};
use std::io::{BufReader, Write};
use std::net::TcpStream;

/// One connection that is kept open, and bears a key.
pub struct Manager {
    stream: BufReader<TcpStream>,
    host: String,
    key: String,
}

impl Manager {
    /// Connects.
    pub fn connect(address: &str, key: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the management API listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Manager {
            stream: BufReader::new(stream),
            host: address.to_owned(),
            key: key.to_owned(),
        }
    }

    /// The same connection with another key; none if it is empty.
    pub fn bearing(mut self, key: &str) -> Self {
        self.key = key.to_owned();
        self
    }

    /// The same connection under another name of the host.
    pub fn naming_host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    /// Sends a request and reads the answer.
    pub fn call(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n",
            self.host,
            body.len()
        );
        if !self.key.is_empty() {
            text.push_str(&format!("authorization: Bearer {}\r\n", self.key));
        }
        let stream = self.stream.get_mut();
        stream
            .write_all(format!("{text}\r\n{body}").as_bytes())
            .expect("it is sent");
        let answer = if method == "HEAD" {
            Answer::read_head(&mut self.stream)
        } else {
            Answer::read(&mut self.stream)
        };
        answer.expect("an answer")
    }

    /// What a GET gives.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Answer {
        let answer = self.call("GET", path, "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    }

    /// A request that must succeed.
    #[track_caller]
    pub fn done(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let answer = self.call(method, path, body);
        assert!(
            (200..300).contains(&answer.status),
            "{} {}",
            answer.status,
            answer.text()
        );
        answer
    }

    /// The message with which a request is refused.
    #[track_caller]
    pub fn refused(&mut self, method: &str, path: &str, body: &str, status: u16) -> String {
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
