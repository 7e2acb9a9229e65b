//! String functions. Positions and lengths count characters, from 0; case is Unicode's simple mapping.

use super::{ANY, Arguments, Function, IndexUse, metered, strict};
use crate::error::QueryError;
use crate::run::frame::Context;
use crate::value::STRING_BYTES;
use orrery_model::json::{Json, Number, parse};

/// Characters that REPLICATE gives at most.
const REPLICATE_CHARACTERS: usize = 10_000;

pub(super) const TABLE: &[Function] = &[
    strict(
        &["CONCAT"],
        (2, ANY),
        "the strings one after the other",
        concat,
    ),
    strict(
        &["CONTAINS"],
        (2, 3),
        "whether the second is in the first",
        |a| tested(a, contains),
    )
    .index_use(IndexUse::IndexScan),
    strict(
        &["STARTSWITH", "STARTS_WITH"],
        (2, 3),
        "whether the first begins with the second",
        |a| tested(a, starts_with),
    )
    .index_use(IndexUse::Range),
    strict(
        &["ENDSWITH", "ENDS_WITH"],
        (2, 3),
        "whether the first ends with the second",
        |a| tested(a, ends_with),
    )
    .index_use(IndexUse::IndexScan),
    strict(
        &["STRINGEQUALS", "STRING_EQUALS"],
        (2, 3),
        "whether both are the same",
        |a| tested(a, string_equals),
    )
    .index_use(IndexUse::Seek),
    metered(
        &["CONTAINS_ALL_CI"],
        (2, ANY),
        "whether all others are in the first, in any case",
        |cx, a| several(cx, a, true, true),
    ),
    metered(
        &["CONTAINS_ALL_CS"],
        (2, ANY),
        "whether all others are in the first",
        |cx, a| several(cx, a, true, false),
    ),
    metered(
        &["CONTAINS_ANY_CI"],
        (2, ANY),
        "whether one of the others is in the first, in any case",
        |cx, a| several(cx, a, false, true),
    ),
    metered(
        &["CONTAINS_ANY_CS"],
        (2, ANY),
        "whether one of the others is in the first",
        |cx, a| several(cx, a, false, false),
    ),
    strict(
        &["INDEX_OF", "INDEXOF"],
        (2, 3),
        "where the second first begins in the first, or -1",
        index_of,
    ),
    strict(
        &["LASTINDEXOF", "LAST_INDEX_OF"],
        (2, 3),
        "where the second last begins in the first, or -1",
        last_index_of,
    ),
    strict(&["LENGTH"], (1, 1), "how many characters", |a| {
        Some(Json::from(a.text(0)?.chars().count()))
    }),
    strict(&["LOWER"], (1, 1), "in small letters", |a| {
        Some(Json::String(lower(a.text(0)?)))
    }),
    strict(&["UPPER"], (1, 1), "in capitals", |a| {
        Some(Json::String(upper(a.text(0)?)))
    }),
    strict(&["LEFT"], (2, 2), "the first so many characters", |a| {
        let count = usize::try_from(a.whole(1)?).ok()?;
        Some(Json::String(a.text(0)?.chars().take(count).collect()))
    }),
    strict(&["RIGHT"], (2, 2), "the last so many characters", |a| {
        let (text, count) = (a.text(0)?, usize::try_from(a.whole(1)?).ok()?);
        Some(Json::String(
            text.chars()
                .skip(text.chars().count().saturating_sub(count))
                .collect(),
        ))
    }),
    strict(
        &["SUBSTRING"],
        (3, 3),
        "from a position, so many characters",
        substring,
    ),
    strict(
        &["LTRIM"],
        (1, 2),
        "without leading characters of a set, by default white space",
        |a| trim(a, true, false),
    ),
    strict(
        &["RTRIM"],
        (1, 2),
        "without trailing characters of a set, by default white space",
        |a| trim(a, false, true),
    ),
    strict(
        &["TRIM"],
        (1, 2),
        "without characters of a set at both ends, by default white space",
        |a| trim(a, true, true),
    ),
    strict(
        &["REPLACE"],
        (3, 3),
        "with every occurrence of the second as the third",
        |a| {
            let (text, find, with) = (a.text(0)?, a.text(1)?, a.text(2)?);
            replace(text, find, with)
        },
    ),
    strict(
        &["REPLICATE"],
        (2, 2),
        "so many times over, at most 10,000 characters",
        replicate,
    ),
    strict(&["REVERSE"], (1, 1), "back to front", |a| {
        Some(Json::String(a.text(0)?.chars().rev().collect()))
    }),
    strict(
        &["STRINGJOIN", "STRING_JOIN"],
        (2, 2),
        "an array of strings in one, with a separator",
        string_join,
    ),
    strict(
        &["STRINGSPLIT", "STRING_SPLIT"],
        (2, 2),
        "the parts between separators, as an array",
        |a| {
            let (text, separator) = (a.text(0)?, a.text(1)?);
            let parts = if separator.is_empty() {
                vec![text]
            } else {
                text.split(separator).collect()
            };
            Some(Json::Array(parts.into_iter().map(Json::from).collect()))
        },
    ),
    strict(
        &["SUBSTRINGAFTER", "SUBSTRING_AFTER"],
        (2, 2),
        "what follows the first occurrence",
        |a| Some(Json::from(a.text(0)?.split_once(a.text(1)?)?.1)),
    ),
    strict(
        &["SUBSTRINGBEFORE", "SUBSTRING_BEFORE"],
        (2, 2),
        "what stands before the first occurrence",
        |a| Some(Json::from(a.text(0)?.split_once(a.text(1)?)?.0)),
    ),
    strict(
        &["LASTSUBSTRINGAFTER", "LAST_SUBSTRING_AFTER"],
        (2, 2),
        "what follows the last occurrence",
        |a| Some(Json::from(a.text(0)?.rsplit_once(a.text(1)?)?.1)),
    ),
    strict(
        &["LASTSUBSTRINGBEFORE", "LAST_SUBSTRING_BEFORE"],
        (2, 2),
        "what stands before the last occurrence",
        |a| Some(Json::from(a.text(0)?.rsplit_once(a.text(1)?)?.0)),
    ),
    strict(
        &["TOSTRING", "TO_STRING"],
        (1, 1),
        "the value as text",
        |a| Some(Json::String(to_string(a.get(0)?))),
    ),
    strict(
        &["STRINGTONUMBER", "STRING_TO_NUMBER"],
        (1, 1),
        "the number that the JSON text is",
        |a| read(a, |v| matches!(v, Json::Number(_))),
    ),
    strict(
        &["STRINGTOBOOLEAN", "STRING_TO_BOOLEAN"],
        (1, 1),
        "the boolean that the JSON text is",
        |a| read(a, |v| matches!(v, Json::Bool(_))),
    ),
    strict(
        &["STRINGTONULL", "STRING_TO_NULL"],
        (1, 1),
        "null, if the JSON text is that",
        |a| read(a, |v| matches!(v, Json::Null)),
    ),
    strict(
        &["STRINGTOARRAY", "STRING_TO_ARRAY"],
        (1, 1),
        "the array that the JSON text is",
        |a| read(a, |v| matches!(v, Json::Array(_))),
    ),
    strict(
        &["STRINGTOOBJECT", "STRING_TO_OBJECT"],
        (1, 1),
        "the object that the JSON text is",
        |a| read(a, |v| matches!(v, Json::Object(_))),
    ),
];

pub(crate) fn contains(text: &str, part: &str) -> bool {
    text.contains(part)
}

pub(crate) fn starts_with(text: &str, part: &str) -> bool {
    text.starts_with(part)
}

pub(crate) fn ends_with(text: &str, part: &str) -> bool {
    text.ends_with(part)
}

pub(crate) fn string_equals(text: &str, other: &str) -> bool {
    text == other
}

/// Each character's small letter where that is one character.
pub(crate) fn lower(text: &str) -> String {
    text.chars().map(|c| simple(c, c.to_lowercase())).collect()
}

fn upper(text: &str) -> String {
    text.chars().map(|c| simple(c, c.to_uppercase())).collect()
}

fn simple(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn tested(a: Arguments<'_, '_>, test: fn(&str, &str) -> bool) -> Option<Json> {
    let (text, part) = (a.text(0)?, a.text(1)?);
    let found = if a.flag(2)? {
        test(&lower(text), &lower(part))
    } else {
        test(text, part)
    };
    Some(Json::Bool(found))
}

/// AND or OR of CONTAINS, in three-valued logic.
fn several(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    all: bool,
    any_case: bool,
) -> Result<Option<Json>, QueryError> {
    let fold = |text: &str| {
        if any_case {
            lower(text)
        } else {
            text.to_owned()
        }
    };
    let Some(text) = a.text(0).map(fold) else {
        return Ok(None);
    };
    let mut unknown = false;
    for part in a.iter().skip(1) {
        cx.count_bytes(text.len())?;
        match part.and_then(Json::as_str) {
            None => unknown = true,
            Some(part) if text.contains(&fold(part)) != all => return Ok(Some(Json::Bool(!all))),
            Some(_) => {}
        }
    }
    Ok((!unknown).then_some(Json::Bool(all)))
}

fn concat(a: Arguments<'_, '_>) -> Option<Json> {
    let parts: Option<Vec<&str>> = a.iter().map(|v| v?.as_str()).collect();
    let parts = parts?;
    let fits = parts.iter().map(|p| p.len()).sum::<usize>() <= STRING_BYTES;
    fits.then(|| Json::String(parts.concat()))
}

/// The byte at which character number `position` begins, the end included.
fn byte_of(text: &str, position: usize) -> Option<usize> {
    text.char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .nth(position)
}

fn character_of(text: &str, byte: usize) -> Json {
    Json::from(text[..byte].chars().count())
}

fn index_of(a: Arguments<'_, '_>) -> Option<Json> {
    let (text, part) = (a.text(0)?, a.text(1)?);
    let start = usize::try_from(a.whole_or(2, 0)?).ok()?;
    let Some(from) = byte_of(text, start) else {
        return Some(Json::from(-1));
    };
    Some(
        text[from..]
            .find(part)
            .map_or(Json::from(-1), |at| character_of(text, from + at)),
    )
}

/// The search runs backwards from `start`: the whole match lies at or before it.
fn last_index_of(a: Arguments<'_, '_>) -> Option<Json> {
    let (text, part) = (a.text(0)?, a.text(1)?);
    let last = a.whole_or(2, i64::MAX)?;
    let end = usize::try_from(last).ok()?.saturating_add(1);
    let end = byte_of(text, end).unwrap_or(text.len());
    Some(
        text[..end]
            .rfind(part)
            .map_or(Json::from(-1), |at| character_of(text, at)),
    )
}

fn substring(a: Arguments<'_, '_>) -> Option<Json> {
    let (text, start, length) = (a.text(0)?, a.number(1)?, a.number(2)?);
    if start < 0.0 || start.is_nan() || length.is_nan() {
        return None;
    }
    let count = if length <= 0.0 { 0 } else { length as usize };
    Some(Json::String(
        text.chars().skip(start as usize).take(count).collect(),
    ))
}

fn trim(a: Arguments<'_, '_>, start: bool, end: bool) -> Option<Json> {
    let (text, set) = (a.text(0)?, a.text_or(1, "")?);
    let by_default = a.len() < 2;
    let cut = |c: char| {
        if by_default {
            c.is_whitespace()
        } else {
            set.contains(c)
        }
    };
    let text = if start {
        text.trim_start_matches(cut)
    } else {
        text
    };
    Some(Json::from(if end {
        text.trim_end_matches(cut)
    } else {
        text
    }))
}

fn replicate(a: Arguments<'_, '_>) -> Option<Json> {
    let (text, times) = (a.text(0)?, a.number(1)?);
    if !times.is_finite() || times < 0.0 {
        return None;
    }
    let times = times as usize;
    let characters = text.chars().count().checked_mul(times)?;
    (characters <= REPLICATE_CHARACTERS).then(|| Json::String(text.repeat(times)))
}

fn replace(text: &str, find: &str, with: &str) -> Option<Json> {
    if find.is_empty() {
        return Some(Json::from(text));
    }
    let bytes = text
        .len()
        .saturating_add(text.matches(find).count().saturating_mul(with.len()));
    (bytes <= STRING_BYTES).then(|| Json::String(text.replace(find, with)))
}

fn string_join(a: Arguments<'_, '_>) -> Option<Json> {
    let separator = a.text(1)?;
    let parts: Option<Vec<&str>> = a.array(0)?.iter().map(Json::as_str).collect();
    let parts = parts?;
    let bytes = parts
        .iter()
        .map(|p| p.len() + separator.len())
        .sum::<usize>();
    (bytes <= STRING_BYTES).then(|| Json::String(parts.join(separator)))
}

fn to_string(value: &Json) -> String {
    match value {
        Json::String(s) => s.clone(),
        // The shortest form, not the sender's: 1.0 reads "1".
        Json::Number(n) => n
            .exact_integer()
            .map_or_else(|| Number::from(n.as_f64()).text(), |i| i.to_string()),
        other => other.to_text(),
    }
}

fn read(a: Arguments<'_, '_>, wanted: fn(&Json) -> bool) -> Option<Json> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    parse(a.text(0)?.trim_matches(blank).as_bytes())
        .ok()
        .filter(wanted)
}
