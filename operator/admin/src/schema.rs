//! Schemas of request bodies, query parameters and response bodies.
//!
//! A schema is a table of members. Requests are checked against it, and the OpenAPI description is
//! generated from it. Responses are described by schemas but not checked against them.

use crate::problem::Problem;
use orrery_model::{Json, Object, object};

/// The type of a member's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueType {
    /// A string.
    Text,
    /// One of the listed strings.
    OneOf(&'static [&'static str]),
    /// An array of strings.
    TextList,
    /// An array of numbers, none of them negative.
    NumberList,
    /// `true` or `false`.
    Boolean,
    /// An integer between two bounds, both inclusive.
    Integer(i64, i64),
    /// A number between two bounds, both inclusive.
    Number(f64, f64),
    /// An object with its own schema.
    Object(&'static Schema),
    /// An array of objects with the same schema.
    ObjectList(&'static Schema),
    /// An object whose members are checked elsewhere.
    AnyObject,
    /// An array whose elements are checked elsewhere.
    AnyList,
    /// Any JSON value.
    Anything,
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Name of the member.
    pub(crate) name: &'static str,
    /// Type of the member's value.
    pub(crate) value: ValueType,
    /// True if an object without this member is refused.
    pub(crate) is_required: bool,
    /// Description of the member, for the OpenAPI description and for error messages.
    pub(crate) description: &'static str,
}

/// The members of an object; other members are refused.
#[derive(Debug)]
pub(crate) struct Schema {
    /// Name of the schema in the OpenAPI description.
    pub(crate) name: &'static str,
    /// Members of the object.
    pub(crate) members: &'static [Member],
}

/// Creates a required member.
pub(crate) const fn required(
    name: &'static str,
    value: ValueType,
    description: &'static str,
) -> Member {
    Member {
        name,
        value,
        is_required: true,
        description,
    }
}

/// Creates an optional member.
pub(crate) const fn optional(
    name: &'static str,
    value: ValueType,
    description: &'static str,
) -> Member {
    Member {
        name,
        value,
        is_required: false,
        description,
    }
}

/// Returns the members of `first` followed by those of `second`, for schemas that share members.
/// `N` is the number of members in the result, `A + B`.
pub(crate) const fn joined<const A: usize, const B: usize, const N: usize>(
    first: [Member; A],
    second: [Member; B],
) -> [Member; N] {
    assert!(A > 0 && A + B == N);
    let mut members = [first[0]; N];
    let mut index = 0;
    while index < N {
        members[index] = if index < A {
            first[index]
        } else {
            second[index - A]
        };
        index += 1;
    }
    members
}

/// The type of counters, sizes and times: any integer from 0.
pub(crate) const COUNT: ValueType = ValueType::Integer(0, i64::MAX);

/// The type of members that say `yes` or `no`.
pub(crate) const YES_OR_NO: ValueType = ValueType::OneOf(&["yes", "no"]);

/// Returns the word of a [`YES_OR_NO`] member.
pub(crate) fn yes_or_no(is_yes: bool) -> &'static str {
    if is_yes { "yes" } else { "no" }
}

impl Schema {
    /// Checks an object against this schema. `location` names the object in error messages.
    ///
    /// # Errors
    /// 400 that names the member that is missing, unknown or of the wrong type.
    pub(crate) fn check(&self, object: &Object, location: &str) -> Result<(), Problem> {
        for (name, value) in object.iter() {
            let Some(member) = self.members.iter().find(|member| member.name == name) else {
                let known: Vec<&str> = self.members.iter().map(|member| member.name).collect();
                return Err(Problem::bad_request(format!(
                    "{location}: unknown member '{name}'; known members: {}",
                    known.join(", ")
                )));
            };
            member
                .value
                .check(value, &format!("{location}, '{name}'"))?;
        }

        for member in self.members {
            if member.is_required && object.get(member.name).is_none() {
                return Err(Problem::bad_request(format!(
                    "{location}: the member '{}' is missing: {}",
                    member.name, member.description
                )));
            }
        }
        Ok(())
    }

    /// Returns true if the schema has a string of this name.
    pub(crate) fn has_text(&self, name: &str) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.name == name && matches!(member.value, ValueType::Text))
    }

    /// Returns this schema as a JSON Schema.
    pub(crate) fn to_json_schema(&self) -> Json {
        let properties: Object = self
            .members
            .iter()
            .map(|member| (member.name.to_owned(), member.to_json_schema()))
            .collect();
        let required: Vec<Json> = self
            .members
            .iter()
            .filter(|member| member.is_required)
            .map(|member| member.name.into())
            .collect();
        let mut schema = object! {
            "type" => "object", "additionalProperties" => false, "properties" => properties,
        };
        // JSON Schema draft 4 refuses an empty list here.
        if !required.is_empty() {
            schema.set("required", required);
        }
        schema.into()
    }
}

impl Member {
    /// Returns this member as a JSON Schema.
    pub(crate) fn to_json_schema(self) -> Json {
        let mut schema = self.value.to_json_schema();
        schema.set("description", self.description);
        schema.into()
    }
}

impl ValueType {
    /// Checks a value against this type. `location` names the value in error messages.
    fn check(&self, value: &Json, location: &str) -> Result<(), Problem> {
        if !self.accepts(value) {
            return Err(Problem::bad_request(format!(
                "{location}: must be {}, not {}",
                self.expectation(),
                value.to_text()
            )));
        }

        // The members of nested objects are checked one by one, so that a message names the member.
        match self {
            ValueType::Object(schema) => {
                if let Some(object) = value.as_object() {
                    schema.check(object, location)?;
                }
            }
            ValueType::ObjectList(schema) => {
                let elements = value.as_array().unwrap_or_default();
                for (index, element) in elements.iter().enumerate() {
                    ValueType::Object(schema).check(element, &format!("{location}[{index}]"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if a value is of this type. Members of nested objects are not looked at.
    fn accepts(&self, value: &Json) -> bool {
        match *self {
            ValueType::Text => value.as_str().is_some(),
            ValueType::OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            ValueType::TextList => is_list_of(value, |element| element.as_str().is_some()),
            ValueType::NumberList => is_list_of(value, |element| {
                element.as_f64().is_some_and(|number| number >= 0.0)
            }),
            ValueType::Boolean => value.as_bool().is_some(),
            ValueType::Integer(min, max) => value
                .as_i64()
                .is_some_and(|number| (min..=max).contains(&number)),
            ValueType::Number(min, max) => value
                .as_f64()
                .is_some_and(|number| (min..=max).contains(&number)),
            ValueType::Object(_) => value.as_object().is_some(),
            ValueType::ObjectList(_) | ValueType::AnyList => value.as_array().is_some(),
            ValueType::AnyObject => value.as_object().is_some(),
            ValueType::Anything => true,
        }
    }

    /// Returns the words that follow "must be" in an error message.
    fn expectation(&self) -> String {
        match *self {
            ValueType::Text => "a string".into(),
            ValueType::OneOf(words) => format!("one of {}", words.join(", ")),
            ValueType::TextList => "a list of strings".into(),
            ValueType::NumberList => "a list of non-negative numbers".into(),
            ValueType::Boolean => "true or false".into(),
            ValueType::Integer(min, i64::MAX) => format!("an integer of at least {min}"),
            ValueType::Integer(min, max) => format!("an integer from {min} to {max}"),
            ValueType::Number(min, max) => format!("a number from {min} to {max}"),
            ValueType::Object(_) => "an object".into(),
            ValueType::ObjectList(_) => "a list of objects".into(),
            ValueType::AnyObject => "an object".into(),
            ValueType::AnyList => "a list".into(),
            ValueType::Anything => "a JSON value".into(),
        }
    }

    /// Returns this type as a JSON Schema.
    fn to_json_schema(self) -> Object {
        match self {
            ValueType::Text => object! { "type" => "string" },
            ValueType::OneOf(words) => {
                let words: Vec<Json> = words.iter().map(|word| (*word).into()).collect();
                object! { "type" => "string", "enum" => words }
            }
            ValueType::TextList => array_of(object! { "type" => "string" }),
            ValueType::NumberList => array_of(object! { "type" => "number", "minimum" => 0 }),
            ValueType::Boolean => object! { "type" => "boolean" },
            ValueType::Integer(min, max) => {
                let mut schema = object! { "type" => "integer", "minimum" => min };
                if max < i64::MAX {
                    schema.set("maximum", max);
                }
                schema
            }
            ValueType::Number(min, max) => {
                let mut schema = object! { "type" => "number", "minimum" => min };
                if max < f64::MAX {
                    schema.set("maximum", max);
                }
                schema
            }
            ValueType::Object(schema) => reference_to(schema),
            ValueType::ObjectList(schema) => array_of(reference_to(schema)),
            ValueType::AnyObject => object! { "type" => "object" },
            ValueType::AnyList => array_of(Object::new()),
            ValueType::Anything => Object::new(),
        }
    }

    /// Returns the schema of the nested object or objects.
    pub(crate) fn nested_schema(&self) -> Option<&'static Schema> {
        match self {
            ValueType::Object(schema) | ValueType::ObjectList(schema) => Some(schema),
            _ => None,
        }
    }
}

/// Returns true if `value` is an array and `accepts` holds for each of its elements.
fn is_list_of(value: &Json, accepts: impl Fn(&Json) -> bool) -> bool {
    value
        .as_array()
        .is_some_and(|list| list.iter().all(accepts))
}

/// Returns the JSON Schema of an array.
fn array_of(elements: Object) -> Object {
    object! { "type" => "array", "items" => elements }
}

/// Returns a JSON Schema that refers to a schema of the OpenAPI description.
pub(crate) fn reference_to(schema: &Schema) -> Object {
    object! { "$ref" => format!("#/components/schemas/{}", schema.name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    const INNER: Schema = Schema {
        name: "Inner",
        members: &[required("n", COUNT, "a number")],
    };
    const OUTER: Schema = Schema {
        name: "Outer",
        members: &[
            required("word", ValueType::OneOf(&["a", "b"]), "a word"),
            optional("share", ValueType::Number(0.0, 1.0), "a share"),
            optional("list", ValueType::ObjectList(&INNER), "a list"),
            optional("numbers", ValueType::NumberList, "numbers"),
            optional("flag", ValueType::Boolean, "a flag"),
        ],
    };

    fn check_message(text: &str) -> Option<String> {
        let json = parse(text.as_bytes()).expect("JSON");
        OUTER
            .check(json.as_object().expect("an object"), "the body")
            .err()
            .map(|problem| problem.message)
    }

    #[test]
    fn an_error_names_the_member_at_fault_and_its_location() {
        assert_eq!(
            check_message(
                r#"{"word":"a","share":0.5,"list":[{"n":1}],"numbers":[0,1.5],"flag":true}"#
            ),
            None
        );
        for (text, expected) in [
            (
                r#"{"word":"a","wrod":1}"#,
                "the body: unknown member 'wrod'; known members: word, share, list, numbers, flag",
            ),
            (r#"{"share":1}"#, "the body: the member 'word' is missing"),
            (
                r#"{"word":"a","numbers":[1,-1]}"#,
                "'numbers': must be a list of non-negative numbers, not [1,-1]",
            ),
            (
                r#"{"word":"a","flag":1}"#,
                "'flag': must be true or false, not 1",
            ),
            (
                r#"{"word":"c"}"#,
                "the body, 'word': must be one of a, b, not \"c\"",
            ),
            (
                r#"{"word":"a","share":1.5}"#,
                "'share': must be a number from 0 to 1, not 1.5",
            ),
            (
                r#"{"word":"a","list":[{"n":1},{"n":-1}]}"#,
                "'list'[1], 'n': must be an integer of at least 0, not -1",
            ),
        ] {
            let message = check_message(text).unwrap_or_default();
            assert!(message.contains(expected), "{message}");
        }
    }
}
