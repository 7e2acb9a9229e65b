//! Scripts on a server: sends the requests of a script and returns the answers as lines.
//!
//! Promises: a fact has a database of its own. Facts that need the same options share one server;
//! a fact with `server: own` has a server that no other fact uses. The last user of a server stops
//! it.

use super::names::Names;
use super::script::{Each, Exchange, Fact, Script, Settings, Shown, Signature, Step};
use super::shown;
use super::stable::Stable;
use crate::program::{Answer, Client, Request, Server, start};
use orrery_model::json::parse;
use orrery_model::{Json, Object};
use orrery_test_wait::wait_within;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::Duration;

/// Time limit of `until`; a script fails rather than hangs.
const UNTIL_TIMEOUT: Duration = Duration::from_secs(60);

/// Begin of the names of the databases of facts.
const DATABASE: &str = "fact-";
/// Databases that were named.
static DATABASES: AtomicUsize = AtomicUsize::new(0);
/// Feeds with the resources of all facts of a server.
const ACCOUNT_FEEDS: &[&str] = &["/dbs", "/offers"];

/// The shared servers by their options.
static SERVERS: LazyLock<Mutex<HashMap<Vec<String>, Weak<Server>>>> = LazyLock::new(Mutex::default);

/// Runs a script and returns it with the answers that the server gives.
pub(super) fn replay(file: &str, script: &Script) -> Result<String, String> {
    let mut answers = HashMap::new();
    for fact in &script.facts {
        let mut run = Run::begin(file, fact)?;
        for step in script.preparation.iter().chain(&fact.steps) {
            if let Some((line, lines)) = run.step(step)? {
                answers.insert(line, lines);
            }
        }
    }
    Ok(with_answers(script, &answers))
}

/// Returns the text of a script with other answers, which are by the lines of their requests.
fn with_answers(script: &Script, answers: &HashMap<usize, Vec<String>>) -> String {
    let steps = script.facts.iter().flat_map(|fact| &fact.steps);
    let mut out: Vec<&str> = Vec::new();
    let mut copied = 0;
    for step in steps {
        let Step::Exchange(exchange) = step else {
            continue;
        };
        let Some(lines) = answers.get(&exchange.line) else {
            continue;
        };
        let before = &script.lines[copied..exchange.answer.start];
        out.extend(before.iter().map(String::as_str));
        out.push("---");
        out.extend(lines.iter().map(String::as_str));
        copied = exchange.answer.end;
    }
    out.extend(script.lines[copied..].iter().map(String::as_str));
    out.join("\n") + "\n"
}

/// The run of one fact.
struct Run<'a> {
    file: &'a str,
    fact: &'a Fact,
    server: Arc<Server>,
    client: Client,
    names: Names,
    stable: Stable,
}

impl<'a> Run<'a> {
    fn begin(file: &'a str, fact: &'a Fact) -> Result<Self, String> {
        let server = server(&fact.settings);
        let server = server.map_err(|message| format!("{file}:{}: {message}", fact.line + 1))?;
        let mut names = Names::default();
        // All names have one length, so that no size depends on them.
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let database = format!("{DATABASE}{number:05}");
        names.set("db", database.as_str());
        let mut stable = Stable::default();
        stable.set(&database, "${db}");
        stable.set(&server.address, "<address>");
        Ok(Run {
            file,
            fact,
            client: server.client(),
            server,
            names,
            stable,
        })
    }

    /// Takes a step; returns the line of a request and its answer as lines if it shows one.
    fn step(&mut self, step: &Step) -> Result<Option<(usize, Vec<String>)>, String> {
        let (line, lines) = match step {
            Step::Let {
                line,
                name,
                value,
                times,
            } => {
                let value = self.names.expand(value);
                let define = |value: String| self.names.set(name, value.repeat(*times));
                (*line, value.map(define).map(|()| None))
            }
            Step::Exchange(exchange) => (exchange.line, self.exchange(exchange)),
        };
        let lines = lines.map_err(|message| format!("{}:{}: {message}", self.file, line + 1))?;
        Ok(lines.map(|lines| (line, lines)))
    }

    fn exchange(&mut self, exchange: &Exchange) -> Result<Option<Vec<String>>, String> {
        let lines = if let Some(each) = &exchange.each {
            self.each(exchange, each)?
        } else if exchange.reads_pages {
            self.pages(exchange)?
        } else if let Some((header, value)) = &exchange.until {
            self.until(exchange, header, value)?
        } else {
            let answer = self.send(exchange, None)?;
            self.take(exchange, &answer)?
        };
        Ok((!exchange.is_given).then_some(lines))
    }

    /// Sends a request for each value; values whose answers are equal in a row share one.
    fn each(&mut self, exchange: &Exchange, each: &Each) -> Result<Vec<String>, String> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for value in &each.values {
            let expanded = self.names.expand(value)?;
            self.names.set(&each.name, expanded);
            let answer = self.send(exchange, None)?;
            let lines = self.take(exchange, &answer)?;
            match groups.last_mut() {
                Some((values, others)) if *others == lines => {
                    values.push_str(" | ");
                    values.push_str(value);
                }
                _ => groups.push((value.clone(), lines)),
            }
        }
        let mut lines = Vec::new();
        for (values, answer) in groups {
            lines.push(format!("[{} = {values}]", each.name));
            lines.extend(answer);
        }
        Ok(lines)
    }

    /// Reads all pages of a request.
    fn pages(&mut self, exchange: &Exchange) -> Result<Vec<String>, String> {
        let (mut lines, mut continuation) = (Vec::new(), None);
        for page in 1.. {
            let answer = self.send(exchange, continuation.as_deref())?;
            lines.push(format!("[page {page}]"));
            lines.extend(self.take(exchange, &answer)?);
            continuation = answer.header("x-ms-continuation").map(str::to_owned);
            if continuation.is_none() {
                break;
            }
        }
        Ok(lines)
    }

    /// Repeats a request until a header has a value. A request that cannot be sent ends the wait.
    fn until(
        &mut self,
        exchange: &Exchange,
        header: &str,
        value: &str,
    ) -> Result<Vec<String>, String> {
        let event = format!("{}:{}: `{header}: {value}`", self.file, exchange.line + 1);
        let answer = wait_within(UNTIL_TIMEOUT, &event, || match self.send(exchange, None) {
            Ok(answer) if answer.header(header) != Some(value) => {
                Err(answer.header(header).map(str::to_owned))
            }
            sent => Ok(sent),
        });
        self.take(exchange, &answer?)
    }

    /// Keeps the parts of an answer that have names and returns the answer as lines.
    fn take(&mut self, exchange: &Exchange, answer: &Answer) -> Result<Vec<String>, String> {
        if exchange.is_given && !(200..300).contains(&answer.status) {
            return Err(format!(
                "the given request fails: {} {}",
                answer.status,
                answer.text()
            ));
        }
        for (name, source) in &exchange.keeps {
            self.names.set(name, source.value_in(answer)?);
        }
        if exchange.is_given {
            self.stable.note(answer);
            return Ok(Vec::new());
        }
        let shown: Vec<Shown> = [&*self.fact.settings.shown, &*exchange.shown].concat();
        let lines = shown::lines(answer, &shown, &mut self.stable);
        if let Some(line) = lines.iter().find(|line| line.contains(DATABASE)) {
            return Err(format!(
                "the answer names the database of another fact: write `server: own` below the \
                 fact: {line}"
            ));
        }
        Ok(lines)
    }

    fn send(&mut self, exchange: &Exchange, continuation: Option<&str>) -> Result<Answer, String> {
        if exchange.is_managing {
            return self.manage(exchange);
        }
        let mut request = self.request(exchange)?;
        if let Some(continuation) = continuation {
            request = request.header("x-ms-continuation", continuation);
        }
        let answer = match &exchange.signature {
            Signature::Key(key) => {
                let key = self.names.expand(key)?;
                let stranger = Client::connect(&self.server.address, &key);
                stranger.and_then(|mut stranger| stranger.try_call(&request))
            }
            _ => self.client.try_call(&request),
        };
        answer.map_err(|error| format!("the server gives no answer: {error}"))
    }

    /// Sends a request to the management API, whose changes apply to all databases of a server.
    fn manage(&self, exchange: &Exchange) -> Result<Answer, String> {
        if !self.fact.settings.is_own {
            return Err("`manage` needs `server: own` below the fact".to_owned());
        }
        let path = self.names.expand(&exchange.path)?;
        let body = self.body(exchange)?;
        Ok(self.server.manager().call(exchange.method, &path, &body))
    }

    fn request(&self, exchange: &Exchange) -> Result<Request, String> {
        let names = &self.names;
        let path = names.expand(&exchange.path)?;
        let is_read = matches!(exchange.method, "GET" | "HEAD") || exchange.query.is_some();
        let is_shown = is_read && !exchange.is_given;
        if is_shown && ACCOUNT_FEEDS.contains(&path.as_str()) && !self.fact.settings.is_own {
            return Err(format!(
                "{path} has resources of other facts, which also change its charge: write \
                 `server: own` below the fact"
            ));
        }
        let mut request = Request::new(exchange.method, &path).signed_decoded();
        for (name, value) in &exchange.headers {
            request = request.any_header(name.clone(), names.expand(value)?);
        }
        match &exchange.signature {
            Signature::Path | Signature::Key(_) => {}
            Signature::Rid => request = request.by_rid(),
            Signature::None => request = request.unsigned(),
            Signature::Token(token) => request = request.token(&names.expand(token)?),
        }
        if exchange.query.is_some() {
            request = with_query_headers(request, exchange);
        }
        Ok(request.body(self.body(exchange)?))
    }

    /// Returns the body of a request.
    fn body(&self, exchange: &Exchange) -> Result<String, String> {
        let body = self.names.expand(&exchange.body)?;
        if let Some(query) = &exchange.query {
            let mut members = Object::new();
            members.set("query", self.names.expand(query)?);
            let more = if body.is_empty() { "{}" } else { &body };
            for (name, value) in object(more)? {
                members.set(name, value);
            }
            return Ok(Json::Object(members).to_text());
        }
        if let Some(merge) = &exchange.merge {
            let mut target = json(&self.names.expand(merge)?)?;
            merge_patch(&mut target, json(&body)?);
            return Ok(target.to_text());
        }
        Ok(body)
    }
}

/// Adds the headers of a query over all partitions, except those that the script sets.
fn with_query_headers(mut request: Request, exchange: &Exchange) -> Request {
    for (name, value) in [
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-isquery", "True"),
        ("x-ms-documentdb-query-enablecrosspartition", "True"),
    ] {
        let is_set = |(given, _): &(String, String)| given.eq_ignore_ascii_case(name);
        if !exchange.headers.iter().any(is_set) {
            request = request.header(name, value);
        }
    }
    request
}

fn json(text: &str) -> Result<Json, String> {
    parse(text.as_bytes()).map_err(|error| format!("no JSON: {error}: {text}"))
}

fn object(text: &str) -> Result<Object, String> {
    match json(text)? {
        Json::Object(members) => Ok(members),
        other => Err(format!("no object: {other}")),
    }
}

/// Changes a value as RFC 7396 says: members are set or merged, and removed by null.
fn merge_patch(target: &mut Json, patch: Json) {
    let Json::Object(changes) = patch else {
        *target = patch;
        return;
    };
    if target.as_object().is_none() {
        *target = Json::Object(Object::new());
    }
    let Some(members) = target.as_object_mut() else {
        return;
    };
    for (name, change) in changes {
        if matches!(change, Json::Null) {
            members.remove(&name);
            continue;
        }
        let mut value = members.get(&name).cloned().unwrap_or(Json::Null);
        merge_patch(&mut value, change);
        members.set(name, value);
    }
}

/// Returns a server with the options of a fact.
fn server(settings: &Settings) -> Result<Arc<Server>, String> {
    if settings.is_own {
        return begin_server(&settings.options);
    }
    let mut servers = SERVERS.lock().expect("no test panics with the lock");
    let running = servers.get(&settings.options).and_then(Weak::upgrade);
    if let Some(server) = running {
        return Ok(server);
    }
    let server = begin_server(&settings.options)?;
    servers.insert(settings.options.clone(), Arc::downgrade(&server));
    Ok(server)
}

fn begin_server(options: &[String]) -> Result<Arc<Server>, String> {
    let mut arguments = vec!["--memory"];
    arguments.extend(options.iter().map(String::as_str));
    let server = start(&arguments).map_err(|exit| {
        format!(
            "the server does not start with these options: {}",
            exit.stderr
        )
    });
    server.map(Arc::new)
}

#[test]
fn a_merge_sets_replaces_and_removes_members() {
    let mut target = json(r#"{"a":{"b":1,"c":2},"d":3}"#).expect("JSON");
    let patch = json(r#"{"a":{"b":null,"e":[1]},"d":{"f":4}}"#).expect("JSON");
    merge_patch(&mut target, patch);
    assert_eq!(target.to_text(), r#"{"a":{"c":2,"e":[1]},"d":{"f":4}}"#);
}
