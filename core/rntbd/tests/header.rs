//! Values of tokens as values of HTTP headers, and back.

use crate::support::ACTIVITY;
use orrery_rntbd::tokens::{answer, request};
use orrery_rntbd::{AnswerHead, FrameWriter, RequestHead, Token, Value};

fn header_of(token: &Token, value: Value<'_>) -> Option<String> {
    let (_, form) = token.header.expect("a header");
    form.header_value(value).map(|text| text.into_owned())
}

/// Returns the value of the token that a request with a header has.
fn value_of(token: &Token, text: &str) -> Option<String> {
    let mut writer = FrameWriter::request(3, 3, ACTIVITY);
    if !writer.header(token, text) {
        assert_eq!(writer.finish(&[]).len(), 24);
        return None;
    }
    let head = writer.finish(&[]);
    let read = RequestHead::parse(&head).expect("a head");
    Some(format!("{:?}", read.value(token).expect("the token")))
}

#[test]
fn values_become_headers() {
    let guid = "00112233-4455-6677-8899-aabbccddeeff";
    for (token, value, expected) in [
        (request::SESSION_TOKEN, Value::Text("0:1#2"), "0:1#2"),
        (request::PAGE_SIZE, Value::ULong(u32::MAX), "-1"),
        (request::PAGE_SIZE, Value::Long(-1), "-1"),
        (request::PAGE_SIZE, Value::ULong(100), "100"),
        (
            request::RESOURCE_TOKEN_EXPIRY,
            Value::ULong(u32::MAX),
            "4294967295",
        ),
        (
            request::CONSISTENCY_LEVEL,
            Value::Byte(1),
            "BoundedStaleness",
        ),
        (request::INDEXING_DIRECTIVE, Value::Byte(2), "Exclude"),
        (request::PRIORITY_LEVEL, Value::Byte(2), "Low"),
        (
            request::RETURN_PREFERENCE,
            Value::Byte(255),
            "return=representation",
        ),
        (request::ENABLE_LOGGING, Value::Byte(1), "True"),
        (request::ENABLE_LOGGING, Value::Byte(0), "False"),
        (
            request::SUPPORTED_SERIALIZATION_FORMATS,
            Value::Byte(5),
            "JsonText,HybridRow",
        ),
        (request::START_EPK, Value::Bytes(b"0A"), "0A"),
        (request::CORRELATED_ACTIVITY_ID, Value::Guid(ACTIVITY), guid),
        (answer::LSN, Value::LongLong(-1), "-1"),
        (answer::REQUEST_CHARGE, Value::Double(2.83), "2.83"),
        (answer::REQUEST_CHARGE, Value::Float(1.5), "1.5"),
    ] {
        assert_eq!(
            header_of(&token, value).as_deref(),
            Some(expected),
            "{}",
            token.name
        );
    }
}

#[test]
fn values_without_a_word_become_no_header() {
    for (token, value) in [
        (request::CONSISTENCY_LEVEL, Value::Byte(5)),
        (request::PRIORITY_LEVEL, Value::Byte(0)),
        (request::SUPPORTED_SERIALIZATION_FORMATS, Value::Byte(0)),
        (request::SUPPORTED_SERIALIZATION_FORMATS, Value::Byte(9)),
        (request::START_EPK, Value::Bytes(&[0xff])),
        (request::SESSION_TOKEN, Value::ULong(1)),
        (request::PAGE_SIZE, Value::Text("1")),
    ] {
        assert_eq!(header_of(&token, value), None, "{}", token.name);
    }
}

#[test]
fn headers_become_values() {
    for (token, text, expected) in [
        (request::PAGE_SIZE, "-1", "ULong(4294967295)"),
        (request::CONSISTENCY_LEVEL, "session", "Byte(2)"),
        (request::ENABLE_LOGGING, "true", "Byte(1)"),
        (request::ENABLE_LOGGING, "FALSE", "Byte(0)"),
        (
            request::SUPPORTED_SERIALIZATION_FORMATS,
            "JsonText, CosmosBinary",
            "Byte(3)",
        ),
        (request::END_EPK, "1F", "Bytes([49, 70])"),
        (request::THROUGHPUT_BUCKET, "5", "Byte(5)"),
        (request::RESOURCE_TOKEN_EXPIRY, "3600", "ULong(3600)"),
    ] {
        let found = value_of(&token, text);
        assert_eq!(found.as_deref(), Some(expected), "{}", token.name);
    }
}

#[test]
fn headers_that_are_no_value_write_nothing() {
    let long = "x".repeat(65_536);
    for (token, text) in [
        (request::PAGE_SIZE, "many"),
        (request::PAGE_SIZE, "4294967295"),
        (request::THROUGHPUT_BUCKET, "256"),
        (request::RESOURCE_TOKEN_EXPIRY, "-1"),
        (request::CONSISTENCY_LEVEL, "Weak"),
        (request::ENABLE_LOGGING, "yes"),
        (request::SUPPORTED_SERIALIZATION_FORMATS, "JsonText,Xml"),
        (request::CORRELATED_ACTIVITY_ID, "1"),
        (request::CONTINUATION_TOKEN, &long),
    ] {
        assert_eq!(value_of(&token, text), None, "{}", token.name);
    }
}

#[test]
fn the_session_token_of_an_answer_has_no_range() {
    for text in ["3:42#17", "42#17"] {
        let mut writer = FrameWriter::answer(200, ACTIVITY);
        assert!(writer.header(&answer::SESSION_TOKEN, text));
        assert!(writer.header(&answer::LSN, "17"));
        assert!(writer.header(&answer::REQUEST_CHARGE, "2.83"));
        let head = writer.finish(&[]);
        let read = AnswerHead::parse(&head, answer::TABLE).expect("an answer");
        assert_eq!(read.text(&answer::SESSION_TOKEN), Some("42#17"));
        assert_eq!(read.number(&answer::LSN), Some(17));
        assert_eq!(
            read.value(&answer::REQUEST_CHARGE),
            Some(Value::Double(2.83))
        );
    }
}
