//! The text of a script as facts and steps: the parser, which sends nothing.
//!
//! Promises: a line that the form does not know is an error with the file and the line, and so are
//! a name that is unknown, defined twice or never used, and a header that no request can have.
//!
//! Leaves out: the values of names, which are known when a script runs.

use super::names::{self, Source};
use orrery_gateway::known_headers;
use std::collections::BTreeMap;
use std::ops::Range;

/// The line between a request and its answer.
const SEPARATOR: &str = "---";

/// Headers that every script shows if an answer has them.
pub(super) const USUAL: &[&str] = &[
    "x-ms-request-charge",
    "x-ms-item-count",
    "x-ms-continuation",
    "x-ms-session-token",
    "etag",
    "x-ms-retry-after-ms",
    "allow",
];

const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The names that every script has: its database.
const GIVEN_NAMES: &[&str] = &["db"];

/// Options that the runner sets itself, or that would keep data behind a script.
const OWN_OPTIONS: &[&str] = &["--memory", "--data-dir", "--listen", "--ready-json"];

/// A script: the facts of one subject.
#[derive(Debug)]
pub(super) struct Script {
    /// The lines of the file.
    pub(super) lines: Vec<String>,
    /// Steps before the first fact, which run before each fact.
    pub(super) preparation: Vec<Step>,
    pub(super) facts: Vec<Fact>,
}

/// A fact, which runs on a database of its own.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) title: String,
    /// Line of the title.
    pub(super) line: usize,
    pub(super) settings: Settings,
    pub(super) steps: Vec<Step>,
}

/// The server of a fact, and the headers that its answers show besides the usual ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// True if no other fact uses the server.
    pub(super) is_own: bool,
    /// Options of the command `orrery start`.
    pub(super) options: Vec<String>,
    pub(super) shown: Vec<Shown>,
}

/// A header that an answer shows on request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    All,
    /// The value as it was sent.
    Plain(String),
    /// The text that the value encodes.
    Percent(String),
    Base64(String),
    /// A usual header that the answer does not show.
    Hidden(String),
}

#[derive(Debug)]
pub(super) enum Step {
    /// Defines a name by a text that is repeated.
    Let {
        line: usize,
        name: String,
        value: String,
        times: usize,
    },
    Exchange(Box<Exchange>),
}

/// A request and the place of its answer.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Line of the request.
    pub(super) line: usize,
    /// True for a request that prepares a fact: it succeeds, and shows no answer.
    pub(super) is_given: bool,
    /// True for a request to the management API.
    pub(super) is_managing: bool,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Text of a query, to which the body adds members.
    pub(super) query: Option<String>,
    /// JSON that the body changes as a merge patch.
    pub(super) merge: Option<String>,
    pub(super) signature: Signature,
    pub(super) each: Option<Each>,
    /// True if the request reads all pages.
    pub(super) reads_pages: bool,
    /// The header and its value at which the request is not repeated any more.
    pub(super) until: Option<(String, String)>,
    pub(super) keeps: Vec<(String, Source)>,
    pub(super) shown: Vec<Shown>,
    /// Lines of the answer with the separator before it, from 0.
    pub(super) answer: Range<usize>,
}

/// The values of a name, for each of which a request is sent.
#[derive(Debug)]
pub(super) struct Each {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// The credential of a request.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Signature {
    /// The account's key signs the path.
    #[default]
    Path,
    /// The account's key signs the last resource id of the path.
    Rid,
    /// There is no credential.
    None,
    /// Another key signs the path.
    Key(String),
    /// A resource token stands in place of a signature.
    Token(String),
}

/// Parses a script. An error begins with `file:line: `.
pub(super) fn parse(file: &str, text: &str) -> Result<Script, String> {
    let mut parser = Parser::default();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut start = 0;
    while start < lines.len() {
        let end = (start..lines.len()).find(|at| lines[*at].is_empty());
        let end = end.unwrap_or(lines.len());
        parser
            .block(&lines[start..end], start)
            .map_err(|(line, message)| format!("{file}:{}: {message}", line + 1))?;
        start = end + 1;
    }
    let Parser {
        preparation, facts, ..
    } = parser;
    if facts.is_empty() {
        return Err(format!("{file}:1: there is no fact: write `== SENTENCE`"));
    }
    let script = Script {
        lines,
        preparation,
        facts,
    };
    check_names(&script).map_err(|(line, message)| format!("{file}:{}: {message}", line + 1))?;
    Ok(script)
}

/// A line, from 0, and the error in it.
type Complaint = (usize, String);

#[derive(Default)]
struct Parser {
    settings: Settings,
    preparation: Vec<Step>,
    facts: Vec<Fact>,
}

impl Parser {
    /// Reads lines that no empty line divides, of which the first has the number `at`.
    fn block(&mut self, lines: &[String], at: usize) -> Result<(), Complaint> {
        for (n, line) in lines.iter().enumerate() {
            let at = at + n;
            if line.starts_with('#') {
                continue;
            }
            if let Some(title) = line.strip_prefix("== ") {
                self.begin_fact(title, at)?;
                continue;
            }
            if let Some((name, value)) = definition(line, "let") {
                let (value, times) = repeated(value);
                self.steps().push(Step::Let {
                    line: at,
                    name: name.to_owned(),
                    value: value.to_owned(),
                    times,
                });
                continue;
            }
            if let Some(request) = request_line(line) {
                let exchange = exchange(request, &lines[n..], at)?;
                if self.facts.is_empty() && !exchange.is_given {
                    let message = "a request before the first fact is `given`";
                    return Err((at, message.to_owned()));
                }
                self.steps().push(Step::Exchange(Box::new(exchange)));
                return Ok(());
            }
            let setting = line.split_once(": ");
            let Some((word, value)) = setting else {
                return Err((at, unknown(line)));
            };
            self.set(word, value).map_err(|message| (at, message))?;
        }
        Ok(())
    }

    fn begin_fact(&mut self, title: &str, line: usize) -> Result<(), Complaint> {
        if self.facts.iter().any(|fact| fact.title == title) {
            return Err((line, format!("the fact `{title}` stands twice")));
        }
        self.facts.push(Fact {
            title: title.to_owned(),
            line,
            settings: self.settings.clone(),
            steps: Vec::new(),
        });
        Ok(())
    }

    /// Returns the steps to which the next one belongs.
    fn steps(&mut self) -> &mut Vec<Step> {
        match self.facts.last_mut() {
            Some(fact) => &mut fact.steps,
            None => &mut self.preparation,
        }
    }

    /// Applies a setting of the file or of a fact.
    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        if word != "show" && !self.steps().is_empty() {
            return Err(format!("`{word}` stands before the first request"));
        }
        let settings = match self.facts.last_mut() {
            Some(fact) => &mut fact.settings,
            None => &mut self.settings,
        };
        match (word, value) {
            ("server", "own") => settings.is_own = true,
            ("server", _) => return Err(format!("`server: {value}` is not `server: own`")),
            ("options", _) => {
                settings.options = value.split_whitespace().map(str::to_owned).collect();
                let own = |option: &&String| {
                    let name = option.split('=').next().unwrap_or_default();
                    OWN_OPTIONS.contains(&name)
                };
                if let Some(option) = settings.options.iter().find(own) {
                    return Err(format!("a script cannot set the option `{option}`"));
                }
            }
            ("show", _) => settings.shown.extend(shown(value)?),
            _ => return Err(unknown(word)),
        }
        Ok(())
    }
}

fn unknown(line: &str) -> String {
    format!("`{line}` is no request, and no word of the form of scripts")
}

/// Splits `word NAME = VALUE`.
fn definition<'a>(line: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let rest = line.strip_prefix(word)?.strip_prefix(' ')?;
    let (name, value) = rest.split_once(" = ")?;
    names::is_name(name).then_some((name, value))
}

/// Splits `TEXT times N`; a text without a number stands once.
fn repeated(text: &str) -> (&str, usize) {
    let parts = text.rsplit_once(" times ");
    let times = parts.and_then(|(text, n)| Some((text, n.parse().ok()?)));
    times.unwrap_or((text, 1))
}

/// The parts of the first line of a request.
struct RequestLine<'a> {
    is_given: bool,
    is_managing: bool,
    method: &'static str,
    path: &'a str,
}

fn request_line(line: &str) -> Option<RequestLine<'_>> {
    let (is_given, rest) = match line.strip_prefix("given ") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (is_managing, rest) = match rest.strip_prefix("manage ") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (method, path) = rest.split_once(' ')?;
    let method = *METHODS.iter().find(|known| **known == method)?;
    Some(RequestLine {
        is_given,
        is_managing,
        method,
        path,
    })
}

/// Reads a request whose first line is the first of `lines`, which has the number `at`.
fn exchange(request: RequestLine<'_>, lines: &[String], at: usize) -> Result<Exchange, Complaint> {
    let separator = lines.iter().position(|line| line == SEPARATOR);
    let end = separator.unwrap_or(lines.len());
    let mut exchange = Exchange {
        line: at,
        is_given: request.is_given,
        is_managing: request.is_managing,
        method: request.method,
        path: request.path.to_owned(),
        answer: at + end..at + lines.len(),
        ..Exchange::default()
    };
    let is_body = |line: &String| line.starts_with(['{', '[', '"', '$']);
    let body = lines[1..end].iter().position(is_body);
    let body = body.map_or(end, |n| n + 1);
    for (n, line) in lines.iter().enumerate().take(body).skip(1) {
        part(&mut exchange, line).map_err(|message| (at + n, message))?;
    }
    if body < end {
        exchange.body = lines[body..end].join("\n");
    }
    check_exchange(&exchange, separator.is_some()).map_err(|message| (at, message))?;
    Ok(exchange)
}

/// Reads one line between the first line of a request and its body.
fn part(exchange: &mut Exchange, line: &str) -> Result<(), String> {
    if let Some((name, source)) = definition(line, "keep") {
        let source = Source::parse(source)?;
        exchange.keeps.push((name.to_owned(), source));
        return Ok(());
    }
    let colon = line.split_once(": ").ok_or_else(|| unknown(line))?;
    let (word, value) = (colon.0, colon.1.to_owned());
    if let Some(name) = word.strip_prefix("each ") {
        return each(exchange, name, &value);
    }
    if let Some(header) = word.strip_prefix("until ") {
        exchange.until = Some((header.to_owned(), value));
        return Ok(());
    }
    if let Some(header) = word.strip_prefix("raw ") {
        let (value, times) = repeated(&value);
        let header = (header.to_owned(), value.to_owned());
        exchange.headers.extend(vec![header; times]);
        return Ok(());
    }
    match word {
        "key" => {
            let header = "x-ms-documentdb-partitionkey".to_owned();
            exchange.headers.push((header, value));
        }
        "query" => exchange.query = Some(value),
        "merge" => exchange.merge = Some(value),
        "body" => exchange.body = value,
        "show" => exchange.shown.extend(shown(&value)?),
        "hide" => exchange.shown.extend(hidden(&value)?),
        "sign" => exchange.signature = signature(&value)?,
        "pages" if value == "all" => exchange.reads_pages = true,
        "pages" => return Err(format!("`pages: {value}` is not `pages: all`")),
        header => {
            let lower = header.to_ascii_lowercase();
            if known_headers().iter().all(|known| known.name != lower) {
                return Err(format!(
                    "`{header}` is no word of the form and no header that the server knows; \
                     `raw {header}: …` sends it nevertheless"
                ));
            }
            exchange.headers.push((header.to_owned(), value));
        }
    }
    Ok(())
}

/// Reads the values of `each NAME: A | B | C` or `each NAME: 0 to 19`.
fn each(exchange: &mut Exchange, name: &str, value: &str) -> Result<(), String> {
    if !names::is_name(name) || exchange.each.is_some() {
        return Err("a request has one `each NAME: …`".to_owned());
    }
    let range = value.split_once(" to ");
    let numbers = range.and_then(|(first, last)| {
        let first: u32 = first.parse().ok()?;
        let last: u32 = last.parse().ok()?;
        Some(first..=last)
    });
    let values = match numbers {
        Some(numbers) => numbers.map(|n| n.to_string()).collect(),
        None => value.split(" | ").map(str::to_owned).collect(),
    };
    exchange.each = Some(Each {
        name: name.to_owned(),
        values,
    });
    Ok(())
}

fn signature(value: &str) -> Result<Signature, String> {
    match value.split_once(' ') {
        None if value == "rid" => Ok(Signature::Rid),
        None if value == "none" => Ok(Signature::None),
        Some(("key", key)) => Ok(Signature::Key(key.to_owned())),
        Some(("token", token)) => Ok(Signature::Token(token.to_owned())),
        _ => Err(format!(
            "`sign: {value}` is none of `rid`, `none`, `key KEY`, `token TOKEN`"
        )),
    }
}

/// Reads the headers of `show: NAME, NAME as percent, NAME as base64` or `show: all`.
fn shown(value: &str) -> Result<Vec<Shown>, String> {
    let mut headers = Vec::new();
    for item in value.split(", ") {
        let is_lower = !item.is_empty() && !item.contains(|c: char| c.is_ascii_uppercase());
        headers.push(match item.split_once(" as ") {
            None if item == "all" => Shown::All,
            None if is_lower && !item.contains(' ') => Shown::Plain(item.to_owned()),
            Some((name, "percent")) if is_lower => Shown::Percent(name.to_owned()),
            Some((name, "base64")) if is_lower => Shown::Base64(name.to_owned()),
            _ => return Err(format!("`{item}` is no header in lower case to show")),
        });
    }
    Ok(headers)
}

/// Reads the headers of `hide: NAME, NAME`, which are usual ones.
fn hidden(value: &str) -> Result<Vec<Shown>, String> {
    let mut headers = Vec::new();
    for name in value.split(", ") {
        if !USUAL.contains(&name) {
            return Err(format!("`{name}` is no header that is shown unasked"));
        }
        headers.push(Shown::Hidden(name.to_owned()));
    }
    Ok(headers)
}

/// Checks that the parts of a request agree.
fn check_exchange(exchange: &Exchange, has_answer: bool) -> Result<(), String> {
    let is_shown = !exchange.shown.is_empty() || exchange.reads_pages;
    if exchange.is_given && (has_answer || is_shown || exchange.until.is_some()) {
        return Err("a `given` request has no answer to show".to_owned());
    }
    let repeats = [
        exchange.each.is_some(),
        exchange.reads_pages,
        exchange.until.is_some(),
    ];
    if repeats.iter().filter(|is_set| **is_set).count() > 1 {
        return Err("`each`, `pages` and `until` exclude each other".to_owned());
    }
    let is_plain = exchange.headers.is_empty() && exchange.signature == Signature::Path;
    if exchange.is_managing && !(is_plain && exchange.query.is_none()) {
        return Err("a request to the management API has no headers".to_owned());
    }
    if exchange.each.is_some() && !exchange.keeps.is_empty() {
        return Err("a request with `each` has many answers and keeps none".to_owned());
    }
    if exchange.query.is_some() && exchange.merge.is_some() {
        return Err("`query` and `merge` exclude each other".to_owned());
    }
    if exchange.merge.is_some() && exchange.body.is_empty() {
        return Err("`merge` needs a body with the changes".to_owned());
    }
    Ok(())
}

impl Exchange {
    /// Returns the texts in which names can stand.
    fn templates(&self) -> Vec<&str> {
        let mut texts = vec![self.path.as_str(), &self.body];
        texts.extend(self.headers.iter().map(|(_, value)| value.as_str()));
        texts.extend(self.query.as_deref());
        texts.extend(self.merge.as_deref());
        if let Some(each) = &self.each {
            texts.extend(each.values.iter().map(String::as_str));
        }
        if let Signature::Key(text) | Signature::Token(text) = &self.signature {
            texts.push(text);
        }
        texts
    }
}

/// The names at one place of a script: the line of each definition, and true if it was used.
type Known = BTreeMap<String, (usize, bool)>;

/// Checks that every name is defined once, before its use, and used.
fn check_names(script: &Script) -> Result<(), Complaint> {
    let mut common = Known::new();
    check_steps(&script.preparation, &mut common)?;
    let mut used_later: Vec<String> = Vec::new();
    for fact in &script.facts {
        // Facts do not see each other's names.
        let mut known = common.clone();
        check_steps(&fact.steps, &mut known)?;
        for (name, (line, is_used)) in known {
            if common.contains_key(&name) {
                used_later.extend(is_used.then_some(name));
            } else if !is_used {
                return Err((line, format!("the name `{name}` is not used")));
            }
        }
    }
    for (name, (line, _)) in &common {
        if !used_later.contains(name) {
            return Err((*line, format!("no fact uses the name `{name}`")));
        }
    }
    Ok(())
}

fn check_steps(steps: &[Step], known: &mut Known) -> Result<(), Complaint> {
    for step in steps {
        match step {
            Step::Let {
                line, name, value, ..
            } => {
                use_names(value, None, known).map_err(|message| (*line, message))?;
                define(name, *line, known)?;
            }
            Step::Exchange(exchange) => {
                let each = exchange.each.as_ref().map(|each| each.name.as_str());
                let line = exchange.line;
                let mut uses_each = false;
                for text in exchange.templates() {
                    let used = use_names(text, each, known).map_err(|message| (line, message))?;
                    uses_each |= used;
                }
                if let Some(name) = each.filter(|_| !uses_each) {
                    return Err((line, format!("the name `{name}` is not used")));
                }
                for (name, _) in &exchange.keeps {
                    define(name, line, known)?;
                }
            }
        }
    }
    Ok(())
}

fn define(name: &str, line: usize, known: &mut Known) -> Result<(), Complaint> {
    let is_given = GIVEN_NAMES.contains(&name);
    if is_given || known.insert(name.to_owned(), (line, false)).is_some() {
        return Err((line, format!("the name `{name}` is defined already")));
    }
    Ok(())
}

/// Notes the names that a text uses; returns true if it uses the name `each`.
fn use_names(text: &str, each: Option<&str>, known: &mut Known) -> Result<bool, String> {
    let mut uses_each = false;
    for reference in names::references(text)? {
        let name = reference.name;
        if Some(name) == each {
            uses_each = true;
        } else if let Some((_, is_used)) = known.get_mut(name) {
            *is_used = true;
        } else if !GIVEN_NAMES.contains(&name) {
            return Err(format!("the name `{name}` is not defined before this line"));
        }
    }
    Ok(uses_each)
}
