//! The writer: what it writes, and what it refuses.

use crate::support::{ACTIVITY, bytes};
use orrery_rntbd::tokens::{answer, context_answer, request};
use orrery_rntbd::{FrameWriter, Token, Type};

/// Returns the bytes of the tokens that `write` writes.
fn tokens(write: impl FnOnce(&mut FrameWriter)) -> Vec<u8> {
    let mut writer = FrameWriter::answer(200, ACTIVITY);
    write(&mut writer);
    writer.finish(&[]).split_off(24)
}

#[test]
fn a_frame_has_the_length_of_its_head_and_a_payload_behind_its_own() {
    let mut writer = FrameWriter::answer(201, ACTIVITY);
    writer.number(&answer::PAYLOAD_PRESENT, 1);
    let frame = writer.clone().finish(b"{}");
    let guid = "33 22 11 00 55 44 77 66 88 99 aa bb cc dd ee ff";
    let head = format!("1c 00 00 00  c9 00 00 00 {guid}  00 00 00 01");
    assert_eq!(frame, bytes(&format!("{head}  02 00 00 00 7b 7d")));
    assert_eq!(writer.finish(b""), bytes(&head));
    let frame = FrameWriter::request(3, 0x25, ACTIVITY).finish(b"");
    assert_eq!(frame, bytes(&format!("18 00 00 00 03 00 25 00 {guid}")));
}

#[test]
fn numbers_have_the_size_of_their_type() {
    for (token, value, expected) in [
        (answer::PAYLOAD_PRESENT, 1, "00 00 00 01"),
        (answer::ITEM_COUNT, 258, "14 00 02 02 01 00 00"),
        (answer::LSN, 5, "13 00 05 05 00 00 00 00 00 00 00"),
        (
            request::TIME_TO_LIVE_IN_SECONDS,
            u64::MAX,
            "59 00 03 ff ff ff ff",
        ),
    ] {
        let written = tokens(|writer| writer.number(&token, value));
        assert_eq!(written, bytes(expected), "{}", token.name);
    }
    let short = Token {
        kind: Type::UShort,
        ..answer::LSN
    };
    let written = tokens(|writer| writer.number(&short, 0x0102));
    assert_eq!(written, bytes("13 00 01 02 01"));
}

#[test]
fn other_values_are_written_by_their_type() {
    let charge = tokens(|writer| writer.double(&answer::REQUEST_CHARGE, 1.0));
    assert_eq!(charge, bytes("15 00 0e 00 00 00 00 00 00 f0 3f"));
    let single = Token {
        kind: Type::Float,
        ..answer::REQUEST_CHARGE
    };
    let charge = tokens(|writer| writer.double(&single, 1.0));
    assert_eq!(charge, bytes("15 00 0d 00 00 80 3f"));
    let guid = tokens(|writer| writer.guid(&request::CORRELATED_ACTIVITY_ID, ACTIVITY));
    assert_eq!(guid[..3], bytes("b0 00 06"));
    assert_eq!(guid[3..], ACTIVITY);
    let text = tokens(|writer| assert!(writer.text(&answer::ETAG, "é")));
    assert_eq!(text, bytes("04 00 08 02 00 c3 a9"));
    let raw = tokens(|writer| assert!(writer.bytes(&request::RESOURCE_ID, &[1, 2])));
    assert_eq!(raw, bytes("00 00 0b 02 00 01 02"));
}

#[test]
fn a_text_that_is_too_long_is_not_written() {
    for (token, max) in [
        (context_answer::SERVER_AGENT, 255),
        (answer::CONTINUATION_TOKEN, 65_535),
    ] {
        let longest = "x".repeat(max);
        let written = tokens(|writer| assert!(writer.text(&token, &longest)));
        assert!(written.len() > max);
        let longer = "x".repeat(max + 1);
        let written = tokens(|writer| assert!(!writer.text(&token, &longer)));
        assert_eq!(written, b"");
    }
    let long = Token {
        kind: Type::ULongString,
        ..answer::CONTINUATION_TOKEN
    };
    let longer = "x".repeat(65_536);
    let written = tokens(|writer| assert!(writer.text(&long, &longer)));
    assert_eq!(written[..7], bytes("03 00 09 00 00 01 00"));
    let written = tokens(|writer| assert!(!writer.bytes(&request::START_EPK, &[0; 65_536])));
    assert_eq!(written, b"");
}
