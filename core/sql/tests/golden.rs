//! Runs the golden scripts, `tests/golden/*.txt`, and compares the answers. With `ORRERY_BLESS=1`
//! it rewrites the scripts with the answers of the crate.
//!
//! The scripts are a tour of the language in the order of their file names. Their items are in
//! three data sets of our own in `tests/golden/data` (a blog, devices with their readings, and a
//! workshop for musical instruments), and in small sets inside the scripts. Blank lines separate
//! the blocks of a script:
//!
//! ```text
//! # a comment: the rule that the next blocks show
//!
//! items shop           the queries below run on the items of data/shop.jsonl
//!
//! items own            items inside the script, one JSON text a line
//! {"id": "1"}
//!
//! container            the settings of the container, see `environment_of`
//! {"planar": true}
//!
//! cases                one case a line: an expression or a query, ` => `, the answer;
//! 1 + 1 => 2           several rows are joined by ` ; `
//! SELECT VALUE COUNT(1) FROM c => 1
//!
//! query [plan]         the text, then parameters as `@name = json`, then `----`, then the answer
//! SELECT * FROM c WHERE c.id = @id
//! @id = "1"
//! ----
//! {"id": "1"}          one row a line, or `error CODE start..end: message`
//! ```
//!
//! `[plan]` prints what the query asks of its source before the rows. Every query also runs in
//! pages of one and of three rows, in pages of few bytes, and on a source that filters and sorts
//! by itself: all runs must return the same rows. Other options run a single page:
//! `[memory=N]` within N bytes, `[reserve=N]` with N reservations of memory, `[time=N]` until the
//! clock was read N times, `[position=foreign]`
//! from the position of another query, `[source=failing]` on a source that fails. A block
//! `client-plan [features]` prints the plan for clients that merge results themselves: for one that
//! can do every merge, for the first clients with `[first-clients]`, and of a request with a whole
//! partition key with `[key]`, with a part of one with `[key-prefix]`.

use crate::support::script::{folder, is_parameter, is_query, query_of, scripts, split_line};
use crate::support::{
    self, ALL_FEATURES, FULL_SCAN, RunOptions, Udfs, compile, environment, environment_of, page,
    rows,
};
use bytes::Bytes;
use orrery_model::json::{Json, Object, parse};
use orrery_sql::{
    Bounds, Candidate, Environment, MergeSupport, PlanInfo, PlanRequest, PlanScope, Query,
    QueryError, ResumePoint, Source, Work, client_plan,
};
use std::collections::HashMap;
use std::fmt::Write as _;

#[test]
fn scripts_answer_as_written() {
    let bless = std::env::var_os("ORRERY_BLESS").is_some();
    let scripts = scripts();
    assert!(scripts.len() >= 5, "golden files are missing");
    let mut wrong = Vec::new();
    for (file, script) in scripts {
        let answered = answer(&script);
        if bless {
            std::fs::write(&file, &answered).expect("writing a golden file");
        } else if answered != script {
            let pairs = script.lines().zip(answered.lines()).enumerate();
            let differ = pairs.filter(|(_, (a, b))| a != b).take(3);
            for (line, (expected, actual)) in differ {
                wrong.push(format!(
                    "{}:{}\n  expected {expected}\n  actual   {actual}",
                    file.display(),
                    line + 1
                ));
            }
            if script.lines().count() != answered.lines().count() {
                wrong.push(format!("{}: the answers differ in length", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the script with the answers that the crate gives.
fn answer(script: &str) -> String {
    let mut sets: HashMap<String, Vec<Bytes>> = HashMap::new();
    let mut items: Vec<Bytes> = Vec::new();
    let mut container = environment();
    let mut blocks = Vec::new();
    for block in script.trim_end().split("\n\n") {
        let (head, body) = block.split_once('\n').unwrap_or((block, ""));
        let words: Vec<&str> = head.split_whitespace().collect();
        blocks.push(match words.as_slice() {
            ["items", name] => {
                if !body.is_empty() {
                    sets.insert((*name).to_owned(), items_of(body));
                }
                items = sets.get(*name).cloned().unwrap_or_else(|| data_set(name));
                block.to_owned()
            }
            ["container"] => {
                container =
                    environment_of(&parse(body.as_bytes()).expect("a container's settings"));
                block.to_owned()
            }
            ["cases"] => answered_lines(body, &container, &items),
            ["query" | "client-plan", ..] => answered_block(&words, head, body, &container, &items),
            [first, ..] if first.starts_with('#') => block.to_owned(),
            _ => panic!("an unknown block: {block}"),
        });
    }
    blocks.join("\n\n") + "\n"
}

fn items_of(lines: &str) -> Vec<Bytes> {
    lines
        .lines()
        .map(|line| Bytes::from(line.to_owned()))
        .collect()
}

/// Returns the items of a file of `tests/golden/data`; the set `none` has no items.
fn data_set(name: &str) -> Vec<Bytes> {
    if name == "none" {
        return Vec::new();
    }
    let file = folder().join("data").join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&file);
    items_of(&text.unwrap_or_else(|error| panic!("{}: {error}", file.display())))
}

/// Answers each line of a block `cases`.
fn answered_lines(body: &str, container: &Environment, items: &[Bytes]) -> String {
    let mut out = "cases".to_owned();
    for line in body.lines() {
        let (text, _) = split_line(line);
        let lines = answers(&query_of(text), &[], container, items, false);
        let answer = match lines.as_slice() {
            [] if is_query(text) => "no rows".to_owned(),
            [] => "undefined".to_owned(),
            lines => lines.join(" ; "),
        };
        write!(out, "\n{text} => {answer}").expect("writing to a string");
    }
    out
}

/// Answers a block `query` or `client-plan`.
fn answered_block(
    words: &[&str],
    head: &str,
    body: &str,
    container: &Environment,
    items: &[Bytes],
) -> String {
    let question = body
        .split_once("\n----")
        .map_or(body, |(question, _)| question);
    let (text, parameters) = split_question(question);
    let lines = if words[0] == "client-plan" {
        plan_lines(&text, &parameters, container, &words[1..].join(" "))
    } else if let Some(lines) = bounded(&words[1..], &text, &parameters, container, items) {
        lines
    } else {
        answers(
            &text,
            &parameters,
            container,
            items,
            words.contains(&"[plan]"),
        )
    };
    let mut out = format!("{head}\n{question}\n----");
    for line in lines {
        write!(out, "\n{line}").expect("writing to a string");
    }
    out
}

fn split_question(question: &str) -> (String, Vec<(String, Json)>) {
    let text: Vec<&str> = question
        .lines()
        .filter(|line| !is_parameter(line))
        .collect();
    let parameters = question
        .lines()
        .filter(|line| is_parameter(line))
        .map(|line| {
            let (name, value) = line.split_once(" = ").expect("a parameter");
            let value = parse(value.as_bytes()).expect("a parameter's value");
            (name.to_owned(), value)
        });
    (text.join("\n"), parameters.collect())
}

/// Runs one page within the bounds that the options set; `None` if there is no such option.
fn bounded(
    options: &[&str],
    text: &str,
    parameters: &[(String, Json)],
    container: &Environment,
    items: &[Bytes],
) -> Option<Vec<String>> {
    let option = |name: &str| {
        options.iter().find_map(|word| {
            word.trim_matches(['[', ']'])
                .split_once('=')
                .filter(|(n, _)| *n == name)
        })
    };
    let number = |name: &str| option(name).map(|(_, n)| n.parse::<usize>().expect("a number"));
    let (memory, time) = (number("memory"), number("time"));
    let foreign = option("position").map(|_| ResumePoint::default());
    let fails = option("source").is_some();
    let reservations = number("reserve");
    let is_plain = memory.is_none() && time.is_none() && foreign.is_none();
    if is_plain && reservations.is_none() && !fails {
        return None;
    }
    let page = compile(text, parameters, container, items).and_then(|query| {
        if fails {
            return on_a_failing_source(&query);
        }
        if let Some(reservations) = reservations {
            return with_reservations(&query, items, reservations);
        }
        let (looks, memory) = (time.unwrap_or(usize::MAX), memory.unwrap_or(1 << 28));
        let (rows, resume) = page(&query, items, foreign.as_ref(), looks, memory)?;
        let more = resume.map(|_| "and more pages".to_owned());
        Ok(rows.into_iter().chain(more).collect())
    });
    Some(page.unwrap_or_else(|error| error_lines(&error)))
}

/// Returns one page that is given memory so many times.
fn with_reservations(
    query: &Query,
    items: &[Bytes],
    mut left: usize,
) -> Result<Vec<String>, QueryError> {
    let mut reserve = |_| {
        let is_given = left > 0;
        left = left.saturating_sub(1);
        is_given
    };
    let mut never = || false;
    let mut bounds = Bounds {
        reserve: Some(&mut reserve),
        ..support::bounds(&mut never)
    };
    let mut source = support::Items::new(items);
    let mut work = Work::default();
    let page = query.run(&mut source, &mut Udfs, None, &mut bounds, &mut work)?;
    let more = page.resume.as_ref().map(|_| "and more pages".to_owned());
    Ok(support::texts(&page).chain(more).collect())
}

/// A source whose store cannot be read.
struct FailingSource;

impl Source for FailingSource {
    fn next(&mut self) -> Result<Option<Candidate>, QueryError> {
        Err(QueryError::Source("the disk is gone".into()))
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn position(&self) -> Vec<u8> {
        b"at 0".to_vec()
    }
}

fn on_a_failing_source(query: &Query) -> Result<Vec<String>, QueryError> {
    let mut never = || false;
    let mut bounds = Bounds {
        max_items: 10,
        max_bytes: 1 << 20,
        max_memory: 1 << 20,
        reserve: None,
        reserve_rows: None,
        is_expired: &mut never,
        clock: None,
        now_ms: 0,
        started_ms: 0,
        random_seed: 1,
    };
    let mut work = Work::default();
    query.run(&mut FailingSource, &mut Udfs, None, &mut bounds, &mut work)?;
    Ok(Vec::new())
}

#[expect(
    clippy::too_many_lines,
    reason = "an answer and what it says of its plan"
)]
fn answers(
    text: &str,
    parameters: &[(String, Json)],
    container: &Environment,
    items: &[Bytes],
    plan: bool,
) -> Vec<String> {
    let query = match compile(text, parameters, container, items) {
        Ok(query) => query,
        Err(error) => return error_lines(&error),
    };
    let mut lines = Vec::new();
    if plan {
        let exact = if query.condition_is_exact() {
            "exact"
        } else {
            "filtered"
        };
        lines.push(format!(
            "plan: {} ({exact}), {:?}",
            query.condition(),
            query.demand()
        ));
        for key in query.order() {
            let path = key
                .path
                .as_ref()
                .map_or("not a path of the item".to_owned(), ToString::to_string);
            lines.push(format!(
                "plan: order {path}{}",
                if key.descending { " descending" } else { "" }
            ));
        }
    }
    let mut work = Work::default();
    let plain = rows(&query, items, FULL_SCAN, &mut work);
    let ways = [
        RunOptions {
            max_items: 1,
            ..FULL_SCAN
        },
        RunOptions {
            max_items: 3,
            ..FULL_SCAN
        },
        RunOptions {
            max_bytes: 30,
            ..FULL_SCAN
        },
        RunOptions {
            uses_index: true,
            ..FULL_SCAN
        },
        RunOptions {
            uses_index: true,
            max_items: 1,
            ..FULL_SCAN
        },
        RunOptions {
            uses_index: true,
            max_items: 4,
            max_bytes: 100,
        },
    ];
    for way in ways {
        let again = rows(&query, items, way, &mut Work::default());
        let what = format!(
            "{text}\nin pages of {} rows, clever source {}",
            way.max_items, way.uses_index
        );
        match (&plain, &again) {
            (Ok(plain), Ok(again)) if text.to_uppercase().contains("RAND()") => {
                assert_eq!(plain.len(), again.len(), "{what}")
            }
            (Ok(plain), Ok(again)) => assert_eq!(plain, again, "{what}"),
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "{what}"),
            _ => panic!("{what}: {plain:?} against {again:?}"),
        }
    }
    match plain {
        Ok(rows) => lines.extend(rows),
        Err(error) => lines.extend(error_lines(&error)),
    }
    lines
}

fn error_lines(error: &QueryError) -> Vec<String> {
    match error {
        QueryError::Compile(diagnostics) => {
            let line = |d: &orrery_sql::Diagnostic| {
                format!("error {} {}..{}: {}", d.code, d.start, d.end, d.message)
            };
            diagnostics.iter().map(line).collect()
        }
        other => vec![format!(
            "error {}: {other}",
            format!("{other:?}")
                .split(['(', ' '])
                .next()
                .unwrap_or_default()
        )],
    }
}

/// Returns the request for a plan that the words after `client-plan` describe.
fn plan_request_of(options: &str) -> PlanRequest<'_> {
    match options {
        "" => support::plan_request(ALL_FEATURES),
        "[first-clients]" => PlanRequest {
            support: MergeSupport::FirstClients,
            ..support::plan_request(ALL_FEATURES)
        },
        "[key]" => PlanRequest {
            scope: PlanScope::Key,
            ..support::plan_request(ALL_FEATURES)
        },
        "[key-prefix]" => PlanRequest {
            scope: PlanScope::KeyPrefix,
            ..support::plan_request(ALL_FEATURES)
        },
        features => support::plan_request(features),
    }
}

fn plan_lines(
    text: &str,
    parameters: &[(String, Json)],
    container: &Environment,
    options: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    let request = plan_request_of(options);
    match client_plan(text, parameters, container, &request).map(|plan| plan.info) {
        Err(error) => return error_lines(&error),
        Ok(PlanInfo::Query(info)) => info_lines("", &info, &mut lines),
        Ok(PlanInfo::HybridSearch(info)) => info_lines("hybrid ", &info, &mut lines),
    }
    lines
}

/// Appends the members that are not empty; a text of several lines becomes several lines.
fn info_lines(before: &str, info: &Object, lines: &mut Vec<String>) {
    for (name, value) in info.iter() {
        let empty = matches!(value, Json::Null | Json::Bool(false))
            || value.as_array().is_some_and(<[Json]>::is_empty)
            || value.as_object().is_some_and(Object::is_empty);
        match value {
            Json::String(text) if name.ends_with("Query") => {
                lines.extend(text.lines().map(|l| format!("{before}{name}: {l}")));
            }
            Json::Array(list) if name == "componentQueryInfos" => {
                for (at, component) in (1..).zip(list) {
                    let component = component.as_object().expect("an object");
                    info_lines(&format!("{before}component {at} "), component, lines);
                }
            }
            _ if !empty => lines.push(format!("{before}{name}: {value}")),
            _ => {}
        }
    }
}
