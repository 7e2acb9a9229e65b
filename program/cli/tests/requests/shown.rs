//! Answers as lines: the status, the headers that a script shows, and the body.
//!
//! ```text
//! 404/1003                       the status, and the sub-status if there is one
//! x-ms-request-charge: 1         the usual headers that the answer has, and those asked for
//! {"id":"a",…}                   the body, one member a line if it is long
//! ```
//!
//! Three forms are shorter than what was sent, and only stand for exactly that:
//!
//! ```text
//! NotFound: TEXT                 an error whose body has the code, and a message with the text
//!                                and the activity id of the answer
//! "_system": "<rid 1> <etag 1>"  the members that the server adds to a resource, in their order:
//!                                `_rid`, a `_self` that ends with it, `_etag`, links, `_ts`;
//!                                the `_token` of a permission stays
//! "_policies": "default"         the policies of a container that names none
//! ```

use super::script::{Shown, USUAL};
use super::stable::{Stable, TOKEN, without_times};
use crate::program::Answer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::json::parse;
use orrery_model::{Json, Object};
use percent_encoding::percent_decode_str;

/// The type of a body that a script does not show.
const USUAL_TYPE: &str = "application/json";
/// The members that the server adds to the resources of a kind, in their order. Those that are not
/// in [`VARYING`] have their own name as a link: `_docs` is `docs/`.
const SYSTEM: &[(&str, &[&str])] = &[
    (
        "dbs",
        &["_rid", "_self", "_etag", "_colls", "_users", "_ts"],
    ),
    (
        "colls",
        &[
            "_rid",
            "_self",
            "_etag",
            "_docs",
            "_sprocs",
            "_triggers",
            "_udfs",
            "_conflicts",
            "_ts",
        ],
    ),
    ("docs", &["_rid", "_self", "_etag", "_attachments", "_ts"]),
    ("users", &["_rid", "_self", "_etag", "_permissions", "_ts"]),
    ("permissions", &["_rid", "_self", "_etag", TOKEN, "_ts"]),
    ("sprocs", PLAIN),
    ("triggers", PLAIN),
    ("udfs", PLAIN),
    ("clientencryptionkeys", PLAIN),
    ("offers", PLAIN),
];
const PLAIN: &[&str] = &["_rid", "_self", "_etag", "_ts"];
const VARYING: &[&str] = &["_rid", "_self", "_etag", TOKEN, "_ts"];
/// The members with the policies of a container.
const POLICIES: &[&str] = &[
    "indexingPolicy",
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "geospatialConfig",
];
/// The policies of a container that names none, in their order.
const DEFAULT_POLICIES: &str = concat!(
    r#"{"indexingPolicy":{"indexingMode":"consistent","automatic":true,"#,
    r#""includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]},"#,
    r#""uniqueKeyPolicy":{"uniqueKeys":[]},"#,
    r#""conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","#,
    r#""conflictResolutionProcedure":""},"geospatialConfig":{"type":"Geography"}}"#,
);
/// Width to which bodies are broken.
const COLUMNS_MAX: usize = 100;

/// Returns the lines of an answer.
pub(super) fn lines(answer: &Answer, shown: &[Shown], stable: &mut Stable) -> Vec<String> {
    stable.note(answer);
    let mut lines = vec![match answer.header("x-ms-substatus") {
        Some(sub_status) => format!("{}/{sub_status}", answer.status),
        None => answer.status.to_string(),
    }];
    if shown.contains(&Shown::All) {
        let mut all: Vec<&str> = answer.head_lines().filter(|l| !l.is_empty()).collect();
        all.sort_unstable();
        lines.extend(all.into_iter().map(str::to_owned));
    } else {
        lines.extend(headers(answer, shown));
    }
    let body = match parse(&answer.body) {
        Ok(body) => match error_text(answer, &body) {
            Some(text) => text,
            None => {
                let body = stable.strings(without_times(shortened(body)));
                pretty(&body, 0, 0)
            }
        },
        Err(_) => answer.text(),
    };
    lines.extend(body.lines().map(str::to_owned));
    lines.iter().map(|line| stable.text(line)).collect()
}

/// Returns the usual headers and those that the script asks for.
fn headers(answer: &Answer, shown: &[Shown]) -> Vec<String> {
    let mut lines = Vec::new();
    for name in USUAL {
        let is_asked = shown.contains(&Shown::Plain((*name).to_owned()));
        let is_hidden = shown.contains(&Shown::Hidden((*name).to_owned()));
        if let Some(value) = answer.header(name).filter(|_| !is_asked && !is_hidden) {
            lines.push(format!("{name}: {value}"));
        }
    }
    let content_type = answer.header("content-type");
    let is_asked = shown.contains(&Shown::Plain("content-type".to_owned()));
    if let Some(content_type) = content_type.filter(|found| !is_asked && *found != USUAL_TYPE) {
        lines.push(format!("content-type: {content_type}"));
    }
    for header in shown {
        let (name, text) = match header {
            Shown::All | Shown::Hidden(_) => continue,
            Shown::Plain(name) => (name, answer.header(name).map(str::to_owned)),
            Shown::Percent(name) => (name, answer.header(name).map(percent_decoded)),
            Shown::Base64(name) => (name, answer.header(name).map(base64_decoded)),
        };
        // A header that was asked for says that it is absent.
        let text = text.unwrap_or_else(|| "(none)".to_owned());
        lines.push(format!("{name}: {text}"));
    }
    lines
}

fn percent_decoded(value: &str) -> String {
    let text = percent_decode_str(value).decode_utf8();
    match text {
        Ok(text) => format!("(percent) {text}"),
        Err(error) => format!("({error}) {value}"),
    }
}

fn base64_decoded(value: &str) -> String {
    let text = STANDARD.decode(value).map(String::from_utf8);
    match text {
        Ok(Ok(text)) => format!("(base64) {text}"),
        _ => format!("(no base64) {value}"),
    }
}

/// Returns the code and the text of an error in the usual form.
fn error_text(answer: &Answer, body: &Json) -> Option<String> {
    let [("code", code), ("message", message)] = body.as_object()?.iter().collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let end = format!("\r\nActivityId: {}", answer.header("x-ms-activity-id")?);
    let list = message.as_str()?.strip_prefix("Message: ")?;
    let list = parse(list.strip_suffix(&end)?.as_bytes()).ok()?;
    let [("Errors", Json::Array(texts))] = list.as_object()?.iter().collect::<Vec<_>>()[..] else {
        return None;
    };
    let [text] = texts.as_slice() else {
        return None;
    };
    let text = text.as_str()?;
    let is_exact = message.as_str()? == format!("Message: {}{end}", list.to_text());
    (is_exact && !text.contains('\n')).then(|| format!("{}: {text}", code.as_str().unwrap_or("")))
}

/// Returns a body in which one member stands for those that the server adds to a resource.
fn shortened(value: Json) -> Json {
    match value {
        Json::Array(elements) => {
            let elements: Vec<Json> = elements.into_iter().map(shortened).collect();
            Json::Array(elements)
        }
        Json::Object(members) => {
            let system = system_members(&members);
            let has_default_policies = has_default_policies(&members);
            let mut out = Object::new();
            for (name, value) in members {
                match &system {
                    Some((_, text)) if name == "_rid" => out.push_new("_system", text.as_str()),
                    Some((names, _)) if name != TOKEN && names.contains(&name.as_str()) => {}
                    _ if has_default_policies && name == "indexingPolicy" => {
                        out.push_new("_policies", "default");
                    }
                    _ if has_default_policies && POLICIES.contains(&name.as_str()) => {}
                    _ => out.push_new(name, shortened(value)),
                }
            }
            Json::Object(out)
        }
        other => other,
    }
}

/// Returns the names of the members that the server adds, with the resource id and the etag, if
/// they have their usual order and form.
fn system_members(members: &Object) -> Option<(&'static [&'static str], String)> {
    let text = |name: &str| members.get(name)?.as_str();
    let rid = text("_rid")?;
    let path = text("_self")?.strip_suffix(&format!("/{rid}/"))?;
    let kind = path.rsplit('/').next()?;
    let (_, wanted) = SYSTEM.iter().find(|(known, _)| *known == kind)?;

    let names: Vec<&str> = members.iter().map(|(name, _)| name).collect();
    let first = names.iter().position(|name| *name == "_rid")?;
    let has_order = names.get(first..first + wanted.len())? == *wanted;
    let mut links = wanted.iter().filter(|name| !VARYING.contains(name));
    let has_links = links.all(|name| text(name) == Some(&format!("{}/", &name[1..])));
    let has_time = members.get("_ts")?.as_i64().is_some();
    let etag = text("_etag")?.strip_prefix('"')?.strip_suffix('"')?;
    let is_usual = has_order && has_links && has_time && is_below(rid, path);
    is_usual.then(|| (*wanted, format!("{rid} {etag}")))
}

/// Returns true if the resource ids of a path, of which each second segment is one, begin one
/// another, and `rid` begins with all of them.
fn is_below(rid: &str, path: &str) -> bool {
    let bytes = |rid: &str| STANDARD.decode(rid.replace('-', "/")).ok();
    let Some(rid) = bytes(rid) else {
        return false;
    };
    let mut above = path.split('/').skip(1).step_by(2);
    above.all(|parent| bytes(parent).is_some_and(|parent| rid.starts_with(&parent)))
}

/// Returns true if the policies of a container are those of one that names none.
fn has_default_policies(members: &Object) -> bool {
    let is_policy = |(name, _): &(&str, &Json)| POLICIES.contains(name);
    let found: Object = members
        .iter()
        .filter(is_policy)
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    Json::Object(found).to_text() == DEFAULT_POLICIES
}

/// Returns a value as compact text, or with one member a line if the text is too wide; `indent` are
/// the spaces before the value's members, `column` is the column at which it begins.
fn pretty(value: &Json, indent: usize, column: usize) -> String {
    let compact = value.to_text();
    if column + compact.chars().count() <= COLUMNS_MAX {
        return compact;
    }
    let inner = indent + 2;
    let margin = " ".repeat(inner);
    let is_scalar = |value: &Json| !matches!(value, Json::Array(_) | Json::Object(_));
    let (open, close, parts): (_, _, Vec<String>) = match value {
        Json::Array(elements) if !elements.is_empty() && elements.iter().all(is_scalar) => {
            ('[', ']', filled(elements, &margin))
        }
        Json::Array(elements) if !elements.is_empty() => {
            let part = |element| format!("{margin}{}", pretty(element, inner, inner));
            ('[', ']', elements.iter().map(part).collect())
        }
        Json::Object(members) if !members.is_empty() => {
            let part = |(name, value): (&str, &Json)| {
                let name = Json::from(name).to_text();
                let column = inner + name.chars().count() + 2;
                format!("{margin}{name}: {}", pretty(value, inner, column))
            };
            ('{', '}', members.iter().map(part).collect())
        }
        _ => return compact,
    };
    format!(
        "{open}\n{}\n{}{close}",
        parts.join(",\n"),
        " ".repeat(indent)
    )
}

/// Returns the lines of scalars, as many on a line as fit.
fn filled(elements: &[Json], margin: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for element in elements {
        let text = element.to_text();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + text.chars().count() < COLUMNS_MAX => {
                line.push(',');
                line.push_str(&text);
            }
            _ => lines.push(format!("{margin}{text}")),
        }
    }
    lines
}

#[test]
fn policies_are_shortened_if_all_are_those_of_a_container_that_names_none() {
    let short = |text: &str| shortened(parse(text.as_bytes()).expect("JSON")).to_text();
    let usual = DEFAULT_POLICIES.replace(
        r#""uniqueKeyPolicy"#,
        r#""partitionKey":1,"uniqueKeyPolicy"#,
    );
    assert_eq!(
        short(&usual),
        r#"{"_policies":"default","partitionKey":1}"#,
        "{usual}"
    );
    for (part, other) in [
        ("consistent", "none"),
        ("/_ts", "/n"),
        (r#""geospatialConfig":{"type":"Geography"}"#, r#""n":1"#),
    ] {
        let unusual = usual.replace(part, other);
        assert_ne!(unusual, usual, "{part}");
        assert_eq!(short(&unusual), unusual);
    }
}

#[test]
fn members_of_the_server_are_shortened_in_their_usual_form_only() {
    let short = |text: &str| shortened(parse(text.as_bytes()).expect("JSON")).to_text();
    let usual = concat!(
        r#"{"id":"a","_rid":"AAAA","_self":"dbs/AA==/docs/AAAA/","_etag":"\"e\"","#,
        r#""_attachments":"attachments/","_ts":7,"n":1}"#,
    );
    assert_eq!(short(usual), r#"{"id":"a","_system":"AAAA e","n":1}"#);
    for (part, other) in [
        ("docs/AAAA/", "docs/AAAB/"),
        ("dbs/AA==", "dbs/BA=="),
        ("/docs/", "/users/"),
        (r#""attachments/""#, r#""other/""#),
        (r#""_attachments":"attachments/","#, ""),
        (r#""\"e\"""#, r#""e""#),
        (r#""_ts":7"#, r#""_ts":"7""#),
        (r#""_rid":"AAAA","#, ""),
        (r#","_ts":7,"n":1"#, r#","n":1,"_ts":7"#),
        (r#","_ts":7"#, ""),
    ] {
        let unusual = usual.replace(part, other);
        assert_ne!(unusual, usual, "{part}");
        assert_eq!(short(&unusual), unusual);
    }
}
