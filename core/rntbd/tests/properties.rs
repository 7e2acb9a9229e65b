//! Properties of all frames: what is written is read, and no bytes panic.

use crate::support::{ACTIVITY, state_length};
use orrery_rntbd::tokens::{answer, context_answer, context_request, request};
use orrery_rntbd::{
    AnswerHead, FrameWriter, HEAD_BYTES_MIN, RequestHead, Token, Type, Value, head_length,
};
use proptest::num::{f32, f64};
use proptest::prelude::*;
use proptest::sample::select;

/// A value with memory of its own.
#[derive(Clone, Debug)]
enum Owned {
    Fixed(Value<'static>),
    Text(String),
    Bytes(Vec<u8>),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Owned::Fixed(value) => *value,
            Owned::Text(text) => Value::Text(text),
            Owned::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// Returns the values of a type.
fn values(kind: Type) -> BoxedStrategy<Owned> {
    let finite = f64::NORMAL | f64::ZERO | f64::SUBNORMAL | f64::NEGATIVE;
    let single = f32::NORMAL | f32::ZERO | f32::NEGATIVE;
    let fixed = match kind {
        Type::Byte => any::<u8>().prop_map(Value::Byte).boxed(),
        Type::UShort => any::<u16>().prop_map(Value::UShort).boxed(),
        Type::ULong => any::<u32>().prop_map(Value::ULong).boxed(),
        Type::Long => any::<i32>().prop_map(Value::Long).boxed(),
        Type::ULongLong => any::<u64>().prop_map(Value::ULongLong).boxed(),
        Type::LongLong => any::<i64>().prop_map(Value::LongLong).boxed(),
        Type::Guid => any::<[u8; 16]>().prop_map(Value::Guid).boxed(),
        Type::Float => single.prop_map(Value::Float).boxed(),
        Type::Double => finite.prop_map(Value::Double).boxed(),
        Type::SmallString | Type::String | Type::ULongString => {
            return ".{0,40}".prop_map(Owned::Text).boxed();
        }
        Type::SmallBytes | Type::Bytes | Type::ULongBytes => {
            let bytes = prop::collection::vec(any::<u8>(), 0..80);
            return bytes.prop_map(Owned::Bytes).boxed();
        }
    };
    fixed.prop_map(Owned::Fixed).boxed()
}

/// Returns lists of tokens of a table with values.
fn lists(table: &'static [Token]) -> impl Strategy<Value = Vec<(Token, Owned)>> {
    let token = select(table).prop_flat_map(|token| (Just(token), values(token.kind)));
    prop::collection::vec(token, 0..40)
}

/// Returns tokens with ids that no table has, of every type.
fn unknown() -> impl Strategy<Value = Vec<(Token, Owned)>> {
    let token = (0xF000_u16..=0xFFFF, 0_u8..=0xE).prop_flat_map(|(id, number)| {
        let token = Token {
            id,
            name: "",
            kind: Type::from_wire(number).expect("a type"),
            header: None,
        };
        (Just(token), values(token.kind))
    });
    prop::collection::vec(token, 0..40)
}

fn write(writer: &mut FrameWriter, tokens: &[(Token, Owned)]) {
    for (token, value) in tokens {
        assert!(writer.value(token, value.value()), "{}", token.name);
    }
}

fn pairs(tokens: &[(Token, Owned)]) -> Vec<(u16, Value<'_>)> {
    let pairs = tokens.iter();
    pairs
        .map(|(token, value)| (token.id, value.value()))
        .collect()
}

fn check_request(resource: u16, tokens: &[(Token, Owned)], payload: &[u8]) {
    let mut writer = FrameWriter::request(resource, 0, ACTIVITY);
    write(&mut writer, tokens);
    let frame = writer.finish(payload);
    let first = *frame.first_chunk().expect("a length");
    let length = head_length(first, frame.len()).expect("a length");
    let (head, rest) = frame.split_at(length);
    let read = RequestHead::parse(head).expect("own bytes");
    assert_eq!(read.is_context(), resource == 0);
    let expected = pairs(tokens);
    assert_eq!(read.tokens().collect::<Vec<_>>(), expected);
    for (token, _) in tokens {
        let last = expected.iter().rev().find(|(id, _)| *id == token.id);
        assert_eq!(read.value(token), last.map(|(_, value)| *value));
    }
    match rest.split_first_chunk() {
        Some((length, bytes)) => {
            assert_eq!(u32::from_le_bytes(*length) as usize, payload.len());
            assert_eq!(bytes, payload);
        }
        None => assert!(payload.is_empty()),
    }
}

fn check_answer(status: u32, table: &'static [Token], tokens: &[(Token, Owned)]) {
    let mut writer = FrameWriter::answer(status, ACTIVITY);
    write(&mut writer, tokens);
    let head = writer.finish(&[]);
    let read = AnswerHead::parse(&head, table).expect("own bytes");
    assert_eq!((read.status, read.activity_id), (status, ACTIVITY));
    assert_eq!(read.tokens().collect::<Vec<_>>(), pairs(tokens));
}

/// Reads bytes in every way; no way may panic.
fn read_all(bytes: &[u8]) {
    if let Some(first) = bytes.first_chunk() {
        let _ = head_length(*first, bytes.len());
    }
    if let Ok(read) = RequestHead::parse(bytes) {
        let _ = read.has_payload();
        assert!(
            request::TABLE
                .iter()
                .filter_map(|token| read.value(token))
                .count()
                <= bytes.len()
        );
    }
    for table in [answer::TABLE, context_answer::TABLE] {
        if let Ok(read) = AnswerHead::parse(bytes, table) {
            assert!(read.tokens().count() <= bytes.len());
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        requests in lists(request::TABLE),
        contexts in lists(context_request::TABLE),
        answers in lists(answer::TABLE),
        greetings in lists(context_answer::TABLE),
        others in unknown(),
        payload in prop::collection::vec(any::<u8>(), 0..100),
        status in any::<u32>(),
    ) {
        check_request(3, &requests, &payload);
        check_request(0, &contexts, &[]);
        check_request(3, &others, &payload);
        check_answer(status, answer::TABLE, &answers);
        check_answer(status, answer::TABLE, &others);
        check_answer(status, context_answer::TABLE, &greetings);
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
        if bytes.len() >= HEAD_BYTES_MIN {
            state_length(&mut bytes);
            read_all(&bytes);
        }
    }

    #[test]
    fn a_changed_byte_does_not_panic(
        tokens in lists(request::TABLE),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut writer = FrameWriter::request(3, 1, ACTIVITY);
        write(&mut writer, &tokens);
        let mut head = writer.finish(&[]);
        for (index, byte) in changes {
            let at = index.index(head.len());
            head[at] = byte;
        }
        read_all(&head);
        state_length(&mut head);
        read_all(&head);
    }

    #[test]
    fn a_truncated_head_is_an_error(tokens in lists(request::TABLE)) {
        let mut writer = FrameWriter::request(3, 1, ACTIVITY);
        let mut ends = vec![HEAD_BYTES_MIN];
        for token in &tokens {
            write(&mut writer, std::slice::from_ref(token));
            ends.push(writer.clone().finish(&[]).len());
        }
        let head = writer.finish(&[]);
        for length in 0..head.len() {
            let cut = &head[..length];
            prop_assert!(RequestHead::parse(cut).is_err(), "{length}");
            if length >= HEAD_BYTES_MIN {
                // With the length of what is left, only whole tokens make a head.
                let mut cut = cut.to_vec();
                state_length(&mut cut);
                let read = RequestHead::parse(&cut);
                prop_assert_eq!(read.is_ok(), ends.contains(&length), "{}", length);
            }
        }
    }

    #[test]
    fn a_header_becomes_the_token_that_it_came_from(
        token in select(request::TABLE).prop_filter("a header", |token| token.header.is_some()),
        seed in any::<u64>(),
    ) {
        let mut writer = FrameWriter::request(3, 1, ACTIVITY);
        let text = format!("{seed:x}");
        match token.kind {
            kind if kind.is_text() => prop_assert!(writer.text(&token, &text)),
            kind if kind.is_bytes() => prop_assert!(writer.bytes(&token, text.as_bytes())),
            Type::Guid => writer.guid(&token, (u128::from(seed) * 3).to_le_bytes()),
            _ => writer.number(&token, seed),
        }
        let head = writer.finish(&[]);
        let read = RequestHead::parse(&head).expect("own bytes");
        let (_, form) = token.header.expect("a header");
        let value = read.value(&token).expect("the token");
        if let Some(header) = form.header_value(value) {
            let mut writer = FrameWriter::request(3, 1, ACTIVITY);
            prop_assert!(writer.header(&token, &header));
            let again = writer.finish(&[]);
            let read = RequestHead::parse(&again).expect("own bytes");
            let value = read.value(&token).expect("the token");
            prop_assert_eq!(form.header_value(value), Some(header));
        }
    }
}
