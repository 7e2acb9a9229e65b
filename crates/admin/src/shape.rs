//! The members that bodies, query parameters and answers have: one table each, from which requests are checked and the
//! OpenAPI description is made.

use crate::problem::Problem;
use orrery_model::{Json, Object, object};

/// What a member holds.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// Text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Texts in a list.
    Texts,
    /// Numbers in a list, none below zero.
    Numbers,
    /// True or false.
    Truth,
    /// A whole number within bounds, both included.
    Whole(i64, i64),
    /// A number within bounds, both included.
    Number(f64, f64),
    /// An object with members of its own.
    Object(&'static Shape),
    /// Objects in a list.
    Objects(&'static Shape),
}

/// A member.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub value: Value,
    /// Whether it must be there.
    pub required: bool,
    /// What it says, in a sentence.
    pub told: &'static str,
}

/// The members of an object.
#[derive(Debug)]
pub struct Shape {
    /// Its name in the description.
    pub name: &'static str,
    /// Its members.
    pub members: &'static [Member],
}

/// A member that must be there.
pub(crate) const fn must(name: &'static str, value: Value, told: &'static str) -> Member {
    Member {
        name,
        value,
        required: true,
        told,
    }
}

/// A member that may be there.
pub(crate) const fn may(name: &'static str, value: Value, told: &'static str) -> Member {
    Member {
        name,
        value,
        required: false,
        told,
    }
}

/// The members of `a` and then those of `b`, for shapes that have some in common. `N` is how many that makes.
pub(crate) const fn joined<const A: usize, const B: usize, const N: usize>(
    a: [Member; A],
    b: [Member; B],
) -> [Member; N] {
    assert!(A > 0 && A + B == N);
    let mut members = [a[0]; N];
    let mut at = 0;
    while at < N {
        members[at] = if at < A { a[at] } else { b[at - A] };
        at += 1;
    }
    members
}

/// Numbers that count something.
pub(crate) const COUNT: Value = Value::Whole(0, i64::MAX);

impl Shape {
    /// Checks an object against this shape; `at` says where it stands.
    ///
    /// # Errors
    /// 400 that names the member that is missing, unknown or of another kind.
    pub(crate) fn check(&self, object: &Object, at: &str) -> Result<(), Problem> {
        for (name, value) in object.iter() {
            let Some(member) = self.members.iter().find(|member| member.name == name) else {
                let known: Vec<&str> = self.members.iter().map(|member| member.name).collect();
                return Err(Problem::bad(format!(
                    "{at}: there is no member '{name}'; known are {}",
                    known.join(", ")
                )));
            };
            member.value.check(value, &format!("{at}, '{name}'"))?;
        }
        match self
            .members
            .iter()
            .find(|member| member.required && object.get(member.name).is_none())
        {
            Some(member) => Err(Problem::bad(format!(
                "{at}: the member '{}' is missing: {}",
                member.name, member.told
            ))),
            None => Ok(()),
        }
    }

    /// This shape as a JSON schema.
    pub(crate) fn schema(&self) -> Json {
        let properties: Object = self
            .members
            .iter()
            .map(|m| (m.name.to_owned(), m.schema()))
            .collect();
        let required: Vec<Json> = self
            .members
            .iter()
            .filter(|m| m.required)
            .map(|m| m.name.into())
            .collect();
        let mut schema = object! { "type" => "object", "additionalProperties" => false, "properties" => properties };
        if !required.is_empty() {
            schema.set("required", required);
        }
        schema.into()
    }
}

impl Member {
    /// This member as a JSON schema.
    pub(crate) fn schema(&self) -> Json {
        let mut schema = self.value.schema();
        schema.set("description", self.told);
        schema.into()
    }
}

impl Value {
    fn check(&self, value: &Json, at: &str) -> Result<(), Problem> {
        let wrong = |wanted: String| {
            Err(Problem::bad(format!(
                "{at}: {wanted}, not {}",
                value.to_text()
            )))
        };
        match *self {
            Value::Text if value.as_str().is_none() => wrong("it must be a text".into()),
            Value::OneOf(words) if !value.as_str().is_some_and(|text| words.contains(&text)) => {
                wrong(format!("it must be one of {}", words.join(", ")))
            }
            Value::Texts
                if !value
                    .as_array()
                    .is_some_and(|list| list.iter().all(|one| one.as_str().is_some())) =>
            {
                wrong("it must be a list of texts".into())
            }
            Value::Numbers
                if !value
                    .as_array()
                    .is_some_and(|l| l.iter().all(|n| n.as_f64().is_some_and(|n| n >= 0.0))) =>
            {
                wrong("it must be a list of numbers from 0 on".into())
            }
            Value::Truth if value.as_bool().is_none() => wrong("it must be true or false".into()),
            Value::Whole(least, most)
                if !value.as_i64().is_some_and(|n| (least..=most).contains(&n)) =>
            {
                let bound = if most == i64::MAX {
                    "on".into()
                } else {
                    format!("to {most}")
                };
                wrong(format!("it must be a whole number from {least} {bound}"))
            }
            Value::Number(least, most)
                if !value.as_f64().is_some_and(|n| (least..=most).contains(&n)) =>
            {
                wrong(format!("it must be a number from {least} to {most}"))
            }
            Value::Object(shape) => match value.as_object() {
                Some(object) => shape.check(object, at),
                None => wrong("it must be an object".into()),
            },
            Value::Objects(shape) => {
                let Some(list) = value.as_array() else {
                    return wrong("it must be a list of objects".into());
                };
                list.iter()
                    .enumerate()
                    .try_for_each(|(i, one)| Value::Object(shape).check(one, &format!("{at}[{i}]")))
            }
            _ => Ok(()),
        }
    }

    fn schema(&self) -> Object {
        let list = |items: Json| object! { "type" => "array", "items" => items };
        let reference =
            |shape: &Shape| object! { "$ref" => format!("#/components/schemas/{}", shape.name) };
        match *self {
            Value::Text => object! { "type" => "string" },
            Value::OneOf(words) => {
                let words: Vec<Json> = words.iter().map(|word| (*word).into()).collect();
                object! { "type" => "string", "enum" => words }
            }
            Value::Texts => list(object! { "type" => "string" }.into()),
            Value::Numbers => list(object! { "type" => "number", "minimum" => 0 }.into()),
            Value::Truth => object! { "type" => "boolean" },
            Value::Whole(least, most) => {
                let mut schema = object! { "type" => "integer", "minimum" => least };
                if most < i64::MAX {
                    schema.set("maximum", most);
                }
                schema
            }
            Value::Number(least, most) => {
                let mut schema = object! { "type" => "number", "minimum" => least };
                if most < f64::MAX {
                    schema.set("maximum", most);
                }
                schema
            }
            Value::Object(shape) => reference(shape),
            Value::Objects(shape) => list(reference(shape).into()),
        }
    }

    /// The shapes that it is made of.
    pub(crate) fn inner(&self) -> Option<&'static Shape> {
        match self {
            Value::Object(shape) | Value::Objects(shape) => Some(shape),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    const INNER: Shape = Shape {
        name: "Inner",
        members: &[must("n", COUNT, "a number")],
    };
    const OUTER: Shape = Shape {
        name: "Outer",
        members: &[
            must("word", Value::OneOf(&["a", "b"]), "a word"),
            may("share", Value::Number(0.0, 1.0), "a share"),
            may("list", Value::Objects(&INNER), "a list"),
            may("numbers", Value::Numbers, "numbers"),
            may("truth", Value::Truth, "whether"),
        ],
    };

    fn said(text: &str) -> Option<String> {
        let json = parse(text.as_bytes()).expect("JSON");
        OUTER
            .check(json.as_object().expect("an object"), "the body")
            .err()
            .map(|problem| problem.message)
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        assert_eq!(
            said(r#"{"word":"a","share":0.5,"list":[{"n":1}],"numbers":[0,1.5],"truth":true}"#),
            None
        );
        for (text, part) in [
            (
                r#"{"word":"a","wrod":1}"#,
                "the body: there is no member 'wrod'; known are word, share, list, numbers, truth",
            ),
            (r#"{"share":1}"#, "the body: the member 'word' is missing"),
            (
                r#"{"word":"a","numbers":[1,-1]}"#,
                "'numbers': it must be a list of numbers from 0 on, not [1,-1]",
            ),
            (
                r#"{"word":"a","truth":1}"#,
                "'truth': it must be true or false, not 1",
            ),
            (
                r#"{"word":"c"}"#,
                "the body, 'word': it must be one of a, b, not \"c\"",
            ),
            (
                r#"{"word":"a","share":1.5}"#,
                "'share': it must be a number from 0 to 1, not 1.5",
            ),
            (
                r#"{"word":"a","list":[{"n":1},{"n":-1}]}"#,
                "'list'[1], 'n': it must be a whole number from 0 on, not -1",
            ),
        ] {
            let told = said(text).unwrap_or_default();
            assert!(told.contains(part), "{told}");
        }
    }
}
