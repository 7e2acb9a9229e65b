//! Random requests from the server's own tables: a path of its routes, a method, known headers, and
//! a body that may or may not fit the path. Values from responses (resource ids, etags,
//! continuations, session tokens) are used in later requests.

use super::values::{self, RandomSource, hostile};
use crate::program::Answer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use orrery_gateway::{KnownRoute, known_headers, known_routes};
use orrery_model::Json;
use orrery_model::json::parse;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt;

/// A request: its method and all its bytes.
pub(crate) struct RawRequest {
    pub method: String,
    pub bytes: Vec<u8>,
}

impl fmt::Display for RawRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = String::from_utf8_lossy(&self.bytes)
            .chars()
            .take(4_000)
            .collect();
        write!(f, "{text}")
    }
}

/// Values seen in responses.
#[derive(Default)]
pub(crate) struct SeenValues {
    rids: Vec<String>,
    etags: Vec<String>,
    continuations: Vec<String>,
    sessions: Vec<String>,
    tokens: Vec<String>,
}

impl SeenValues {
    /// Remembers the values of a response that later requests may use.
    pub(crate) fn collect_from(&mut self, answer: &Answer) {
        remember(&mut self.etags, answer.header("etag"));
        remember(&mut self.continuations, answer.header("x-ms-continuation"));
        remember(&mut self.sessions, answer.header("x-ms-session-token"));
        if let Some(body) = parse(&answer.body).ok().filter(|_| answer.status < 300) {
            remember(&mut self.rids, body.get("_rid").and_then(Json::as_str));
            remember(&mut self.tokens, body.get("_token").and_then(Json::as_str));
            let rows = ["Offers", "Databases", "DocumentCollections"]
                .iter()
                .find_map(|name| body.get(name)?.as_array());
            rows.into_iter()
                .flatten()
                .for_each(|row| remember(&mut self.rids, row.get("_rid").and_then(Json::as_str)));
        }
    }
}

/// Appends a value to a list that keeps the latest 16.
fn remember(list: &mut Vec<String>, value: Option<&str>) {
    if let Some(value) = value {
        if list.len() == 16 {
            list.remove(0);
        }
        list.push(value.to_owned());
    }
}

pub(crate) struct Grammar {
    random: RandomSource,
    routes: Vec<KnownRoute>,
    address: String,
    key: Vec<u8>,
}

impl Grammar {
    pub(crate) fn new(random: RandomSource, address: &str, key: &str) -> Self {
        let key = STANDARD.decode(key).expect("base64");
        Grammar {
            random,
            routes: known_routes().collect(),
            address: address.to_owned(),
            key,
        }
    }

    pub(crate) fn request(&mut self, seen: &SeenValues) -> RawRequest {
        let at = match self.random.below(20) {
            0..=9 => self.random.below(3),
            // Containers and databases are created again from time to time, because most other
            // requests need them.
            10 => self.route_index(&["dbs", "*", "colls"]),
            11 if self.random.one_in(4) => self.route_index(&["dbs"]),
            _ => self.random.below(self.routes.len()),
        };
        let route = self.routes[at].clone();
        let segments = self.segments(&route, seen);
        let method = match self.random.below(30) {
            0 => self.random.text(&[
                "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW",
            ]),
            _ => self.random.text(&route.methods),
        };
        // Databases and containers are deleted rarely, because everything in them is deleted with
        // them.
        let is_too_destructive =
            method == "DELETE" && segments.len() <= 4 && !self.random.one_in(40);
        let method = if is_too_destructive {
            "GET".to_owned()
        } else {
            method
        };
        let mut headers = self.headers(&route, &method, seen);
        let body = self.body(&route, &method, &headers);
        headers.extend(self.signed(&route, &method, &segments, seen));
        let escape = |segment: &String| utf8_percent_encode(segment, NON_ALPHANUMERIC).to_string();
        let mut path = format!(
            "/{}",
            segments.iter().map(escape).collect::<Vec<_>>().join("/")
        );
        if self.random.one_in(10) {
            path.push_str(self.random.pick(&["/", "?x=1", "//", "?"]));
        }
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        headers
            .iter()
            .for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        RawRequest {
            method,
            bytes: [text.as_bytes(), &body].concat(),
        }
    }

    fn route_index(&self, pattern: &[&str]) -> usize {
        self.routes
            .iter()
            .position(|route| route.pattern == pattern)
            .expect("the path exists")
    }

    /// Returns the segments of the path; ids replace the stars, mostly ids that may exist.
    fn segments(&mut self, route: &KnownRoute, seen: &SeenValues) -> Vec<String> {
        let mut owner = "";
        let mut segments = Vec::new();
        for part in route.pattern {
            segments.push(match *part {
                "*" => match self.random.below(60) {
                    0 => hostile(&mut self.random),
                    1 => one_of(&mut self.random, &seen.rids),
                    _ => self.id(owner, seen),
                },
                word => word.to_owned(),
            });
            owner = part;
        }
        segments
    }

    fn id(&mut self, owner: &str, seen: &SeenValues) -> String {
        let (letter, count) = match owner {
            "dbs" => ("d", 3),
            "colls" => ("c", 3),
            "docs" => ("i", 8),
            "users" => ("u", 3),
            "permissions" => ("r", 3),
            "offers" => return one_of(&mut self.random, &seen.rids),
            _ => ("s", 3),
        };
        // The first database, container and user are used most, so that they contain much.
        let is_owner = matches!(owner, "dbs" | "colls" | "users");
        let number = if is_owner && !self.random.one_in(10) {
            0
        } else {
            self.random.below(count)
        };
        format!("{letter}{number}")
    }

    fn headers(
        &mut self,
        route: &KnownRoute,
        method: &str,
        seen: &SeenValues,
    ) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if route.pattern.contains(&"docs") || route.pattern.contains(&"sprocs") {
            let key = format!("[\"p{}\"]", values::first_or_below(&mut self.random, 3));
            headers.push(("x-ms-documentdb-partitionkey".to_owned(), key));
        }
        if method == "POST" && route.is_feed() {
            match self.random.below(6) {
                0 | 1 => {
                    headers.push(("x-ms-documentdb-isquery".to_owned(), "True".to_owned()));
                    headers.push((
                        "content-type".to_owned(),
                        "application/query+json".to_owned(),
                    ));
                    headers.push((
                        "x-ms-documentdb-query-enablecrosspartition".to_owned(),
                        "true".to_owned(),
                    ));
                    if self.random.one_in(2) {
                        headers.remove(0);
                    }
                }
                2 => headers.push(("x-ms-documentdb-is-upsert".to_owned(), "true".to_owned())),
                3 => headers.push(("x-ms-cosmos-is-batch-request".to_owned(), "True".to_owned())),
                _ => {}
            }
        }
        let extra_headers = if self.random.one_in(2) {
            0
        } else {
            self.random.below(4)
        };
        for _ in 0..extra_headers {
            let table = known_headers();
            let name = table[self.random.below(table.len())].name;
            if matches!(name, "authorization" | "x-ms-date" | "date") {
                continue;
            }
            let value = self.header_value(name, seen);
            headers.push((name.to_owned(), value));
        }
        headers
    }

    /// Returns a value for a header that may or may not be valid.
    fn header_value(&mut self, name: &str, seen: &SeenValues) -> String {
        let random = &mut self.random;
        let value = match (random.below(6), name) {
            (0, _) => hostile(random),
            (1, _) => random.text(&["true", "False", "1", "0", "-1", "100", "2147483648"]),
            (_, "if-match") => one_of(random, &seen.etags),
            (_, "if-none-match") => {
                if random.one_in(2) {
                    one_of(random, &seen.etags)
                } else {
                    random.text(&["*", "\"3\"", "0"])
                }
            }
            (_, "x-ms-continuation") => one_of(random, &seen.continuations),
            (_, "x-ms-session-token") => one_of(random, &seen.sessions),
            (_, "a-im") => {
                random.text(&["Incremental Feed", "Incremental feed", "Full-Fidelity Feed"])
            }
            (_, "if-modified-since") => random.text(&[
                "Thu, 01 Jan 2026 00:00:00 GMT",
                "Thu, 01 Jan 1970 00:00:00 GMT",
            ]),
            (_, "x-ms-documentdb-partitionkeyrangeid") => {
                random.text(&["0", "1", "7", "XP0mAJ3H-AA=,0"])
            }
            (_, "x-ms-documentdb-partitionkey") => {
                random.text(&["[]", "[null]", "[{}]", "[\"p1\",2]", "[1.5]", "[[1]]"])
            }
            (_, "x-ms-start-epk" | "x-ms-end-epk") => {
                random.text(&["", "00", "1FFF", "3F", "FF", "05C1"])
            }
            (_, "x-ms-consistency-level") => {
                random.text(&["Eventual", "Session", "Strong", "BoundedStaleness"])
            }
            (_, "x-ms-documentdb-pre-trigger-include" | "x-ms-documentdb-post-trigger-include") => {
                format!("s{}", random.below(3))
            }
            (_, "x-ms-offer-throughput") => random.text(&["400", "1000", "10100", "399"]),
            (_, "x-ms-cosmos-offer-autopilot-settings") => {
                random.text(&[r#"{"maxThroughput":4000}"#, r#"{"maxThroughput":-200}"#])
            }
            (_, "x-ms-version") => random.text(&["2018-12-31", "2020-07-15", "2015-01-01"]),
            (_, "prefer") => "return=minimal".to_owned(),
            (_, "content-type") => random.text(&[
                "application/json",
                "application/query+json",
                "application/sql",
                "text/html",
            ]),
            _ => random.text(&["true", "True"]),
        };
        // Characters that no header can contain are left to other tests.
        value
            .chars()
            .filter(|c| !c.is_control())
            .collect::<String>()
            .trim()
            .to_owned()
    }

    fn body(&mut self, route: &KnownRoute, method: &str, headers: &[(String, String)]) -> Vec<u8> {
        if !matches!(method, "POST" | "PUT" | "PATCH") && !self.random.one_in(30) {
            return Vec::new();
        }
        let random = &mut self.random;
        let asks = |name: &str| headers.iter().any(|(n, _)| n == name);
        let last = route
            .pattern
            .iter()
            .rev()
            .find(|part| **part != "*")
            .copied()
            .unwrap_or_default();
        let body = match (random.below(30), last) {
            (0, _) => values::json(random, 4),
            (1, _) => format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000)),
            (2, _) => hostile(random),
            _ if asks("x-ms-documentdb-isquery") => values::query(random),
            _ if asks("x-ms-cosmos-is-batch-request") => values::batch(random),
            _ if method == "PATCH" => values::patch(random),
            (_, "dbs") => values::database(random),
            (_, "colls") => values::container(random),
            (_, "docs") => values::item(random),
            (_, "sprocs") if !route.is_feed() && method == "POST" => {
                random.text(&["[]", "[1]", "[{\"id\":\"i2\",\"pk\":\"p1\"}]", "{}"])
            }
            (_, "sprocs" | "triggers" | "udfs") => values::script(random),
            (_, "offers") => values::offer(random),
            (_, "users") => values::user(random),
            (_, "permissions") => values::permission(random),
            _ => values::json(random, 3),
        };
        match random.below(12) {
            0 => values::damaged(random, body.as_bytes()),
            1 => [&[[0x80u8, 0x81, 0xFF][random.below(3)]], body.as_bytes()].concat(),
            _ => body.into_bytes(),
        }
    }

    /// Returns the signature headers; sometimes with a wrong signature or with a token.
    fn signed(
        &mut self,
        route: &KnownRoute,
        method: &str,
        segments: &[String],
        seen: &SeenValues,
    ) -> Vec<(String, String)> {
        let now = jiff::Timestamp::now();
        let date = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&now)
            .expect("a date");
        let link = match route.pattern {
            ["offers", "*"] => segments[1].to_lowercase(),
            _ => segments[..route.link_segments.min(segments.len())].join("/"),
        };
        let text = format!(
            "{}\n{}\n{link}\n{}\n\n",
            method.to_lowercase(),
            route.signed_as,
            date.to_lowercase()
        );
        let mac = Hmac::<sha2::Sha256>::new_from_slice(&self.key)
            .expect("a key")
            .chain_update(text)
            .finalize();
        let mut token = format!(
            "type=master&ver=1.0&sig={}",
            STANDARD.encode(mac.into_bytes())
        );
        match self.random.below(60) {
            0 => token = hostile(&mut self.random),
            1 => token = token.replace("master", "resource"),
            2 => token = format!("type=aad&ver=1.0&sig={}", hostile(&mut self.random)),
            3 | 4 if !seen.tokens.is_empty() => token = one_of(&mut self.random, &seen.tokens),
            _ => {}
        }
        let token = utf8_percent_encode(&token, NON_ALPHANUMERIC).to_string();
        vec![
            ("authorization".to_owned(), token),
            ("x-ms-date".to_owned(), date),
        ]
    }
}

fn one_of(random: &mut RandomSource, list: &[String]) -> String {
    if list.is_empty() {
        hostile(random)
    } else {
        list[random.below(list.len())].clone()
    }
}
