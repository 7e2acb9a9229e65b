//! The reader: what it accepts and refuses, and what the accessors return.

use crate::support::{ACTIVITY, bytes, head_with, state_length};
use orrery_rntbd::tokens::{answer, context_answer, context_request, request};
use orrery_rntbd::{
    AnswerHead, FrameError, FrameWriter, Place, RequestHead, Token, Type, Value, head_length,
};

fn refused(tokens: &str) -> FrameError {
    let head = head_with(&bytes(tokens));
    RequestHead::parse(&head).expect_err("a wrong token")
}

#[test]
fn a_length_has_bounds() {
    assert_eq!(head_length([24, 0, 0, 0], 100), Ok(24));
    assert_eq!(head_length([100, 0, 0, 0], 100), Ok(100));
    for (first, error) in [
        ([23, 0, 0, 0], "a head of 23 bytes, fewer than 24"),
        ([0, 0, 0, 0], "a head of 0 bytes, fewer than 24"),
        ([101, 0, 0, 0], "a head of 101 bytes, more than 100"),
        ([255; 4], "a head of 4294967295 bytes, more than 100"),
    ] {
        let found = head_length(first, 100).expect_err("a wrong length");
        assert_eq!(found.to_string(), error);
    }
}

#[test]
fn a_head_without_tokens_is_read() {
    let head = head_with(&[]);
    let read = RequestHead::parse(&head).expect("a head");
    assert_eq!((read.resource, read.operation), (3, 3));
    assert_eq!(read.activity_id, ACTIVITY);
    assert!(!read.is_context() && !read.has_payload());
    assert_eq!(read.tokens().count(), 0);
    assert_eq!(read.text(&request::SESSION_TOKEN), None);
    assert_eq!(read.bytes(&request::RESOURCE_ID), None);
    assert_eq!(read.number(&request::PAGE_SIZE), None);
    assert!(!read.flag(&request::ENABLE_LOGGING));
}

#[test]
fn the_stated_length_is_that_of_the_bytes() {
    let mut head = head_with(&[]);
    head.push(0);
    let longer = RequestHead::parse(&head).expect_err("a byte behind the head");
    assert_eq!(longer.to_string(), "a head of 24 bytes in 25 bytes");
    let cut = RequestHead::parse(&head[..23]).expect_err("a cut head");
    assert_eq!(cut.to_string(), "a head that ends after 23 bytes");
    head[0] = 3;
    let below = RequestHead::parse(&head).expect_err("a short length");
    assert_eq!(below, FrameError::LengthBelowMin { length: 3 });
}

#[test]
fn a_context_has_ids_of_its_own() {
    let mut writer = FrameWriter::request(0, 0, ACTIVITY);
    writer.number(&context_request::PROTOCOL_VERSION, 1);
    assert!(writer.text(&context_request::USER_AGENT, "agent"));
    let head = writer.finish(&[]);
    let read = RequestHead::parse(&head).expect("a context");
    assert!(read.is_context());
    assert_eq!(read.number(&context_request::PROTOCOL_VERSION), Some(1));
    assert_eq!(read.text(&context_request::USER_AGENT), Some("agent"));
    // The id of PayloadPresent in other requests is that of UserAgent.
    assert!(!read.has_payload());
}

#[test]
fn values_of_every_type_are_read() {
    // Ids that no table has, with each type of the format.
    let head = head_with(&bytes(
        "00 f0 00 fe  01 f0 01 02 01  02 f0 02 04 03 02 01  03 f0 03 fe ff ff ff \
         04 f0 04 08 07 06 05 04 03 02 01  05 f0 05 ff ff ff ff ff ff ff ff \
         06 f0 06 33 22 11 00 55 44 77 66 88 99 aa bb cc dd ee ff \
         07 f0 07 02 c3 a9  08 f0 08 01 00 61  09 f0 09 01 00 00 00 62 \
         0a f0 0a 01 ff  0b f0 0b 02 00 00 80  0c f0 0c 00 00 00 00 \
         0d f0 0d 00 00 c0 3f  0e f0 0e 00 00 00 00 00 00 04 c0",
    ));
    let read = RequestHead::parse(&head).expect("values");
    let values: Vec<_> = read.tokens().map(|(_, value)| value).collect();
    let expected = [
        Value::Byte(254),
        Value::UShort(0x0102),
        Value::ULong(0x0102_0304),
        Value::Long(-2),
        Value::ULongLong(0x0102_0304_0506_0708),
        Value::LongLong(-1),
        Value::Guid(ACTIVITY),
        Value::Text("é"),
        Value::Text("a"),
        Value::Text("b"),
        Value::Bytes(&[0xff]),
        Value::Bytes(&[0, 0x80]),
        Value::Bytes(&[]),
        Value::Float(1.5),
        Value::Double(-2.5),
    ];
    assert_eq!(values, expected);
    let ids: Vec<u16> = read.tokens().map(|(id, _)| id).collect();
    assert_eq!(ids, (0xf000..=0xf00e).collect::<Vec<u16>>());
}

#[test]
fn of_two_tokens_with_one_id_the_last_counts() {
    let head = head_with(&bytes("04 00 02 01 00 00 00  04 00 02 02 00 00 00"));
    let read = RequestHead::parse(&head).expect("two tokens");
    assert_eq!(read.number(&request::PAGE_SIZE), Some(2));
    assert_eq!(read.tokens().count(), 2);
}

#[test]
fn a_number_may_differ_in_its_sign_from_the_table() {
    for kind in ["02", "03"] {
        let head = head_with(&bytes(&format!("59 00 {kind} 0a 00 00 00")));
        let read = RequestHead::parse(&head).expect("a time to live");
        assert_eq!(read.number(&request::TIME_TO_LIVE_IN_SECONDS), Some(10));
    }
    let head = head_with(&bytes("59 00 03 ff ff ff ff"));
    let read = RequestHead::parse(&head).expect("a time to live");
    assert_eq!(read.number(&request::TIME_TO_LIVE_IN_SECONDS), None);
    assert_eq!(
        read.value(&request::TIME_TO_LIVE_IN_SECONDS),
        Some(Value::Long(-1))
    );
}

#[test]
fn errors_name_the_token_and_where_it_is() {
    let first = "02 00 00 01 ";
    for (tokens, error) in [
        ("04", "the head ends within the token at byte 28"),
        ("04 00", "the head ends within the token at byte 28"),
        (
            "04 00 02 01",
            "token PageSize (0x0004) at byte 28: the head ends within the value",
        ),
        (
            "05 00 08 02 00 61",
            "token SessionToken (0x0005) at byte 28: the head ends within the value",
        ),
        (
            "00 f0 09 ff ff ff ff",
            "token 0xf000 at byte 28: the head ends within the value",
        ),
        (
            "04 00 01 01 00",
            "token PageSize (0x0004) at byte 28: the type is UShort and not ULong",
        ),
        (
            "05 00 07 01 61",
            "token SessionToken (0x0005) at byte 28: the type is SmallString and not String",
        ),
        ("00 f0 0f", "token 0xf000 at byte 28: 0x0f is no type"),
        (
            "05 00 08 01 00 ff",
            "token SessionToken (0x0005) at byte 28: the text is not UTF-8",
        ),
    ] {
        assert_eq!(refused(&format!("{first}{tokens}")).to_string(), error);
    }
    let expected = FrameError::OtherType {
        place: Place {
            id: 4,
            name: Some("PageSize"),
            offset: 24,
        },
        expected: Type::ULong,
        found: Type::Byte,
    };
    assert_eq!(refused("04 00 00 01"), expected);
}

#[test]
fn what_is_shown_of_a_head_has_no_values() {
    let mut writer = FrameWriter::request(3, 3, ACTIVITY);
    assert!(writer.text(&request::AUTHORIZATION_TOKEN, "secret"));
    let head = writer.finish(&[]);
    let read = RequestHead::parse(&head).expect("a head");
    assert!(!format!("{read:?}").contains("secret"));
    assert!(format!("{read:?}").contains("00112233-4455-6677-8899-aabbccddeeff"));
}

#[test]
fn answers_are_read_by_their_table() {
    let mut writer = FrameWriter::answer(200, ACTIVITY);
    assert!(writer.text(&context_answer::SERVER_AGENT, "orrery"));
    let head = writer.finish(&[]);
    let read = AnswerHead::parse(&head, context_answer::TABLE).expect("a context");
    assert_eq!((read.status, read.activity_id), (200, ACTIVITY));
    assert_eq!(read.text(&context_answer::SERVER_AGENT), Some("orrery"));

    let mut writer = FrameWriter::answer(404, ACTIVITY);
    writer.number(&answer::LSN, 7);
    writer.double(&answer::REQUEST_CHARGE, 1.25);
    let mut head = writer.finish(&[]);
    let read = AnswerHead::parse(&head, answer::TABLE).expect("an answer");
    assert_eq!(read.number(&answer::LSN), Some(7));
    assert_eq!(
        read.value(&answer::REQUEST_CHARGE),
        Some(Value::Double(1.25))
    );
    // The same id has another type in the answer to a context.
    head.truncate(24);
    head.extend(bytes("02 00 08 00 00"));
    state_length(&mut head);
    let refused = |table: &'static [Token]| AnswerHead::parse(&head, table).is_err();
    assert!(refused(answer::TABLE) && refused(context_answer::TABLE));
}
