//! Heads of direct mode.
//!
//! ```text
//! 0  bytes      as they are
//! 1  head       its length field is written here, which no mutation would hit
//! ```

use orrery_rntbd::tokens::{answer, context_answer, context_request, request};
use orrery_rntbd::{
    AnswerHead, FrameWriter, HEAD_BYTES_MIN, RequestHead, Token, Type, Value, head_length,
};

/// Checks an input: a head that is read, by any table, is written with the same tokens, and what
/// was written is read as itself. A cut head is refused.
pub(crate) fn check(input: &[u8]) {
    let Some((form, rest)) = input.split_first() else {
        return;
    };
    let mut head = rest.to_vec();
    if form % 2 == 1
        && let Some(first) = head.first_chunk_mut()
    {
        *first = u32::try_from(rest.len())
            .expect("a short input")
            .to_le_bytes();
    }
    check_request(&head);
    check_answer(&head, answer::TABLE);
    check_answer(&head, context_answer::TABLE);
}

fn check_request(head: &[u8]) {
    let read = match RequestHead::parse(head) {
        Ok(read) => read,
        Err(error) => return assert!(error.to_string().len() < 200, "{error}"),
    };
    let first = *head.first_chunk().expect("a head");
    assert_eq!(head_length(first, head.len()), Ok(head.len()));
    assert!(RequestHead::parse(&head[..head.len() - 1]).is_err());
    let table = match read.is_context() {
        true => context_request::TABLE,
        false => request::TABLE,
    };
    let writer = FrameWriter::request(read.resource, read.operation, read.activity_id);
    let written = rewritten(writer, table, read.tokens());
    let again = RequestHead::parse(&written).expect("own bytes");
    assert_eq!(again.has_payload(), read.has_payload());
    check_same(read.tokens(), again.tokens());
    check_headers(table, |token| read.value(token));
}

fn check_answer(head: &[u8], table: &'static [Token]) {
    let Ok(read) = AnswerHead::parse(head, table) else {
        return;
    };
    assert!(head.len() >= HEAD_BYTES_MIN);
    let writer = FrameWriter::answer(read.status, read.activity_id);
    let written = rewritten(writer, table, read.tokens());
    let again = AnswerHead::parse(&written, table).expect("own bytes");
    assert_eq!(
        (again.status, again.activity_id),
        (read.status, read.activity_id)
    );
    check_same(read.tokens(), again.tokens());
    check_headers(table, |token| read.value(token));
}

/// Returns the frame of tokens that were read.
fn rewritten<'a>(
    mut writer: FrameWriter,
    table: &[Token],
    tokens: impl Iterator<Item = (u16, Value<'a>)>,
) -> Vec<u8> {
    for (id, value) in tokens {
        let row = table.iter().find(|token| token.id == id);
        write(&mut writer, id, row.map(|row| row.kind), value);
    }
    writer.finish(&[])
}

/// Writes a value in its own type, a text or bytes in the type of the table.
fn write(writer: &mut FrameWriter, id: u16, known: Option<Type>, value: Value<'_>) {
    let longest = match value {
        Value::Bytes(_) => Type::ULongBytes,
        _ => Type::ULongString,
    };
    let token = Token {
        id,
        name: "",
        kind: known.unwrap_or(longest),
        header: None,
    };
    assert!(writer.value(&token, value));
}

/// Checks that two heads have the same tokens in the same order.
fn check_same<'a>(
    mut left: impl Iterator<Item = (u16, Value<'a>)>,
    mut right: impl Iterator<Item = (u16, Value<'a>)>,
) {
    loop {
        match (left.next(), right.next()) {
            (None, None) => return,
            // What is no number is equal to nothing.
            (Some((a, Value::Float(x))), Some((b, Value::Float(y)))) if x.is_nan() => {
                assert!(a == b && y.is_nan());
            }
            (Some((a, Value::Double(x))), Some((b, Value::Double(y)))) if x.is_nan() => {
                assert!(a == b && y.is_nan());
            }
            (left, right) => assert_eq!(left, right),
        }
    }
}

/// Checks that the header of a token is written as the token, and read as the same header.
fn check_headers<'a>(table: &'static [Token], value: impl Fn(&Token) -> Option<Value<'a>>) {
    for token in table {
        let Some((_, form)) = token.header else {
            continue;
        };
        let Some(header) = value(token).and_then(|value| form.header_value(value)) else {
            continue;
        };
        let mut writer = FrameWriter::answer(200, [0; 16]);
        if !writer.header(token, &header) {
            // The number fits the type with the other sign alone.
            assert!(token.kind.is_integer(), "{}: {header}", token.name);
            continue;
        }
        let head = writer.finish(&[]);
        let read = AnswerHead::parse(&head, table).expect("own bytes");
        let again = read.value(token).and_then(|value| form.header_value(value));
        let is_shorter = matches!(form, orrery_rntbd::Form::AfterRange);
        assert!(
            is_shorter || again.as_deref() == Some(&*header),
            "{}",
            token.name
        );
    }
}
