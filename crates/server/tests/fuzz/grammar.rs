//! Requests by the server's own tables: a path of its routes, a method, headers that it knows, and a body that fits
//! the path, or does not. What answers told (resource ids, etags, continuations, session tokens) comes back in later
//! requests.

use crate::program::Answer;
use crate::values::{self, Dice, hostile};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use orrery_gateway::{KnownRoute, known_headers, known_routes};
use orrery_model::Json;
use orrery_model::json::parse;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt;

/// The bytes of a request, and its method.
pub struct Sent {
    pub method: String,
    pub bytes: Vec<u8>,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = String::from_utf8_lossy(&self.bytes)
            .chars()
            .take(4_000)
            .collect();
        write!(f, "{text}")
    }
}

/// What answers told.
#[derive(Default)]
pub struct Known {
    rids: Vec<String>,
    etags: Vec<String>,
    continuations: Vec<String>,
    sessions: Vec<String>,
    tokens: Vec<String>,
}

impl Known {
    /// Keeps what later requests may use.
    pub fn learn(&mut self, answer: &Answer) {
        keep(&mut self.etags, answer.header("etag"));
        keep(&mut self.continuations, answer.header("x-ms-continuation"));
        keep(&mut self.sessions, answer.header("x-ms-session-token"));
        if let Some(body) = parse(&answer.body).ok().filter(|_| answer.status < 300) {
            keep(&mut self.rids, body.get("_rid").and_then(Json::as_str));
            keep(&mut self.tokens, body.get("_token").and_then(Json::as_str));
            let rows = ["Offers", "Databases", "DocumentCollections"]
                .iter()
                .find_map(|name| body.get(name)?.as_array());
            rows.into_iter()
                .flatten()
                .for_each(|row| keep(&mut self.rids, row.get("_rid").and_then(Json::as_str)));
        }
    }
}

/// The latest few.
fn keep(list: &mut Vec<String>, value: Option<&str>) {
    if let Some(value) = value {
        if list.len() == 16 {
            list.remove(0);
        }
        list.push(value.to_owned());
    }
}

pub struct Grammar {
    dice: Dice,
    routes: Vec<KnownRoute>,
    address: String,
    key: Vec<u8>,
}

impl Grammar {
    pub fn new(dice: Dice, address: &str, key: &str) -> Self {
        let key = STANDARD.decode(key).expect("base64");
        Grammar {
            dice,
            routes: known_routes().collect(),
            address: address.to_owned(),
            key,
        }
    }

    pub fn request(&mut self, known: &Known) -> Sent {
        let at = match self.dice.below(20) {
            0..=9 => self.dice.below(3),
            // What much else needs is made again now and then.
            10 => self.place(&["dbs", "*", "colls"]),
            11 if self.dice.one_in(4) => self.place(&["dbs"]),
            _ => self.dice.below(self.routes.len()),
        };
        let route = self.routes[at];
        let segments = self.segments(&route, known);
        let method = match self.dice.below(30) {
            0 => self.dice.text(&[
                "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW",
            ]),
            _ => self.dice.text(route.methods),
        };
        // Databases and containers go seldom, as all goes with them.
        let goes = method == "DELETE" && segments.len() <= 4 && !self.dice.one_in(40);
        let method = if goes { "GET".to_owned() } else { method };
        let mut headers = self.headers(&route, &method, known);
        let body = self.body(&route, &method, &headers);
        headers.extend(self.signed(&route, &method, &segments, known));
        let escape = |segment: &String| utf8_percent_encode(segment, NON_ALPHANUMERIC).to_string();
        let mut path = format!(
            "/{}",
            segments.iter().map(escape).collect::<Vec<_>>().join("/")
        );
        if self.dice.one_in(10) {
            path.push_str(self.dice.pick(&["/", "?x=1", "//", "?"]));
        }
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        headers
            .iter()
            .for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        Sent {
            method,
            bytes: [text.as_bytes(), &body].concat(),
        }
    }

    fn place(&self, pattern: &[&str]) -> usize {
        self.routes
            .iter()
            .position(|route| route.pattern == pattern)
            .expect("the path exists")
    }

    /// The path's segments with ids in the place of stars: mostly of what there may be.
    fn segments(&mut self, route: &KnownRoute, known: &Known) -> Vec<String> {
        let mut owner = "";
        let mut segments = Vec::new();
        for part in route.pattern {
            segments.push(match *part {
                "*" => match self.dice.below(60) {
                    0 => hostile(&mut self.dice),
                    1 => one_of(&mut self.dice, &known.rids),
                    _ => self.id(owner, known),
                },
                word => word.to_owned(),
            });
            owner = part;
        }
        segments
    }

    fn id(&mut self, owner: &str, known: &Known) -> String {
        let (letter, count) = match owner {
            "dbs" => ("d", 3),
            "colls" => ("c", 3),
            "docs" => ("i", 8),
            "users" => ("u", 3),
            "permissions" => ("r", 3),
            "offers" => return one_of(&mut self.dice, &known.rids),
            _ => ("s", 3),
        };
        // The first of each owner is asked most, so that there is much in it.
        let is_owner = matches!(owner, "dbs" | "colls" | "users");
        let number = if is_owner && !self.dice.one_in(10) {
            0
        } else {
            self.dice.below(count)
        };
        format!("{letter}{number}")
    }

    fn headers(
        &mut self,
        route: &KnownRoute,
        method: &str,
        known: &Known,
    ) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if route.pattern.contains(&"docs") || route.pattern.contains(&"sprocs") {
            let key = format!("[\"p{}\"]", values::first_or_below(&mut self.dice, 3));
            headers.push(("x-ms-documentdb-partitionkey".to_owned(), key));
        }
        if method == "POST" && route.is_feed() {
            match self.dice.below(6) {
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
                    if self.dice.one_in(2) {
                        headers.remove(0);
                    }
                }
                2 => headers.push(("x-ms-documentdb-is-upsert".to_owned(), "true".to_owned())),
                3 => headers.push(("x-ms-cosmos-is-batch-request".to_owned(), "True".to_owned())),
                _ => {}
            }
        }
        let further = if self.dice.one_in(2) {
            0
        } else {
            self.dice.below(4)
        };
        for _ in 0..further {
            let table = known_headers();
            let name = table[self.dice.below(table.len())].name;
            if matches!(name, "authorization" | "x-ms-date" | "date") {
                continue;
            }
            let value = self.header_value(name, known);
            headers.push((name.to_owned(), value));
        }
        headers
    }

    /// A value that may mean something to this header, or to none.
    fn header_value(&mut self, name: &str, known: &Known) -> String {
        let dice = &mut self.dice;
        let value = match (dice.below(6), name) {
            (0, _) => hostile(dice),
            (1, _) => dice.text(&["true", "False", "1", "0", "-1", "100", "2147483648"]),
            (_, "if-match") => one_of(dice, &known.etags),
            (_, "if-none-match") => {
                if dice.one_in(2) {
                    one_of(dice, &known.etags)
                } else {
                    dice.text(&["*", "\"3\"", "0"])
                }
            }
            (_, "x-ms-continuation") => one_of(dice, &known.continuations),
            (_, "x-ms-session-token") => one_of(dice, &known.sessions),
            (_, "a-im") => {
                dice.text(&["Incremental Feed", "Incremental feed", "Full-Fidelity Feed"])
            }
            (_, "if-modified-since") => dice.text(&[
                "Thu, 01 Jan 2026 00:00:00 GMT",
                "Thu, 01 Jan 1970 00:00:00 GMT",
            ]),
            (_, "x-ms-documentdb-partitionkeyrangeid") => {
                dice.text(&["0", "1", "7", "XP0mAJ3H-AA=,0"])
            }
            (_, "x-ms-documentdb-partitionkey") => {
                dice.text(&["[]", "[null]", "[{}]", "[\"p1\",2]", "[1.5]", "[[1]]"])
            }
            (_, "x-ms-start-epk" | "x-ms-end-epk") => {
                dice.text(&["", "00", "1FFF", "3F", "FF", "05C1"])
            }
            (_, "x-ms-consistency-level") => {
                dice.text(&["Eventual", "Session", "Strong", "BoundedStaleness"])
            }
            (_, "x-ms-documentdb-pre-trigger-include" | "x-ms-documentdb-post-trigger-include") => {
                format!("s{}", dice.below(3))
            }
            (_, "x-ms-offer-throughput") => dice.text(&["400", "1000", "10100", "399"]),
            (_, "x-ms-cosmos-offer-autopilot-settings") => {
                dice.text(&[r#"{"maxThroughput":4000}"#, r#"{"maxThroughput":-200}"#])
            }
            (_, "x-ms-version") => dice.text(&["2018-12-31", "2020-07-15", "2015-01-01"]),
            (_, "prefer") => "return=minimal".to_owned(),
            (_, "content-type") => dice.text(&[
                "application/json",
                "application/query+json",
                "application/sql",
                "text/html",
            ]),
            _ => dice.text(&["true", "True"]),
        };
        // What cannot stand in a header at all is for other tests.
        value
            .chars()
            .filter(|c| !c.is_control())
            .collect::<String>()
            .trim()
            .to_owned()
    }

    fn body(&mut self, route: &KnownRoute, method: &str, headers: &[(String, String)]) -> Vec<u8> {
        if !matches!(method, "POST" | "PUT" | "PATCH") && !self.dice.one_in(30) {
            return Vec::new();
        }
        let dice = &mut self.dice;
        let asks = |name: &str| headers.iter().any(|(n, _)| n == name);
        let last = route
            .pattern
            .iter()
            .rev()
            .find(|part| **part != "*")
            .copied()
            .unwrap_or_default();
        let body = match (dice.below(30), last) {
            (0, _) => values::json(dice, 4),
            (1, _) => format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000)),
            (2, _) => hostile(dice),
            _ if asks("x-ms-documentdb-isquery") => values::query(dice),
            _ if asks("x-ms-cosmos-is-batch-request") => values::batch(dice),
            _ if method == "PATCH" => values::patch(dice),
            (_, "dbs") => values::database(dice),
            (_, "colls") => values::container(dice),
            (_, "docs") => values::item(dice),
            (_, "sprocs") if !route.is_feed() && method == "POST" => {
                dice.text(&["[]", "[1]", "[{\"id\":\"i2\",\"pk\":\"p1\"}]", "{}"])
            }
            (_, "sprocs" | "triggers" | "udfs") => values::script(dice),
            (_, "offers") => values::offer(dice),
            (_, "users") => values::user(dice),
            (_, "permissions") => values::permission(dice),
            _ => values::json(dice, 3),
        };
        match dice.below(12) {
            0 => values::damaged(dice, body.as_bytes()),
            1 => [&[[0x80u8, 0x81, 0xFF][dice.below(3)]], body.as_bytes()].concat(),
            _ => body.into_bytes(),
        }
    }

    /// The signature over what the route says is signed; now and then a wrong one, or a token.
    fn signed(
        &mut self,
        route: &KnownRoute,
        method: &str,
        segments: &[String],
        known: &Known,
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
        match self.dice.below(60) {
            0 => token = hostile(&mut self.dice),
            1 => token = token.replace("master", "resource"),
            2 => token = format!("type=aad&ver=1.0&sig={}", hostile(&mut self.dice)),
            3 | 4 if !known.tokens.is_empty() => token = one_of(&mut self.dice, &known.tokens),
            _ => {}
        }
        let token = utf8_percent_encode(&token, NON_ALPHANUMERIC).to_string();
        vec![
            ("authorization".to_owned(), token),
            ("x-ms-date".to_owned(), date),
        ]
    }
}

fn one_of(dice: &mut Dice, list: &[String]) -> String {
    if list.is_empty() {
        hostile(dice)
    } else {
        list[dice.below(list.len())].clone()
    }
}
