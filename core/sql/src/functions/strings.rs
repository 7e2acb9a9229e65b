//! String functions. Positions count characters from 0, lengths count characters. Case follows the
//! simple case mapping of Unicode.

use super::{ANY, Arguments, Function, IndexUse, Quantifier, metered, strict};
use crate::error::QueryError;
use crate::run::frame::Context;
use crate::value::STRING_BYTES;
use orrery_model::json::{Json, Number, parse};

/// Largest number of characters that REPLICATE returns.
const REPLICATE_CHARACTERS: usize = 10_000;

pub(super) const TABLE: &[Function] = &[
    strict(&["CONCAT"], (2, ANY), "the strings joined", concat),
    strict(
        &["CONTAINS"],
        (2, 3),
        "true if the first contains the second; the third makes it case-insensitive",
        |a| compare_texts(a, contains),
    )
    .index_use(IndexUse::IndexScan),
    strict(
        &["STARTSWITH", "STARTS_WITH"],
        (2, 3),
        "true if the first begins with the second; the third makes it case-insensitive",
        |a| compare_texts(a, starts_with),
    )
    .index_use(IndexUse::Range),
    strict(
        &["ENDSWITH", "ENDS_WITH"],
        (2, 3),
        "true if the first ends with the second; the third makes it case-insensitive",
        |a| compare_texts(a, ends_with),
    )
    .index_use(IndexUse::IndexScan),
    strict(
        &["STRINGEQUALS", "STRING_EQUALS"],
        (2, 3),
        "true if both are equal; the third makes it case-insensitive",
        |a| compare_texts(a, string_equals),
    )
    .index_use(IndexUse::Seek),
    metered(
        &["CONTAINS_ALL_CI"],
        (2, ANY),
        "true if the first contains all others, in any case",
        |cx, a| contains_several(cx, a, Quantifier::All, true),
    ),
    metered(
        &["CONTAINS_ALL_CS"],
        (2, ANY),
        "true if the first contains all others",
        |cx, a| contains_several(cx, a, Quantifier::All, false),
    ),
    metered(
        &["CONTAINS_ANY_CI"],
        (2, ANY),
        "true if the first contains one of the others, in any case",
        |cx, a| contains_several(cx, a, Quantifier::Any, true),
    ),
    metered(
        &["CONTAINS_ANY_CS"],
        (2, ANY),
        "true if the first contains one of the others",
        |cx, a| contains_several(cx, a, Quantifier::Any, false),
    ),
    strict(
        &["INDEX_OF", "INDEXOF"],
        (2, 3),
        "the position of the first occurrence of the second in the first, or -1",
        index_of,
    ),
    strict(
        &["LASTINDEXOF", "LAST_INDEX_OF"],
        (2, 3),
        "the position of the last occurrence of the second in the first, or -1",
        last_index_of,
    ),
    strict(&["LENGTH"], (1, 1), "the number of characters", |a| {
        Some(Json::from(a.text(0)?.chars().count()))
    }),
    strict(&["LOWER"], (1, 1), "the string in lower case", |a| {
        Some(Json::String(lower(a.text(0)?)))
    }),
    strict(&["UPPER"], (1, 1), "the string in upper case", |a| {
        Some(Json::String(upper(a.text(0)?)))
    }),
    strict(
        &["LEFT"],
        (2, 2),
        "a number of characters from the start",
        |a| {
            let count = character_count(a.integer(1)?);
            Some(Json::String(a.text(0)?.chars().take(count).collect()))
        },
    ),
    strict(
        &["RIGHT"],
        (2, 2),
        "a number of characters from the end",
        |a| {
            let text = a.text(0)?;
            let count = character_count(a.integer(1)?);
            let skipped = text.chars().count().saturating_sub(count);
            Some(Json::String(text.chars().skip(skipped).collect()))
        },
    ),
    strict(
        &["SUBSTRING"],
        (3, 3),
        "a number of characters from a position on",
        substring,
    ),
    strict(
        &["LTRIM"],
        (1, 2),
        "the string without leading characters of a set, by default white space",
        |a| trim(a, true, false),
    ),
    strict(
        &["RTRIM"],
        (1, 2),
        "the string without trailing characters of a set, by default white space",
        |a| trim(a, false, true),
    ),
    strict(
        &["TRIM"],
        (1, 2),
        "the string without characters of a set at both ends, by default white space",
        |a| trim(a, true, true),
    ),
    strict(
        &["REPLACE"],
        (3, 3),
        "the string with every occurrence of the second replaced by the third",
        |a| {
            let (text, find, with) = (a.text(0)?, a.text(1)?, a.text(2)?);
            replace(text, find, with)
        },
    ),
    strict(
        &["REPLICATE"],
        (2, 2),
        "the string repeated a number of times, at most 10,000 characters",
        replicate,
    ),
    strict(
        &["REVERSE"],
        (1, 1),
        "the characters in reverse order",
        |a| Some(Json::String(a.text(0)?.chars().rev().collect())),
    ),
    strict(
        &["STRINGJOIN", "STRING_JOIN"],
        (2, 2),
        "the strings of an array joined with a separator",
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
        "the part after the first occurrence",
        |a| Some(Json::from(a.text(0)?.split_once(a.text(1)?)?.1)),
    ),
    strict(
        &["SUBSTRINGBEFORE", "SUBSTRING_BEFORE"],
        (2, 2),
        "the part before the first occurrence",
        |a| Some(Json::from(a.text(0)?.split_once(a.text(1)?)?.0)),
    ),
    strict(
        &["LASTSUBSTRINGAFTER", "LAST_SUBSTRING_AFTER"],
        (2, 2),
        "the part after the last occurrence",
        |a| Some(Json::from(a.text(0)?.rsplit_once(a.text(1)?)?.1)),
    ),
    strict(
        &["LASTSUBSTRINGBEFORE", "LAST_SUBSTRING_BEFORE"],
        (2, 2),
        "the part before the last occurrence",
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
        "the number of a JSON text",
        |a| parse_json(a, |v| matches!(v, Json::Number(_))),
    ),
    strict(
        &["STRINGTOBOOLEAN", "STRING_TO_BOOLEAN"],
        (1, 1),
        "the boolean of a JSON text",
        |a| parse_json(a, |v| matches!(v, Json::Bool(_))),
    ),
    strict(
        &["STRINGTONULL", "STRING_TO_NULL"],
        (1, 1),
        "null, if the JSON text is null",
        |a| parse_json(a, |v| matches!(v, Json::Null)),
    ),
    strict(
        &["STRINGTOARRAY", "STRING_TO_ARRAY"],
        (1, 1),
        "the array of a JSON text",
        |a| parse_json(a, |v| matches!(v, Json::Array(_))),
    ),
    strict(
        &["STRINGTOOBJECT", "STRING_TO_OBJECT"],
        (1, 1),
        "the object of a JSON text",
        |a| parse_json(a, |v| matches!(v, Json::Object(_))),
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

/// Returns the text in lower case. A character whose lower case is several characters stays.
pub(crate) fn lower(text: &str) -> String {
    text.chars()
        .map(|c| simple_mapping(c, c.to_lowercase()))
        .collect()
}

/// Returns the text in upper case. A character whose upper case is several characters stays.
fn upper(text: &str) -> String {
    text.chars()
        .map(|c| simple_mapping(c, c.to_uppercase()))
        .collect()
}

fn simple_mapping(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Applies a test to the first two arguments. The optional third one ignores case.
fn compare_texts(a: Arguments<'_, '_>, test: fn(&str, &str) -> bool) -> Option<Json> {
    let (text, part) = (a.text(0)?, a.text(1)?);
    let result = if a.flag(2)? {
        test(&lower(text), &lower(part))
    } else {
        test(text, part)
    };
    Some(Json::Bool(result))
}

/// Combines CONTAINS for several strings with AND (`All`) or OR (`Any`) in three-valued logic: an
/// argument that is no string makes the result undefined, unless another one decides it.
fn contains_several(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    quantifier: Quantifier,
    ignores_case: bool,
) -> Result<Option<Json>, QueryError> {
    let fold = |text: &str| {
        if ignores_case {
            lower(text)
        } else {
            text.to_owned()
        }
    };
    let Some(text) = a.text(0).map(fold) else {
        return Ok(None);
    };
    // For `All` a missing string decides, for `Any` one that is found.
    let decisive = quantifier == Quantifier::Any;
    let mut has_undefined = false;
    for part in a.iter().skip(1) {
        cx.count_bytes(text.len())?;
        let Some(part) = part.and_then(Json::as_str) else {
            has_undefined = true;
            continue;
        };
        if text.contains(&fold(part)) == decisive {
            return Ok(Some(Json::Bool(decisive)));
        }
    }
    Ok((!has_undefined).then_some(Json::Bool(!decisive)))
}

fn concat(a: Arguments<'_, '_>) -> Option<Json> {
    let parts: Option<Vec<&str>> = a.iter().map(|v| v?.as_str()).collect();
    let parts = parts?;
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    (bytes <= STRING_BYTES).then(|| Json::String(parts.concat()))
}

/// Returns the byte at which the character at `position` begins. The end of the text is a position.
fn byte_of(text: &str, position: usize) -> Option<usize> {
    text.char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()])
        .nth(position)
}

/// Returns the position of the character that begins at `byte`.
fn position_of(text: &str, byte: usize) -> Json {
    Json::from(text[..byte].chars().count())
}

/// INDEX_OF: the search begins at the position in the optional third argument.
fn index_of(a: Arguments<'_, '_>) -> Option<Json> {
    let (text, part) = (a.text(0)?, a.text(1)?);
    let start = usize::try_from(a.integer_or(2, 0)?).ok()?;
    let Some(start_byte) = byte_of(text, start) else {
        return Some(Json::from(-1));
    };
    match text[start_byte..].find(part) {
        Some(byte) => Some(position_of(text, start_byte + byte)),
        None => Some(Json::from(-1)),
    }
}

/// LASTINDEXOF: the search runs backwards from the position in the optional third argument, and the
/// whole match lies at or before that position.
fn last_index_of(a: Arguments<'_, '_>) -> Option<Json> {
    let (text, part) = (a.text(0)?, a.text(1)?);
    let last = usize::try_from(a.integer_or(2, i64::MAX)?).ok()?;
    let end_byte = byte_of(text, last.saturating_add(1)).unwrap_or(text.len());
    match text[..end_byte].rfind(part) {
        Some(byte) => Some(position_of(text, byte)),
        None => Some(Json::from(-1)),
    }
}

fn substring(a: Arguments<'_, '_>) -> Option<Json> {
    let (text, start, length) = (a.text(0)?, a.integer(1)?, a.integer(2)?);
    // A start before the text selects nothing: it does not count from the end of the text.
    let Ok(start) = usize::try_from(start) else {
        return Some(Json::from(""));
    };
    let count = character_count(length);
    Some(Json::String(text.chars().skip(start).take(count).collect()))
}

/// Returns a number of characters as LEFT, RIGHT and SUBSTRING take it: a negative number is zero.
fn character_count(number: i64) -> usize {
    usize::try_from(number.max(0)).unwrap_or(usize::MAX)
}

fn trim(a: Arguments<'_, '_>, at_start: bool, at_end: bool) -> Option<Json> {
    let (mut text, set) = (a.text(0)?, a.text_or(1, "")?);
    let has_set = a.len() > 1;
    let is_trimmed = |c: char| {
        if has_set {
            set.contains(c)
        } else {
            c.is_whitespace()
        }
    };
    if at_start {
        text = text.trim_start_matches(is_trimmed);
    }
    if at_end {
        text = text.trim_end_matches(is_trimmed);
    }
    Some(Json::from(text))
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
    // An upper bound of the result, before it is made.
    let added = text.matches(find).count().saturating_mul(with.len());
    let bytes = text.len().saturating_add(added);
    (bytes <= STRING_BYTES).then(|| Json::String(text.replace(find, with)))
}

fn string_join(a: Arguments<'_, '_>) -> Option<Json> {
    let separator = a.text(1)?;
    let parts: Option<Vec<&str>> = a.array(0)?.iter().map(Json::as_str).collect();
    let parts = parts?;
    let bytes: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
    (bytes <= STRING_BYTES).then(|| Json::String(parts.join(separator)))
}

fn to_string(value: &Json) -> String {
    match value {
        Json::String(s) => s.clone(),
        // Numbers get their shortest form instead of the sender's: 1.0 becomes "1".
        Json::Number(n) => match n.exact_integer() {
            Some(integer) => integer.to_string(),
            None => Number::from(n.as_f64()).text(),
        },
        other => other.to_text(),
    }
}

/// Parses the first argument as JSON. The result is undefined if it is not of the wanted type.
fn parse_json(a: Arguments<'_, '_>, is_wanted: fn(&Json) -> bool) -> Option<Json> {
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let text = a.text(0)?.trim_matches(is_blank);
    parse(text.as_bytes()).ok().filter(is_wanted)
}
