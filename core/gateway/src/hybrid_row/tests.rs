//! Streams written byte by byte, round trips, and damaged streams.

use super::*;
use proptest::prelude::*;

/// Encodes an operation, as a client does.
fn write_operation(operation: &Operation) -> Vec<u8> {
    let mut row = vec![FIRST_BYTE];
    row.put_u32_le(BATCH_OPERATION);
    let variable = [
        operation.partition_key.as_ref().map(|text| text.as_bytes()),
        operation.effective_partition_key.as_deref(),
        operation.id.as_ref().map(|text| text.as_bytes()),
        operation.binary_id.as_deref(),
        operation.resource_body.as_deref(),
    ];
    let fixed = [operation.operation_type, operation.resource_type];
    let present = fixed
        .iter()
        .map(Option::is_some)
        .chain(variable.iter().map(Option::is_some));
    row.put_u8(present.zip(0..).map(|(is, bit)| u8::from(is) << bit).sum());
    fixed
        .iter()
        .for_each(|number| row.put_i32_le(number.unwrap_or(0)));
    for bytes in variable.into_iter().flatten() {
        put_varint(&mut row, bytes.len() as u64);
        row.put_slice(bytes);
    }
    // The .NET SDK does not write these members in the order of their paths.
    if let Some(minimal) = operation.minimal {
        row.put_slice(&[if minimal { 3 } else { 2 }, 12]);
    }
    let texts = [
        (8, &operation.indexing_directive),
        (9, &operation.if_match),
        (10, &operation.if_none_match),
    ];
    for (path, text) in texts {
        let Some(text) = text else { continue };
        row.put_slice(&[20, path]);
        put_varint(&mut row, text.len() as u64);
        row.put_slice(text.as_bytes());
    }
    if let Some(seconds) = operation.time_to_live {
        row.put_slice(&[7, 11]);
        row.put_i32_le(seconds);
    }
    row
}

fn write_operations(operations: &[Operation]) -> Bytes {
    let mut stream = Vec::new();
    write_segment(&mut stream);
    operations
        .iter()
        .for_each(|operation| write_record(&mut stream, &write_operation(operation)));
    stream.into()
}

/// A decoded result: status, sub-status, etag, body, retry time, charge.
type DecodedAnswer = (
    i32,
    i32,
    Option<String>,
    Option<Bytes>,
    Option<u32>,
    Option<f64>,
);

fn read_answers(stream: &Bytes) -> Read<Vec<DecodedAnswer>> {
    let mut reader = Reader(stream.clone());
    reader.segment()?;
    let mut seen = Vec::new();
    while !reader.is_at_end() {
        let mut row = Reader(reader.record()?);
        row.row(BATCH_RESULT)?;
        let mask = row.byte()?;
        let (status, sub_status) = (row.int32()?, row.int32()?);
        let etag = (mask & 4 != 0).then(|| row.text()).transpose()?;
        let body = (mask & 8 != 0).then(|| row.bytes()).transpose()?;
        let (mut retry, mut charge) = (None, None);
        while !row.is_at_end() {
            match (row.byte()?, row.varint()?) {
                (11, 5) => retry = Some(row.uint32()?),
                (16, 6) => charge = Some(f64::from_le_bytes(row.array()?)),
                _ => return Err(SCHEMA),
            }
        }
        seen.push((status, sub_status, etag, body, retry, charge));
    }
    Ok(seen)
}

fn refusal(stream: &[u8]) -> String {
    let error = read_operations(&Bytes::copy_from_slice(stream)).expect_err("it is refused");
    assert_eq!(error.status(), 400);
    error.message().to_owned()
}

/// A create, byte by byte, from the description of the format.
const CREATE: &[u8] = &[
    0x81, 0xF0, 0xD8, 0xFF, 0x7F, 0x01, 10, 0, 0, 0, // segment of ten bytes
    0x81, 0xF1, 0xD8, 0xFF, 0x7F, 29, 0, 0, 0, 0x4F, 0x57, 0xCF,
    0x22, // record: length, checksum by zlib
    0x81, 0x70, 0x54, 0xE1, 0x7F,
    0x47, // operationType, resourceType, partitionKey, resourceBody
    0, 0, 0, 0, 2, 0, 0, 0, // create, item
    5, b'[', b'"', b'p', b'"', b']', // partitionKey
    2, b'{', b'}', // resourceBody
    20, 9, 1, b'*', // ifMatch
    3, 12, // minimalReturnPreference
];

#[test]
fn a_create_is_read_byte_by_byte() {
    let wanted = Operation {
        operation_type: Some(0),
        resource_type: Some(2),
        partition_key: Some(r#"["p"]"#.into()),
        resource_body: Some(Bytes::from_static(b"{}")),
        if_match: Some("*".into()),
        minimal: Some(true),
        ..Operation::default()
    };
    assert_eq!(
        read_operations(&Bytes::from_static(CREATE)).expect("a batch"),
        [wanted]
    );
}

#[test]
fn an_error_names_the_record_and_the_problem() {
    let good = Operation {
        operation_type: Some(2),
        resource_type: Some(2),
        id: Some("a".into()),
        ..Operation::default()
    };
    let stream = write_operations(&[good.clone(), good.clone()]);
    let mut damaged = stream.to_vec();
    *damaged.last_mut().expect("bytes") ^= 1;
    assert!(
        refusal(&damaged).contains("record 2 does not have its checksum"),
        "{}",
        refusal(&damaged)
    );
    assert!(refusal(&stream[..stream.len() - 1]).contains("record 2 ends too early"));
    assert!(refusal(b"").contains("its segment ends too early"));
    assert!(refusal(b"[]").contains("its segment is no row"));
    let with = |more: &[u8]| {
        let mut stream = Vec::new();
        write_segment(&mut stream);
        write_record(&mut stream, &[&write_operation(&good), more].concat());
        refusal(&stream)
    };
    assert!(with(&[3, 13]).contains("record 1 has a member that its schema does not know"));
    assert!(with(&[7, 12, 0, 0, 0, 0]).contains("of another type"));
    assert!(with(&[3, 12, 2, 12]).contains("has a member twice"));
    assert!(with(&[20, 9, 1, 0xFF]).contains("not UTF-8"));
    assert!(
        with(&[
            3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F
        ])
        .contains("too long")
    );
    assert!(
        with(&[20, 9, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).contains("ends too early"),
        "a length beyond all bytes"
    );
    assert!(
        read_operations(&write_operations(&[]))
            .expect("an empty batch")
            .is_empty()
    );
}

#[test]
fn a_segment_may_have_a_comment() {
    let mut stream = write_operations(&[Operation::default()]).to_vec();
    stream[6] = 13;
    stream.splice(10..10, [2, b'h', b'i']);
    assert_eq!(
        read_operations(&stream.into()).expect("a batch"),
        [Operation::default()]
    );
}

#[test]
fn answers_are_written_byte_by_byte() {
    let answer = OperationResult {
        status: 201,
        etag: Some("\"e\""),
        body: Some(b"{}"),
        charge: 1.0,
        ..OperationResult::default()
    };
    let stream = write_answers([answer].into_iter());
    let row: &[u8] = &[
        0x81, 0x71, 0x54, 0xE1, 0x7F, 0x0D, 201, 0, 0, 0, 0, 0, 0, 0, 3, b'"', b'e', b'"', 2, b'{',
        b'}', 16, 6, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F,
    ];
    assert_eq!(stream[23..], *row);
    assert_eq!(stream[..10], CREATE[..10]);
    assert_eq!(stream[15..19], (row.len() as u32).to_le_bytes());
    assert_eq!(stream[19..23], crc32fast::hash(row).to_le_bytes());
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::collection::vec(any::<char>(), 0..200).prop_map(String::from_iter))
}

fn bytes() -> impl Strategy<Value = Option<Bytes>> {
    prop::option::of(prop::collection::vec(any::<u8>(), 0..400).prop_map(Bytes::from))
}

fn operation() -> impl Strategy<Value = Operation> {
    let fixed = (any::<Option<i32>>(), any::<Option<i32>>());
    let variable = (text(), bytes(), text(), bytes(), bytes());
    let sparse = (
        text(),
        text(),
        text(),
        any::<Option<i32>>(),
        any::<Option<bool>>(),
    );
    (fixed, variable, sparse).prop_map(|(fixed, variable, sparse)| Operation {
        operation_type: fixed.0,
        resource_type: fixed.1,
        partition_key: variable.0,
        effective_partition_key: variable.1,
        id: variable.2,
        binary_id: variable.3,
        resource_body: variable.4,
        indexing_directive: sparse.0,
        if_match: sparse.1,
        if_none_match: sparse.2,
        time_to_live: sparse.3,
        minimal: sparse.4,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn operations_read_back(operations in prop::collection::vec(operation(), 0..6)) {
        let read = read_operations(&write_operations(&operations)).expect("a batch");
        prop_assert_eq!(read, operations);
    }

    #[test]
    fn answers_read_back(
        parts in prop::collection::vec(
            (
                200..600u16,
                any::<u32>(),
                text(),
                bytes(),
                any::<Option<u32>>(),
                0..1_000_000u32,
            ),
            0..6,
        ),
    ) {
        let answers = parts.iter().map(|part| {
            let (status, sub_status, etag, body, retry_after_ms, hundredths) = part;
            OperationResult {
                status: *status,
                sub_status: *sub_status,
                etag: etag.as_deref(),
                body: body.as_deref(),
                retry_after_ms: *retry_after_ms,
                charge: f64::from(*hundredths) / 100.0,
            }
        });
        let decoded = read_answers(&write_answers(answers.clone())).expect("answers");
        let expected: Vec<DecodedAnswer> = answers
            .map(|answer| {
                (
                    i32::from(answer.status),
                    answer.sub_status as i32,
                    answer.etag.map(str::to_owned),
                    answer.body.map(Bytes::copy_from_slice),
                    answer.retry_after_ms,
                    Some(answer.charge),
                )
            })
            .collect();
        prop_assert_eq!(decoded, expected);
    }

    #[test]
    fn any_bytes_give_a_batch_or_an_error(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        _ = read_operations(&Bytes::from(noise.clone()));
        let mut stream = Vec::new();
        write_segment(&mut stream);
        write_record(&mut stream, &noise);
        _ = read_operations(&stream.into());
        // After a valid head and with a valid checksum, so that every byte is examined.
        let mut row = write_operation(&Operation::default());
        row.extend(&noise);
        let mut stream = Vec::new();
        write_segment(&mut stream);
        write_record(&mut stream, &row);
        _ = read_operations(&stream.into());
    }

    #[test]
    fn damage_to_any_byte_is_detected(
        operations in prop::collection::vec(operation(), 1..4),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let mut stream = write_operations(&operations).to_vec();
        let at = at.index(stream.len());
        stream[at] ^= 1 << bit;
        // The mask of the segment has bits for members that the reader ignores.
        let read = read_operations(&stream.into());
        prop_assert!(at == 5 || read.map_or(true, |read| read != operations));
    }
}
