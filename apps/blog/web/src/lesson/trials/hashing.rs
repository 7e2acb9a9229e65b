//! Chapter 1: a reader types a key and sees the physical partition of `posts` in which it lies.
//!
//! The bar is the hash space with the real ranges of `posts` in the home model. Keys that were
//! typed before stay as marks: the form carries them, so that the server remembers nothing.

use super::Bench;
use super::Shell;
use crate::lesson::figures;
use crate::lesson::parts::{Picture, Table, rendered};
use crate::lesson::pictures::hash_range;
use askama::Template;
use orrery_blog::BlogError;
use orrery_blog::client::PartitionKeyRange;
use orrery_blog::lesson::hashing::{self, Place};
use orrery_blog::lesson::{hash_place, place};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys that stay as marks.
const KEYS_MAX: usize = 24;
/// Characters of a key.
const KEY_CHARS_MAX: usize = 100;
/// Keys at the first visit: the same digits as a text and as a number among them.
const FIRST_KEYS: [&str; 4] = ["\"mira\"", "\"omar\"", "\"1\"", "1"];

#[derive(Template)]
#[template(path = "lesson/trials/hashing.html")]
struct View {
    shell: Shell,
    /// The keys so far as a JSON array, for the next run.
    keys: String,
    kinds: [(&'static str, &'static str, bool); 4],
    typed: String,
    picture: String,
    answer: Option<Answer>,
}

/// The newest key with its place.
struct Answer {
    key: String,
    kind: &'static str,
    epk_head: String,
    epk_rest: String,
    computed: String,
    answered: String,
    is_equal: bool,
    charge: String,
}

#[derive(Template)]
#[template(path = "lesson/trials/hashing-bar.html")]
struct Bar {
    segments: Vec<Segment>,
    marks: Vec<Mark>,
}

/// A physical partition; lengths in percent of the bar.
struct Segment {
    x: String,
    width: String,
    is_lit: bool,
    is_odd: bool,
}

struct Mark {
    x: String,
    number: usize,
    y: usize,
    text_y: usize,
    is_newest: bool,
}

/// Returns the ranges of `posts`; empty if the database does not answer.
async fn ranges(bench: &Bench<'_>) -> Arc<Vec<PartitionKeyRange>> {
    let blog = bench.visit.home();
    let posts = blog.containers()[1].to_owned();
    blog.client().ranges(&posts).await.unwrap_or_default()
}

/// Returns the element with the keys of the form, or with those of the first visit.
pub(super) async fn show(bench: &Bench<'_>) -> String {
    let mut keys = kept_keys(bench);
    if keys.is_empty() {
        keys = FIRST_KEYS.map(parsed).to_vec();
    }
    let ranges = ranges(bench).await;
    element(bench, bench.shell.clone(), &keys, &ranges, None)
}

/// Places the typed key.
pub(super) async fn run(bench: &Bench<'_>) -> Result<String, BlogError> {
    let key = typed_key(bench).map_err(BlogError::InvalidOption)?;
    let found = hashing::locate(&bench.visit.home(), &key).await?;
    let mut keys = kept_keys(bench);
    keys.retain(|kept| *kept != key);
    keys.push(key.clone());
    let surplus = keys.len().saturating_sub(KEYS_MAX);
    keys.drain(..surplus);
    let shell = bench.shell.saying(format!(
        "The key {key} lies in physical partition {}.",
        found.asked.range
    ));
    let ranges = ranges(bench).await;
    Ok(element(
        bench,
        shell,
        &keys,
        &ranges,
        Some(answer(&key, found)),
    ))
}

/// Returns the keys that the form carries. A form that was changed by hand has none.
fn kept_keys(bench: &Bench<'_>) -> Vec<Value> {
    let kept: Vec<Value> = serde_json::from_str(bench.form.text("keys")).unwrap_or_default();
    let is_key = |key: &Value| {
        let is_short = key.to_string().chars().count() <= KEY_CHARS_MAX * 2;
        is_short && hashing::effective_key(key).is_some()
    };
    kept.into_iter().filter(is_key).take(KEYS_MAX).collect()
}

/// Returns the key in the form, or the mistake.
fn typed_key(bench: &Bench<'_>) -> Result<Value, String> {
    let text = bench.form.text("key");
    if text.chars().count() > KEY_CHARS_MAX {
        return Err(format!("A key has up to {KEY_CHARS_MAX} characters here."));
    }
    match bench.form.text("kind") {
        "number" => match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(whole(number)),
            _ => Err("That is not a number. Type digits, or choose “text”.".to_owned()),
        },
        "boolean" => match text.trim() {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => Err("A boolean is true or false. Type one of both words.".to_owned()),
        },
        "null" => Ok(Value::Null),
        _ => Ok(text.into()),
    }
}

/// Returns a number as JSON, without decimals if it has none.
fn whole(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Value::from(number as i64);
    }
    Value::from(number)
}

/// Returns the key that a JSON text is.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the type of a key in words.
fn kind_of(key: &Value) -> &'static str {
    match key {
        Value::String(_) => "text",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        _ => "null",
    }
}

fn answer(key: &Value, found: Place) -> Answer {
    let (head, rest) = found.epk.split_at(4);
    let computed = found.computed.unwrap_or_else(|| "none".to_owned());
    Answer {
        key: key.to_string(),
        kind: kind_of(key),
        epk_head: head.to_owned(),
        epk_rest: rest.to_owned(),
        is_equal: computed == found.asked.range,
        computed,
        answered: found.asked.range,
        charge: figures::exact_ru(found.asked.charge.ru()),
    }
}

fn element(
    bench: &Bench<'_>,
    shell: Shell,
    keys: &[Value],
    ranges: &[PartitionKeyRange],
    answer: Option<Answer>,
) -> String {
    let chosen = match bench.form.text("kind") {
        "" => "text",
        kind => kind,
    };
    let kinds = ["text", "number", "boolean", "null"];
    rendered(&View {
        shell,
        keys: Value::from(keys.to_vec()).to_string(),
        kinds: kinds.map(|kind| (kind, kind, kind == chosen)),
        typed: shown_again(bench.form.text("key")),
        picture: picture(keys, ranges),
        answer,
    })
}

/// Draws the hash space with its partitions and the keys.
fn picture(keys: &[Value], ranges: &[PartitionKeyRange]) -> String {
    let mut marks = Vec::new();
    let mut table = Table::new(&["Key", "Type", "Hash", "Partition", "Its range"]);
    let mut lit = BTreeSet::new();
    for (place, key) in keys.iter().enumerate() {
        let Some(epk) = hashing::effective_key(key) else {
            continue;
        };
        let range = hashing::range_of(ranges, &epk);
        let (id, from_to) = match range {
            Some(range) => (range.id.as_str(), hash_range(range)),
            None => ("unknown", "unknown".to_owned()),
        };
        lit.insert(id.to_owned());
        // Keys that lie close together stand at different heights.
        let y = 14 + place % 3 * 22;
        marks.push(Mark {
            x: percent(hash_place(&epk)),
            number: place + 1,
            y,
            text_y: y + 4,
            is_newest: place + 1 == keys.len(),
        });
        let name = format!("{}: {key}", place + 1);
        let cells = [name.as_str(), kind_of(key), &epk[..8], id, &from_to];
        table.row(&cells);
    }
    let segments = ranges.iter().enumerate().map(|(index, range)| {
        let (from, to) = place(range);
        Segment {
            x: percent(from),
            width: percent(to - from),
            is_lit: lit.contains(&range.id),
            is_odd: index % 2 == 1,
        }
    });
    let bar = Bar {
        segments: segments.collect(),
        marks,
    };
    Picture {
        kind: "hashing",
        title: format!(
            "Where keys lie: the hash space of posts, cut into {} physical partitions",
            ranges.len()
        ),
        description: format!(
            "{} keys lie in {} different physical partitions.",
            keys.len(),
            lit.len()
        ),
        drawing: rendered(&bar),
        table,
    }
    .html()
}

/// Returns a part of 1 as a length in SVG.
fn percent(part: f64) -> String {
    format!("{:.3}%", part * 100.0)
}

/// Returns what was typed as the field shows it again: without control characters, and no longer
/// than a key.
fn shown_again(typed: &str) -> String {
    let printable = typed.chars().filter(|one| !one.is_control());
    printable.take(KEY_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_and_control_characters_are_not_shown_again() {
        assert_eq!(shown_again("a\0\u{1b}b"), "ab");
        assert_eq!(
            shown_again(&"é".repeat(2_000_000)),
            "é".repeat(KEY_CHARS_MAX)
        );
    }

    #[test]
    fn numbers_are_keys_as_json_writes_them() {
        assert_eq!(whole(1.0), Value::from(1));
        assert_eq!(whole(-2.5).to_string(), "-2.5");
        assert_eq!(whole(1e300), Value::from(1e300));
    }

    #[test]
    fn the_picture_lists_each_key_with_its_hash() {
        let ranges = [PartitionKeyRange {
            id: "0".to_owned(),
            min: String::new(),
            max: "FF".to_owned(),
            parents: Vec::new(),
        }];
        let html = picture(&[parsed("\"redmond\""), parsed("null")], &ranges);
        assert!(
            html.contains("22E342F3") && html.contains("378867E4"),
            "{html}"
        );
        assert!(html.contains("2 keys lie in 1 different"), "{html}");
        // Without ranges the picture has no partitions, and says so in the table.
        assert!(picture(&[parsed("1")], &[]).contains("unknown"));
    }
}
