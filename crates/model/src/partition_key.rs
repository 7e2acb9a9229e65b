//! Partition keys: their definition on a container, their values, and the effective partition key (EPK) that says
//! where in the hash space a value lives.
//!
//! ```text
//! definition  {"paths":["/postId"],"kind":"Hash","version":2}
//! value       ["p1"]            one component a path; null, undefined ({} in the header), bool, number or string
//! EPK         039078CA…         hex of the bytes that order the hash space ""…"FF"
//! ```
//! Hashing follows the vectors that the official SDKs carry; `epk.rs` has them as tests.

mod epk;
mod murmur;

pub use epk::{Epk, EpkRange};
pub use murmur::murmur3_128;

use crate::error::{Error, Result};
use crate::json::{Json, Object, parse};
use crate::limits;
use crate::object;

/// How keys are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// The old 32-bit hash of the first 100 characters.
    V1,
    /// The 128-bit hash.
    V2,
    /// The 128-bit hash of each level by itself.
    Multi,
}

/// A container's partition key definition. Two are equal if they place items alike, however they are spelled.
#[derive(Clone, Debug)]
pub struct Definition {
    paths: Vec<Vec<String>>,
    texts: Vec<String>,
    hashing: Hashing,
    /// Whether the version was spelled out; without one it is 1, and a read shows what was given.
    names_version: bool,
    system_key: bool,
}

/// One component of a partition key value.
#[derive(Clone, Debug)]
pub enum Component {
    /// The item has no such property.
    Undefined,
    /// `null`
    Null,
    /// A boolean.
    Bool(bool),
    /// A number; hashed as a double.
    Number(f64),
    /// A string.
    String(String),
}

/// A partition key value: as many components as the definition has paths, or fewer for a prefix.
#[derive(Clone, Debug, Default)]
pub struct PartitionKey {
    components: Vec<Component>,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        let placing = |it: &Self| (it.hashing, it.system_key);
        self.paths == other.paths && placing(self) == placing(other)
    }
}

impl Eq for Definition {}

impl Definition {
    /// Reads the `partitionKey` member of a container body.
    ///
    /// # Errors
    /// 400 for anything but one path (`Hash`) or one to three (`MultiHash`, version 2) of plain property names.
    pub fn from_json(body: &Json) -> Result<Self> {
        let bad =
            |what: &str| Error::bad(format!("The partition key definition is invalid: {what}."));
        let body = body.as_object().ok_or_else(|| bad("it is not an object"))?;
        let texts: Vec<String> = body
            .get("paths")
            .and_then(Json::as_array)
            .ok_or_else(|| bad("'paths' is missing"))?
            .iter()
            .map(|p| {
                p.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| bad("a path is not a string"))
            })
            .collect::<Result<_>>()?;
        let version = match body.get("version") {
            None | Some(Json::Null) => None,
            Some(v) => Some(
                version_number(v)
                    .ok_or_else(|| bad("'version' is neither a number nor 'V1' or 'V2'"))?,
            ),
        };
        let kind = match body.get("kind") {
            None | Some(Json::Null) => "Hash",
            Some(k) => k.as_str().ok_or_else(|| bad("'kind' is not a string"))?,
        };
        let hashing = match (kind, version) {
            ("Hash", None | Some(1)) => Hashing::V1,
            ("Hash", Some(2)) => Hashing::V2,
            ("MultiHash", Some(2)) => Hashing::Multi,
            ("MultiHash", _) => return Err(bad("'MultiHash' needs version 2")),
            ("Hash", Some(other)) => return Err(bad(&format!("version {other} is unknown"))),
            (other, _) => return Err(bad(&format!("kind '{other}' is not supported"))),
        };
        let paths_max = if hashing == Hashing::Multi {
            limits::PARTITION_KEY_LEVELS
        } else {
            1
        };
        if texts.is_empty() {
            return Err(bad("it has no paths"));
        }
        if texts.len() > paths_max {
            let count = texts.len();
            return Err(bad(&format!(
                "Too many partition key paths: {count} where at most {paths_max} are allowed"
            )));
        }
        let paths = texts
            .iter()
            .map(|t| parse_path(t).ok_or_else(|| bad(&format!("the path '{t}'"))))
            .collect::<Result<_>>()?;
        let system_key = body
            .get("systemKey")
            .and_then(Json::as_bool)
            .unwrap_or(false);
        Ok(Definition {
            paths,
            texts,
            hashing,
            names_version: version.is_some(),
            system_key,
        })
    }

    /// The definition of a container that was created without one. Items without the key, which are all but those that
    /// name `_partitionKey` themselves, live under the empty key `[]` at the beginning of the hash space.
    pub fn system_key() -> Self {
        let texts = vec!["/_partitionKey".to_owned()];
        let paths = vec![vec!["_partitionKey".into()]];
        Definition {
            paths,
            texts,
            hashing: Hashing::V1,
            names_version: false,
            system_key: true,
        }
    }

    /// The `partitionKey` member that a container read returns.
    pub fn to_json(&self) -> Json {
        let paths: Vec<Json> = self.texts.iter().map(|t| Json::from(t.as_str())).collect();
        let kind = if self.hashing == Hashing::Multi {
            "MultiHash"
        } else {
            "Hash"
        };
        let mut body = object! { "paths" => paths, "kind" => kind };
        if self.names_version {
            body.push_new("version", if self.hashing == Hashing::V1 { 1 } else { 2 });
        }
        if self.system_key {
            body.push_new("systemKey", true);
        }
        Json::Object(body)
    }

    /// The property names of each path.
    pub fn paths(&self) -> &[Vec<String>] {
        &self.paths
    }

    /// How keys are hashed.
    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Whether the container was created without a partition key.
    pub fn is_system_key(&self) -> bool {
        self.system_key
    }

    /// The key of an item.
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

    /// Checks a key that a client sent for a whole logical partition: the right number of components, none too long.
    ///
    /// # Errors
    /// 400/1001 for the wrong number, 400 for a value that is too long.
    pub fn check(&self, key: &PartitionKey) -> Result<()> {
        if key.components.len() != self.paths.len()
            && !(key.components.is_empty() && self.system_key)
        {
            return Err(Error::partition_key_mismatch());
        }
        let too_long = key
            .components
            .iter()
            .any(|c| matches!(c, Component::String(s) if s.len() > limits::PARTITION_KEY_BYTES_V2));
        if too_long && self.hashing != Hashing::V1 {
            return Err(Error::bad(format!(
                "The partition key value is longer than {} bytes.",
                limits::PARTITION_KEY_BYTES_V2
            )));
        }
        Ok(())
    }

    /// Where `key` lives.
    pub fn epk(&self, key: &PartitionKey) -> Epk {
        let names_nothing = key
            .components
            .iter()
            .all(|component| matches!(component, Component::Undefined));
        if self.system_key && names_nothing {
            return Epk::min();
        }
        Epk::of(self.hashing, &key.components)
    }

    /// The part of the hash space that `key` covers: one point for a whole key, a stretch for a prefix of one.
    pub fn epk_range(&self, key: &PartitionKey) -> EpkRange {
        let epk = self.epk(key);
        // The least point begins every other, so it is covered by itself.
        let end = if epk == Epk::min() {
            Epk::from_bytes(&[0])
        } else {
            epk.after_prefix()
        };
        EpkRange::new(epk, end)
    }
}

impl PartitionKey {
    /// A key of these components.
    pub fn new(components: Vec<Component>) -> Self {
        PartitionKey { components }
    }

    /// Reads the header `x-ms-documentdb-partitionkey`: a JSON array of primitives, `{}` for undefined.
    ///
    /// # Errors
    /// 400 for any other text.
    pub fn from_header(text: &str) -> Result<Self> {
        let bad = || {
            Error::bad(format!(
                "The partition key header '{text}' is not a JSON array of primitive values."
            ))
        };
        let json = parse(text.as_bytes()).map_err(|_| bad())?;
        let components = json
            .as_array()
            .ok_or_else(bad)?
            .iter()
            .map(|v| component(v).ok_or_else(bad))
            .collect::<Result<_>>()?;
        Ok(PartitionKey { components })
    }

    /// The components.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// Whether it is the empty key `[]`.
    pub fn is_empty(&self) -> bool {
        self.components.is_empty()
    }

    /// The value as a JSON array, `{}` for undefined: the form of the header.
    pub fn to_json(&self) -> Json {
        Json::Array(self.components.iter().map(Component::to_json).collect())
    }
}

impl PartialEq for PartitionKey {
    fn eq(&self, other: &Self) -> bool {
        self.components.len() == other.components.len()
            && self
                .components
                .iter()
                .zip(&other.components)
                .all(|(a, b)| match (a, b) {
                    (Component::Undefined, Component::Undefined)
                    | (Component::Null, Component::Null) => true,
                    (Component::Bool(a), Component::Bool(b)) => a == b,
                    (Component::Number(a), Component::Number(b)) => a.to_bits() == b.to_bits(),
                    (Component::String(a), Component::String(b)) => a == b,
                    _ => false,
                })
    }
}

impl Component {
    fn to_json(&self) -> Json {
        match self {
            Component::Undefined => Json::Object(Object::new()),
            Component::Null => Json::Null,
            Component::Bool(b) => Json::Bool(*b),
            Component::Number(n) => Json::from(*n),
            Component::String(s) => Json::String(s.clone()),
        }
    }
}

/// A component as the header spells it.
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

/// An object or an array is no key: such items lie where those without the property do, as the SDKs' tests have it.
fn component_at(item: &Object, path: &[String]) -> Component {
    let (first, rest) = path.split_first().expect("a path has a name");
    let found = rest
        .iter()
        .try_fold(item.get(first), |at, name| Some(at?.get(name)))
        .flatten();
    found.and_then(component).unwrap_or(Component::Undefined)
}

/// `/a/"b c"/'d'` as names. A quote with a backslash before it does not end a name, and both belong to it: so clients
/// read the path, who take the key out of items by it.
fn parse_path(text: &str) -> Option<Vec<String>> {
    let mut rest = text.strip_prefix('/')?;
    let mut names = Vec::new();
    loop {
        let name;
        if let Some(quote) = rest
            .chars()
            .next()
            .filter(|first| matches!(first, '"' | '\''))
        {
            let quoted = &rest[1..];
            let ends = |at: &usize| !quoted[..*at].ends_with('\\');
            let end = quoted.match_indices(quote).map(|(at, _)| at).find(ends)?;
            name = quoted[..end].to_owned();
            rest = &quoted[end + 1..];
            if !rest.is_empty() && !rest.starts_with('/') {
                return None;
            }
        } else {
            let end = rest.find('/').unwrap_or(rest.len());
            name = rest[..end].to_owned();
            rest = &rest[end..];
            if ["[]", "*", "?"].contains(&name.as_str()) {
                return None;
            }
        }
        if name.is_empty() {
            return None;
        }
        names.push(name);
        match rest.strip_prefix('/') {
            Some(more) => rest = more,
            None => return Some(names),
        }
    }
}

/// The version of a definition: a number, or the word that the Java SDK writes for it.
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
    fn definitions_read_back_as_they_were_given() {
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
    fn without_a_key_of_its_own_a_container_has_its_items_at_the_beginning() {
        let none = Definition::system_key();
        assert_eq!(
            none.to_json().to_text(),
            r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#
        );
        let key = |text| PartitionKey::from_header(text).expect("a key");
        for empty in ["[]", "[{}]"] {
            none.check(&key(empty)).expect(empty);
            assert_eq!(none.epk(&key(empty)), Epk::min(), "{empty}");
            let range = none.epk_range(&key(empty));
            assert_eq!(
                (range.min.to_string(), range.max.to_string()),
                (String::new(), "00".into())
            );
        }
        let named = none.epk(&key(r#"["x"]"#));
        assert_eq!(
            named,
            Epk::of(Hashing::V1, &[Component::String("x".into())])
        );
        assert_ne!(none.epk(&key("[null]")), Epk::min());
        assert_eq!(
            none.check(&key(r#"["x","y"]"#))
                .expect_err("too many")
                .sub_status(),
            1001
        );
    }

    #[test]
    fn a_definition_without_a_version_equals_the_one_that_names_the_first() {
        let of = |version: &str| {
            definition(&format!(r#"{{"paths":["/a"]{version}}}"#)).expect("definition")
        };
        assert_eq!(of(""), of(r#","version":1"#));
        assert_ne!(of(""), of(r#","version":2"#));
    }

    #[test]
    fn a_version_may_be_named_as_the_java_sdk_names_it() {
        let of = |version: &str| {
            definition(&format!(r#"{{"paths":["/a"],"version":{version}}}"#)).expect("definition")
        };
        assert_eq!(of(r#""V2""#), of("2"));
        assert_eq!(of(r#""v1""#), of("1"));
        assert!(of(r#""V2""#).to_json().to_text().contains(r#""version":2"#));
    }

    #[test]
    fn wrong_definitions_are_refused() {
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
    fn names_of_a_path_may_stand_in_either_quotes() {
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
    fn a_member_that_is_null_counts_as_absent() {
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
