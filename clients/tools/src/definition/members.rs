//! The members of an item with the text of their values, so that numbers keep their digits.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Properties that the server adds to an item.
const SYSTEM_PROPERTIES: [&str; 6] = ["_rid", "_self", "_etag", "_ts", "_attachments", "_lsn"];

/// The members of an object in their order.
#[derive(Debug)]
pub(super) struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Parses the text of an object.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    /// Returns the text of a member's value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.get())
    }

    /// Returns the id, if it is a string.
    pub(super) fn id(&self) -> Option<String> {
        serde_json::from_str(self.get("id")?).ok()
    }

    /// Returns the text of the object without what the server adds.
    pub(super) fn without_system_properties(&self) -> String {
        let mut text = String::from("{");
        for (name, value) in &self.0 {
            if SYSTEM_PROPERTIES.contains(&name.as_str()) {
                continue;
            }
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(name.as_str()).to_string());
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        text
    }

    /// Returns the partition key for the given paths as the text of a JSON array.
    pub(super) fn key(&self, paths: &[String]) -> String {
        let components: Vec<String> = paths.iter().map(|path| self.component(path)).collect();
        format!("[{}]", components.join(","))
    }

    /// Returns the text of the value at a path; `{}` if the item has no scalar there.
    fn component(&self, path: &str) -> String {
        let mut names = path.split('/').skip(1).map(|name| name.trim_matches('"'));
        let mut value = names
            .next()
            .and_then(|name| self.get(name).map(str::to_owned));
        for name in names {
            let inner = value.and_then(|text| Members::parse(&text).ok());
            value = inner.and_then(|members| members.get(name).map(str::to_owned));
        }
        match value {
            Some(text) if !text.starts_with(['{', '[']) => text,
            _ => "{}".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_system_properties_go() {
        let item = Members::parse(r#"{"id":"a","n":1.50,"_rid":"x","_ts":1,"s":{"k":2e3}}"#);
        let item = item.unwrap();
        let text = item.without_system_properties();
        assert_eq!(text, r#"{"id":"a","n":1.50,"s":{"k":2e3}}"#);
        let paths = ["/s/k".to_owned(), "/id".to_owned(), "/none".to_owned()];
        assert_eq!(item.key(&paths), r#"[2e3,"a",{}]"#);
        assert!(Members::parse("[]").is_err());
    }
}
