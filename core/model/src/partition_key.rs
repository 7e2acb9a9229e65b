//! Partition keys: the definition of a container, the value of an item, and the effective partition
//! key (EPK), which is the position of a value in the hash space.
//!
//! ```text
//! definition  {"paths":["/postId"],"kind":"Hash","version":2}
//! value       ["p1"]         one component for each path: null, undefined ({} in the header),
//!                            boolean, number or string
//! EPK         039078CA…      hexadecimal form of the bytes that order the hash space ""…"FF"
//! ```
//! The hash is that of the official SDKs; `epk.rs` contains their test vectors.

mod address;
mod epk;
mod murmur;

pub use address::{KeyAddress, KeyDigest};
pub use epk::{Epk, EpkRange};
pub use murmur::murmur3_128;

use crate::error::{Error, Result};
use crate::json::{Json, Object, parse};
use crate::limits;
use crate::object;
use crate::words::shortened;

/// The hash of a partition key definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// Version 1: a 32-bit hash of the first 100 characters.
    V1,
    /// Version 2: a 128-bit hash of all components together.
    V2,
    /// `MultiHash`, for hierarchical keys: the 128-bit hashes of the components, one after another.
    Multi,
}

/// The partition key definition of a container. Two definitions are equal if they give each item
/// the same EPK, even if their JSON differs.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The property names of each path.
    paths: Vec<Vec<String>>,
    /// The paths as the client wrote them.
    path_texts: Vec<String>,
    hashing: Hashing,
    /// True if the client named the version. The default is 1, and a read returns what was given.
    has_explicit_version: bool,
    /// True for a container that was created without a partition key.
    is_system_key: bool,
}

/// One component of a partition key value.
#[derive(Clone, Debug)]
pub enum Component {
    /// The item does not have the property.
    Undefined,
    /// `null`
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, hashed as a double.
    Number(f64),
    /// A string.
    String(String),
}

/// A partition key value: one component for each path of the definition, or fewer for a prefix.
#[derive(Clone, Debug, Default)]
pub struct PartitionKey {
    components: Vec<Component>,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.paths == other.paths
            && self.hashing == other.hashing
            && self.is_system_key == other.is_system_key
    }
}

impl Eq for Definition {}

impl Definition {
    /// Parses the `partitionKey` member of a container's body.
    ///
    /// # Errors
    /// 400 unless there is one path (`Hash`), or one to three paths (`MultiHash`, version 2), of
    /// property names without wildcards.
    pub fn from_json(body: &Json) -> Result<Self> {
        let Some(body) = body.as_object() else {
            return Err(invalid_definition("it is not an object"));
        };
        let path_texts = path_texts(body)?;
        let version = match body.get("version") {
            None | Some(Json::Null) => None,
            Some(version) => Some(version_number(version).ok_or_else(|| {
                invalid_definition("'version' is neither a number nor 'V1' or 'V2'")
            })?),
        };
        let hashing = hashing(body, version)?;

        let paths_max = if hashing == Hashing::Multi {
            limits::PARTITION_KEY_LEVELS
        } else {
            1
        };
        if path_texts.is_empty() {
            return Err(invalid_definition("it has no paths"));
        }
        if path_texts.len() > paths_max {
            let count = path_texts.len();
            return Err(invalid_definition(&format!(
                "Too many partition key paths: {count} where at most {paths_max} are allowed"
            )));
        }
        let mut paths = Vec::with_capacity(path_texts.len());
        for text in &path_texts {
            let names = parse_path(text).ok_or_else(|| invalid_path(text))?;
            paths.push(names);
        }

        // A client may send back the definition that a read of a container without a key returned.
        let is_system_key = body
            .get("systemKey")
            .and_then(Json::as_bool)
            .unwrap_or(false);
        Ok(Definition {
            paths,
            path_texts,
            hashing,
            has_explicit_version: version.is_some(),
            is_system_key,
        })
    }

    /// Returns the definition of a container that was created without a partition key.
    ///
    /// Items that do not have the property `_partitionKey`, which is the usual case, belong to the
    /// empty key `[]` at the beginning of the hash space.
    pub fn system_key() -> Self {
        Definition {
            paths: vec![vec!["_partitionKey".to_owned()]],
            path_texts: vec!["/_partitionKey".to_owned()],
            hashing: Hashing::V1,
            has_explicit_version: false,
            is_system_key: true,
        }
    }

    /// Returns the `partitionKey` member of a container's body.
    pub fn to_json(&self) -> Json {
        let paths: Vec<Json> = self
            .path_texts
            .iter()
            .map(|text| Json::from(text.as_str()))
            .collect();
        let kind = if self.hashing == Hashing::Multi {
            "MultiHash"
        } else {
            "Hash"
        };
        let mut body = object! { "paths" => paths, "kind" => kind };
        if self.has_explicit_version {
            body.push_new("version", if self.hashing == Hashing::V1 { 1 } else { 2 });
        }
        if self.is_system_key {
            body.push_new("systemKey", true);
        }
        Json::Object(body)
    }

    /// Returns the property names of each path.
    pub fn paths(&self) -> &[Vec<String>] {
        &self.paths
    }

    /// Returns the hash of the definition.
    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Returns true if the container was created without a partition key.
    pub fn is_system_key(&self) -> bool {
        self.is_system_key
    }

    /// Returns the partition key of an item.
    ///
    /// # Errors
    /// 400 if a component is too long.
    pub fn extract(&self, item: &Object) -> Result<PartitionKey> {
        let components = self
            .paths
            .iter()
            .map(|path| component_at(item, path))
            .collect();
        let key = PartitionKey { components };
        self.check(&key)?;
        Ok(key)
    }

    /// Checks a key that addresses a logical partition. A container without a partition key accepts
    /// the empty key as well.
    ///
    /// # Errors
    /// 400/1001 if the number of components differs from that of the paths, 400 if a string exceeds
    /// [`limits::PARTITION_KEY_BYTES_V2`]; version 1 has no such limit.
    pub fn check(&self, key: &PartitionKey) -> Result<()> {
        let has_all_components = key.components.len() == self.paths.len();
        let is_empty_system_key = key.components.is_empty() && self.is_system_key;
        if !has_all_components && !is_empty_system_key {
            let (paths, count) = (self.shown_paths(), key.components.len());
            return Err(Error::partition_key_mismatch().with_help(format!(
                "The container has {} partition key path(s), {paths}, and the request names \
                 {count} value(s): {}.",
                self.paths.len(),
                key.shown()
            )));
        }
        let too_long = key
            .components
            .iter()
            .any(|c| matches!(c, Component::String(s) if s.len() > limits::PARTITION_KEY_BYTES_V2));
        if too_long && self.hashing != Hashing::V1 {
            return Err(Error::bad(format!(
                "The partition key value is longer than {} bytes.",
                limits::PARTITION_KEY_BYTES_V2
            ))
            .with_help("Take a shorter value, or a hash of this one."));
        }
        Ok(())
    }

    /// Returns the error 400/1001 for a request that names another partition key than the item has.
    pub fn mismatch(&self, named: &PartitionKey, of_item: &PartitionKey) -> Error {
        let has_no_value = |key: &PartitionKey| {
            let mut components = key.components.iter();
            components.any(|component| matches!(component, Component::Undefined))
        };
        let (paths, found) = (self.shown_paths(), of_item.shown());
        let note = if has_no_value(of_item) && !has_no_value(named) {
            " {} stands for a property that the item does not have."
        } else {
            ""
        };
        Error::partition_key_mismatch().with_help(format!(
            "The request names the partition key {}, and the item has {found} at {paths}.{note} \
             Send the item's own value.",
            named.shown()
        ))
    }

    /// Returns the error 400/1001 for a change of an item's partition key from `old` to `new`.
    pub fn change_refused(&self, old: &PartitionKey, new: &PartitionKey) -> Error {
        Error::partition_key_mismatch().with_help(format!(
            "The partition key of an item cannot change: it is {} at {} and would become {}. \
             Delete the item and create another one.",
            old.shown(),
            self.shown_paths(),
            new.shown()
        ))
    }

    /// Returns the paths for a message, shortened.
    pub fn shown_paths(&self) -> String {
        shortened(&self.path_texts.join(", "))
    }

    /// Returns the EPK of `key`.
    pub fn epk(&self, key: &PartitionKey) -> Epk {
        let is_undefined = key
            .components
            .iter()
            .all(|component| matches!(component, Component::Undefined));
        if self.is_system_key && is_undefined {
            return Epk::min();
        }
        Epk::of(self.hashing, &key.components)
    }

    /// Returns the range of the hash space that `key` covers: a single EPK for a complete key, all
    /// EPKs with this prefix for a prefix of a hierarchical key.
    pub fn epk_range(&self, key: &PartitionKey) -> EpkRange {
        let epk = self.epk(key);
        // The minimum EPK is empty and therefore a prefix of every EPK; its range must hold it
        // alone.
        let end = if epk == Epk::min() {
            Epk::from_bytes(&[0])
        } else {
            epk.after_prefix()
        };
        EpkRange::new(epk, end)
    }
}

impl PartitionKey {
    /// Returns the key for a message: the header's form, shortened.
    pub fn shown(&self) -> String {
        shortened(&self.to_json().to_text())
    }

    /// Creates a key from its components.
    pub fn new(components: Vec<Component>) -> Self {
        PartitionKey { components }
    }

    /// Parses the header `x-ms-documentdb-partitionkey`: a JSON array of primitive values, `{}` for
    /// undefined.
    ///
    /// # Errors
    /// 400 for any other text.
    pub fn from_header(text: &str) -> Result<Self> {
        let bad = || {
            Error::bad(format!(
                "The partition key header '{}' is not a JSON array of primitive values.",
                shortened(text)
            ))
            .with_help("Send the value in brackets, a text in quotes too: [\"a\"] or [1].")
        };
        let json = parse(text.as_bytes()).map_err(|_| bad())?;
        let values = json.as_array().ok_or_else(bad)?;
        let mut components = Vec::with_capacity(values.len());
        for value in values {
            components.push(component(value).ok_or_else(bad)?);
        }
        Ok(PartitionKey { components })
    }

    /// Returns the components.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// Returns true for the empty key `[]`.
    pub fn is_empty(&self) -> bool {
        self.components.is_empty()
    }

    /// Returns the value as a JSON array with `{}` for undefined: the form of the header.
    pub fn to_json(&self) -> Json {
        Json::Array(self.components.iter().map(Component::to_json).collect())
    }
}

/// Equality of keys: two equal keys have the same EPK. [`Definition::is_same_key`] compares logical
/// partitions.
impl PartialEq for PartitionKey {
    fn eq(&self, other: &Self) -> bool {
        if self.components.len() != other.components.len() {
            return false;
        }
        let mut pairs = self.components.iter().zip(&other.components);
        pairs.all(|(a, b)| a.is_identical_to(b))
    }
}

impl Component {
    /// Returns true if both components hash alike. Numbers are compared bit by bit, since the bits
    /// are hashed: 0 and -0 differ.
    fn is_identical_to(&self, other: &Component) -> bool {
        match (self, other) {
            (Component::Undefined, Component::Undefined) | (Component::Null, Component::Null) => {
                true
            }
            (Component::Bool(a), Component::Bool(b)) => a == b,
            (Component::Number(a), Component::Number(b)) => a.to_bits() == b.to_bits(),
            (Component::String(a), Component::String(b)) => a == b,
            _ => false,
        }
    }

    /// Returns the value, or `None` if the item does not have the property.
    pub fn value(&self) -> Option<Json> {
        match self {
            Component::Undefined => None,
            Component::Null => Some(Json::Null),
            Component::Bool(b) => Some(Json::Bool(*b)),
            Component::Number(n) => Some(Json::from(*n)),
            Component::String(s) => Some(Json::String(s.clone())),
        }
    }

    fn to_json(&self) -> Json {
        self.value().unwrap_or_else(|| Json::Object(Object::new()))
    }
}

/// Converts a value of the header or of an item. `None` for an array and for an object with
/// members.
fn component(value: &Json) -> Option<Component> {
    Some(match value {
        Json::Null => Component::Null,
        Json::Bool(b) => Component::Bool(*b),
        Json::Number(n) => Component::Number(n.as_f64()),
        Json::String(s) => Component::String(s.clone()),
        Json::Object(o) if o.is_empty() => Component::Undefined,
        Json::Object(_) | Json::Array(_) => return None,
    })
}

/// Returns the component at `path` in an item. An array or object counts as undefined, as the tests
/// of the SDKs require.
fn component_at(item: &Object, path: &[String]) -> Component {
    let (first, rest) = path.split_first().expect("a path has at least one name");
    let mut value = item.get(first);
    for name in rest {
        value = value.and_then(|parent| parent.get(name));
    }
    value.and_then(component).unwrap_or(Component::Undefined)
}

/// Splits a path such as `/a/"b c"/'d'` into names. `None` if the path is invalid.
///
/// A quote after a backslash does not end a quoted name; backslash and quote both belong to the
/// name. Clients must extract the same key from an item as the server, and the SDKs parse paths
/// this way.
fn parse_path(text: &str) -> Option<Vec<String>> {
    let mut rest = text.strip_prefix('/')?;
    let mut names = Vec::new();
    loop {
        let (name, after) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => quoted_name(rest, quote)?,
            _ => unquoted_name(rest)?,
        };
        if name.is_empty() {
            return None;
        }
        names.push(name.to_owned());
        if after.is_empty() {
            return Some(names);
        }
        rest = after.strip_prefix('/')?;
    }
}

/// Splits a name in quotes from the rest of a path. `None` if the closing quote is missing.
fn quoted_name(text: &str, quote: char) -> Option<(&str, &str)> {
    let quoted = &text[1..];
    for (end, _) in quoted.match_indices(quote) {
        let name = &quoted[..end];
        if !name.ends_with('\\') {
            return Some((name, &quoted[end + 1..]));
        }
    }
    None
}

/// Splits a name without quotes from the rest of a path. `None` for wildcards.
fn unquoted_name(text: &str) -> Option<(&str, &str)> {
    let end = text.find('/').unwrap_or(text.len());
    let name = &text[..end];
    if ["[]", "*", "?"].contains(&name) {
        return None;
    }
    Some((name, &text[end..]))
}

/// Returns the error for a path that is not one, with the path that was probably meant.
fn invalid_path(text: &str) -> Error {
    let shown = shortened(text);
    let error = invalid_definition(&format!("the path '{shown}'"));
    let trimmed = text
        .trim_matches('/')
        .trim_end_matches("/?")
        .trim_end_matches("/*");
    let with_slash = match trimmed.contains('/') {
        false => format!("/{}", trimmed.replace('.', "/")),
        true => format!("/{trimmed}"),
    };
    match parse_path(&with_slash) {
        Some(_) => error.with_help(format!(
            "A partition key path begins with a slash and has one before each property: write \
             '{}'.",
            shortened(&with_slash)
        )),
        None => error.with_help("Write a path of property names such as '/customerId' or '/a/b'."),
    }
}

fn invalid_definition(reason: &str) -> Error {
    Error::bad(format!(
        "The partition key definition is invalid: {reason}."
    ))
}

/// Returns the `paths` member of a definition.
fn path_texts(body: &Object) -> Result<Vec<String>> {
    let Some(paths) = body.get("paths").and_then(Json::as_array) else {
        return Err(invalid_definition("'paths' is missing")
            .with_help("Write {\"paths\": [\"/customerId\"], \"kind\": \"Hash\"}."));
    };
    let mut texts = Vec::with_capacity(paths.len());
    for path in paths {
        let text = path
            .as_str()
            .ok_or_else(|| invalid_definition("a path is not a string"))?;
        texts.push(text.to_owned());
    }
    Ok(texts)
}

/// Returns the hash for the `kind` member and the version. The defaults are `Hash` and version 1.
fn hashing(body: &Object, version: Option<i64>) -> Result<Hashing> {
    let kind = match body.get("kind") {
        None | Some(Json::Null) => "Hash",
        Some(kind) => kind
            .as_str()
            .ok_or_else(|| invalid_definition("'kind' is not a string"))?,
    };
    match (kind, version) {
        ("Hash", None | Some(1)) => Ok(Hashing::V1),
        ("Hash", Some(2)) => Ok(Hashing::V2),
        ("MultiHash", Some(2)) => Ok(Hashing::Multi),
        ("MultiHash", _) => Err(invalid_definition("'MultiHash' needs version 2")),
        ("Hash", Some(other)) => Err(invalid_definition(&format!("version {other} is unknown"))),
        (other, _) => Err(invalid_definition(&format!(
            "kind '{other}' is not supported"
        ))),
    }
}

/// Returns the version of a definition: a number, or the text `V1` or `V2` that the Java SDK sends.
fn version_number(json: &Json) -> Option<i64> {
    match json.as_str().map(str::to_ascii_uppercase).as_deref() {
        Some("V1") => Some(1),
        Some("V2") => Some(2),
        Some(_) => None,
        None => json.as_i64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> Result<Definition> {
        Definition::from_json(&parse(text.as_bytes()).expect("JSON"))
    }

    #[test]
    fn definitions_round_trip_unchanged() {
        for text in [
            r#"{"paths":["/postId"],"kind":"Hash","version":2}"#,
            r#"{"paths":["/a/b"],"kind":"Hash"}"#,
            r#"{"paths":["/a/b"],"kind":"Hash","version":1}"#,
            r#"{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#,
        ] {
            assert_eq!(definition(text).expect(text).to_json().to_text(), text);
        }
    }

    #[test]
    fn items_without_the_system_key_have_the_minimum_epk() {
        let definition = Definition::system_key();
        assert_eq!(
            definition.to_json().to_text(),
            r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#
        );
        let key = |text| PartitionKey::from_header(text).expect("a key");
        for empty in ["[]", "[{}]"] {
            definition.check(&key(empty)).expect(empty);
            assert_eq!(definition.epk(&key(empty)), Epk::min(), "{empty}");
            let range = definition.epk_range(&key(empty));
            assert_eq!(
                (range.min.to_string(), range.max.to_string()),
                (String::new(), "00".into())
            );
        }
        let named = definition.epk(&key(r#"["x"]"#));
        assert_eq!(
            named,
            Epk::of(Hashing::V1, &[Component::String("x".into())])
        );
        assert_ne!(definition.epk(&key("[null]")), Epk::min());
        assert_eq!(
            definition
                .check(&key(r#"["x","y"]"#))
                .expect_err("too many")
                .sub_status(),
            1001
        );
    }

    #[test]
    fn refusals_show_both_keys_the_path_and_the_path_that_was_meant() {
        let of = |paths: &str| definition(&format!(r#"{{"paths":{paths}}}"#));
        let key = |text: &str| PartitionKey::from_header(text).expect("a key");
        let defined = of(r#"["/pk"]"#).expect("a definition");
        let differs = defined.mismatch(&key(r#"["a"]"#), &key("[{}]"));
        assert_eq!(differs.sub_status(), 1001);
        for part in [r#"partition key ["a"]"#, "has [{}] at /pk", "does not have"] {
            assert!(differs.message().contains(part), "{differs}");
        }
        let long = key(&format!(r#"["{}"]"#, "x".repeat(1000)));
        assert!(defined.mismatch(&long, &long).message().len() < 600);
        for (path, meant) in [("pk", "'/pk'"), ("a.b", "'/a/b'"), ("a/b/", "'/a/b'")] {
            let refused = of(&format!(r#"["{path}"]"#)).expect_err(path);
            assert!(refused.message().contains(meant), "{refused}");
        }
    }

    #[test]
    fn a_definition_without_a_version_equals_version_1() {
        let of = |version: &str| {
            definition(&format!(r#"{{"paths":["/a"]{version}}}"#)).expect("definition")
        };
        assert_eq!(of(""), of(r#","version":1"#));
        assert_ne!(of(""), of(r#","version":2"#));
    }

    #[test]
    fn the_version_may_have_the_form_of_the_java_sdk() {
        let of = |version: &str| {
            definition(&format!(r#"{{"paths":["/a"],"version":{version}}}"#)).expect("definition")
        };
        assert_eq!(of(r#""V2""#), of("2"));
        assert_eq!(of(r#""v1""#), of("1"));
        assert!(of(r#""V2""#).to_json().to_text().contains(r#""version":2"#));
    }

    #[test]
    fn invalid_definitions_are_refused() {
        for text in [
            "[]",
            r#"{"paths":[]}"#,
            r#"{"paths":["a"]}"#,
            r#"{"paths":["/"]}"#,
            r#"{"paths":["/a/[]"]}"#,
            r#"{"paths":["/a","/b"]}"#,
            r#"{"paths":["/a"],"kind":"Range"}"#,
            r#"{"paths":["/a"],"version":3}"#,
            r#"{"paths":["/a"],"version":"V3"}"#,
            r#"{"paths":["/a"],"version":"2"}"#,
            r#"{"paths":["/a","/b","/c","/d"],"kind":"MultiHash","version":2}"#,
        ] {
            assert!(definition(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn names_of_a_path_may_be_in_single_or_double_quotes() {
        for (path, names) in [
            (
                r#"/"level' 1*()"/"le/vel2""#,
                &["level' 1*()", "le/vel2"][..],
            ),
            (
                r#"/'level" 1*()'/'le/vel2'"#,
                &[r#"level" 1*()"#, "le/vel2"],
            ),
            (r#"/"a\"b"/c"#, &[r#"a\"b"#, "c"]),
            ("/a'b/\"*\"", &["a'b", "*"]),
        ] {
            assert_eq!(parse_path(path).expect(path), names);
        }
        for path in ["/'a", "/\"a'", "/'a'b", "/''"] {
            assert_eq!(parse_path(path), None, "{path}");
        }
    }

    #[test]
    fn a_null_member_of_a_definition_counts_as_absent() {
        let of =
            |more: &str| definition(&format!(r#"{{"paths":["/a"]{more}}}"#)).expect("definition");
        assert_eq!(of(r#","kind":null,"version":null"#), of(""));
    }

    #[test]
    fn the_header_and_the_item_give_the_same_key() {
        let definition = definition(r#"{"paths":["/a/\"b c\""],"version":2}"#).expect("definition");
        for (item, header) in [
            (r#"{"a":{"b c":"x"}}"#, r#"["x"]"#),
            (r#"{"a":{"b c":null}}"#, "[null]"),
            (r#"{"a":1}"#, "[{}]"),
            (r#"{"a":{"b c":1.0}}"#, "[1]"),
            (r#"{"a":{"b c":[1]}}"#, "[{}]"),
            (r#"{"a":{"b c":{"d":1}}}"#, "[{}]"),
        ] {
            let item = parse(item.as_bytes()).expect("JSON");
            let key = definition
                .extract(item.as_object().expect("object"))
                .expect("key");
            assert!(
                key == PartitionKey::from_header(header).expect("header"),
                "{header}"
            );
        }
        assert!(PartitionKey::from_header("x").is_err());
        assert!(PartitionKey::from_header(r#"[{"a":1}]"#).is_err());
    }
}
