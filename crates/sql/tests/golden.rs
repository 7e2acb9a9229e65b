//! Golden scripts: `tests/golden/*.txt`, read and, with `ORRERY_BLESS=1`, rewritten with what the crate answers.
//!
//! Blocks are separated by blank lines:
//!
//! ```text
//! # a comment
//!
//! items fruit            names a set of items, one JSON text a line; the queries below run on it
//! {"id": "1"}
//!
//! container              what the queries below know of their container: see `environment_of`
//! {"planar": true}
//!
//! query [plan]           the text, then parameters as `@name = json`, then `----`, then the answer
//! SELECT * FROM c
//! @p = 1
//! ----
//! {"id": "1"}            a row a line, or `error CODE start..end: message`
//! ```
//!
//! `[plan]` prints what the query asks of its source before the rows. Every query also runs in pages of one and of
//! three rows, in pages of few bytes, and on a source that filters and sorts by itself: all must give the same rows.
//! A block `client-plan [features]` prints the plan for clients that merge themselves.

mod support;

use bytes::Bytes;
use orrery_model::json::{Json, Object, parse};
use orrery_sql::{Environment, PlanInfo, QueryError, Work, client_plan};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use support::{PLAIN, Way, compile, environment, environment_of, rows};

#[test]
fn scripts_answer_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("ORRERY_BLESS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("golden folder")
        .map(|e| e.expect("entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 5, "golden files are missing");
    let mut wrong = Vec::new();
    for file in files {
        let script = std::fs::read_to_string(&file).expect("golden file");
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

/// The script with the answers as they are.
fn answer(script: &str) -> String {
    let mut sets: HashMap<String, Vec<Bytes>> = HashMap::new();
    let mut items: Vec<Bytes> = Vec::new();
    let mut container = environment();
    let mut out = String::new();
    for (i, block) in script.trim_end().split("\n\n").enumerate() {
        if i > 0 {
            out.push_str("\n\n");
        }
        let (head, body) = block.split_once('\n').unwrap_or((block, ""));
        let words: Vec<&str> = head.split_whitespace().collect();
        match words.as_slice() {
            ["items", name] => {
                if !body.is_empty() {
                    sets.insert(
                        (*name).to_owned(),
                        body.lines().map(|l| Bytes::from(l.to_owned())).collect(),
                    );
                }
                items = sets.get(*name).cloned().unwrap_or_default();
                out.push_str(block);
            }
            ["container"] => {
                container =
                    environment_of(&parse(body.as_bytes()).expect("a container's settings"));
                out.push_str(block);
            }
            ["query" | "client-plan", ..] => {
                let question = body.split_once("\n----").map_or(body, |(q, _)| q);
                write!(out, "{head}\n{question}\n----").expect("writing to a string");
                let (text, parameters) = split_question(question);
                let lines = if words[0] == "query" {
                    answers(
                        &text,
                        &parameters,
                        &container,
                        &items,
                        words.contains(&"[plan]"),
                    )
                } else {
                    let features = words[1..].join(" ");
                    plan_lines(&text, &parameters, &container, &features)
                };
                lines
                    .iter()
                    .for_each(|line| write!(out, "\n{line}").expect("writing to a string"));
            }
            _ => out.push_str(block),
        }
    }
    out.push('\n');
    out
}

fn split_question(question: &str) -> (String, Vec<(String, Json)>) {
    let is_parameter = |line: &&str| line.starts_with('@') && line.contains(" = ");
    let text: Vec<&str> = question.lines().filter(|l| !is_parameter(l)).collect();
    let parameters = question.lines().filter(is_parameter).map(|line| {
        let (name, value) = line.split_once(" = ").expect("a parameter");
        (
            name.to_owned(),
            parse(value.as_bytes()).expect("a parameter's value"),
        )
    });
    (text.join("\n"), parameters.collect())
}

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
    let plain = rows(&query, items, PLAIN, &mut work);
    let ways = [
        Way {
            max_items: 1,
            ..PLAIN
        },
        Way {
            max_items: 3,
            ..PLAIN
        },
        Way {
            max_bytes: 30,
            ..PLAIN
        },
        Way {
            clever_source: true,
            ..PLAIN
        },
        Way {
            clever_source: true,
            max_items: 1,
            ..PLAIN
        },
        Way {
            clever_source: true,
            max_items: 4,
            max_bytes: 100,
        },
    ];
    for way in ways {
        let again = rows(&query, items, way, &mut Work::default());
        let what = format!(
            "{text}\nin pages of {} rows, clever source {}",
            way.max_items, way.clever_source
        );
        match (&plain, &again) {
            (Ok(plain), Ok(again)) if text.contains("RAND()") => {
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

fn plan_lines(
    text: &str,
    parameters: &[(String, Json)],
    container: &Environment,
    features: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    match client_plan(text, parameters, container, features).map(|plan| plan.info) {
        Err(error) => return error_lines(&error),
        Ok(PlanInfo::Query(info)) => info_lines("", &info, &mut lines),
        Ok(PlanInfo::HybridSearch(info)) => info_lines("hybrid ", &info, &mut lines),
    }
    lines
}

/// The members that say something; several lines for a text of several.
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
