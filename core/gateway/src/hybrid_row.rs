//! Codec of the binary form of batches that the .NET SDK sends and reads: HybridRow rows in a
//! RecordIO stream.
//!
//! ```text
//! stream    segment record*
//! segment   81 schema·4  mask·1  length·4 …           of the whole segment; the rest is a comment
//! record    81 schema·4  length·4 crc32·4  body       the checksum is of the body
//! body      81 schema·4  mask·1  fixed·4 fixed·4  variable*  sparse*
//! variable  length as varint, bytes                   only those with a bit in the mask, in order
//! sparse    type·1 path as varint, value              to the end of the row, in any order
//! ```
//! Numbers are little-endian. A varint has seven bits in each byte, the lowest first. The codec
//! supports the two schemas of batches, an operation and a result, and nothing else of HybridRow.
//!
//! Promises: any bytes give a batch or an error that names the record. Bodies are not copied, and
//! the memory in use is limited by the size of the body. Left out: the meaning of the operations,
//! see `operations/row_batches.rs`.

use bytes::{BufMut, Bytes};
use orrery_model::{Error, Result};

/// The first byte of every row, and so of every batch in this form. No JSON text starts with it.
pub(crate) const FIRST_BYTE: u8 = 0x81;

const SEGMENT: u32 = 2_147_473_648;
const RECORD: u32 = 2_147_473_649;
const BATCH_OPERATION: u32 = 2_145_473_648;
const BATCH_RESULT: u32 = 2_145_473_649;

/// The types of sparse values.
mod kind {
    pub(super) const NULL: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const TRUE: u8 = 3;
    pub(super) const INT32: u8 = 7;
    pub(super) const UINT32: u8 = 11;
    pub(super) const FLOAT64: u8 = 16;
    pub(super) const UTF8: u8 = 20;
}

/// The paths of sparse values: the position of the member in its schema, counted from 1.
mod path {
    pub(super) const INDEXING_DIRECTIVE: u64 = 8;
    pub(super) const IF_MATCH: u64 = 9;
    pub(super) const IF_NONE_MATCH: u64 = 10;
    pub(super) const TIME_TO_LIVE: u64 = 11;
    pub(super) const MINIMAL: u64 = 12;
    pub(super) const RETRY_AFTER: u8 = 5;
    pub(super) const CHARGE: u8 = 6;
}

/// One operation with its members as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operation {
    /// `operationType`: 0 create, 1 patch, 2 read, 4 delete, 5 replace, 20 upsert.
    pub(crate) operation_type: Option<i32>,
    /// `resourceType`: 2 for items.
    pub(crate) resource_type: Option<i32>,
    /// `partitionKey`, in the form of its header.
    pub(crate) partition_key: Option<String>,
    /// `effectivePartitionKey`
    pub(crate) effective_partition_key: Option<Bytes>,
    /// `id`
    pub(crate) id: Option<String>,
    /// `binaryId`
    pub(crate) binary_id: Option<Bytes>,
    /// `resourceBody`: the item or the patch, as JSON text or binary JSON.
    pub(crate) resource_body: Option<Bytes>,
    /// `indexingDirective`
    pub(crate) indexing_directive: Option<String>,
    /// `ifMatch`
    pub(crate) if_match: Option<String>,
    /// `ifNoneMatch`
    pub(crate) if_none_match: Option<String>,
    /// `timeToLiveInSeconds`
    pub(crate) time_to_live: Option<i32>,
    /// `minimalReturnPreference`
    pub(crate) minimal: Option<bool>,
}

/// The result of one operation, as the client reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperationResult<'a> {
    /// The status.
    pub(crate) status: u16,
    /// The sub-status; 0 for none.
    pub(crate) sub_status: u32,
    /// The etag of the item.
    pub(crate) etag: Option<&'a str>,
    /// The item.
    pub(crate) body: Option<&'a [u8]>,
    /// The milliseconds after which a retry may succeed.
    pub(crate) retry_after_ms: Option<u32>,
    /// The charge in request units.
    pub(crate) charge: f64,
}

/// Reads the operations of a batch.
///
/// # Errors
/// 400 that names the first wrong record and the problem.
pub(crate) fn read_operations(body: &Bytes) -> Result<Vec<Operation>> {
    let invalid =
        |what: String| Error::bad(format!("The batch in HybridRow form is invalid: {what}."));
    let mut stream = Reader(body.clone());
    stream
        .segment()
        .map_err(|problem| invalid(format!("its segment {problem}")))?;
    let mut operations = Vec::new();
    while !stream.is_at_end() {
        let read = stream.record().and_then(|row| Reader(row).operation());
        operations.push(
            read.map_err(|problem| invalid(format!("record {} {problem}", operations.len() + 1)))?,
        );
    }
    Ok(operations)
}

/// Writes the results of the operations of a batch, in the order of the operations.
pub(crate) fn write_answers<'a>(answers: impl Iterator<Item = OperationResult<'a>>) -> Bytes {
    let mut stream = Vec::new();
    write_segment(&mut stream);
    for answer in answers {
        write_record(&mut stream, &answer.row());
    }
    stream.into()
}

/// The problem of a record, as the end of a sentence.
type Problem = &'static str;
type Read<T> = std::result::Result<T, Problem>;

const CUT: Problem = "ends too early";
const SCHEMA: Problem = "has another schema than expected";

/// Reads from the front of the remaining bytes.
struct Reader(Bytes);

impl Reader {
    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> Read<Bytes> {
        if length > self.0.len() {
            Err(CUT)
        } else {
            Ok(self.0.split_to(length))
        }
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        <[u8; N]>::try_from(&self.take(N)?[..]).map_err(|_| CUT)
    }

    fn byte(&mut self) -> Read<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn int32(&mut self) -> Read<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn uint32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn varint(&mut self) -> Read<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            // The last byte has more bits than a number of 64 bits can take.
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("has a number that is too long")
    }

    fn bytes(&mut self) -> Read<Bytes> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| CUT)?)
    }

    fn text(&mut self) -> Read<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| "has a text that is not UTF-8")
    }

    /// Reads the start of a row, which must have this schema.
    fn row(&mut self, schema: u32) -> Read<()> {
        if self.byte()? != FIRST_BYTE {
            return Err("is no row of the version known");
        }
        if self.uint32()? == schema {
            Ok(())
        } else {
            Err(SCHEMA)
        }
    }

    /// Reads the segment at the start of a stream, and skips its comment.
    fn segment(&mut self) -> Read<()> {
        const HEAD_BYTES: usize = 10;
        self.row(SEGMENT)?;
        if self.byte()? & 1 == 0 {
            return Err("has no length");
        }
        let length = usize::try_from(self.int32()?).map_err(|_| CUT)?;
        self.take(length.checked_sub(HEAD_BYTES).ok_or(CUT)?)
            .map(|_| ())
    }

    /// Reads a record and returns its body.
    fn record(&mut self) -> Read<Bytes> {
        self.row(RECORD)?;
        let length = usize::try_from(self.int32()?).map_err(|_| CUT)?;
        let checksum = self.uint32()?;
        let body = self.take(length)?;
        if crc32fast::hash(&body) == checksum {
            Ok(body)
        } else {
            Err("does not have its checksum")
        }
    }

    /// Reads an operation, to the end of its row.
    fn operation(&mut self) -> Read<Operation> {
        self.row(BATCH_OPERATION)?;
        let mask = self.byte()?;
        let has = |bit: u8| mask & 1 << bit != 0;
        // Fixed members take their bytes even if they are absent; variable members do not.
        let (operation_type, resource_type) = (self.int32()?, self.int32()?);
        let mut operation = Operation {
            operation_type: has(0).then_some(operation_type),
            resource_type: has(1).then_some(resource_type),
            partition_key: has(2).then(|| self.text()).transpose()?,
            effective_partition_key: has(3).then(|| self.bytes()).transpose()?,
            id: has(4).then(|| self.text()).transpose()?,
            binary_id: has(5).then(|| self.bytes()).transpose()?,
            resource_body: has(6).then(|| self.bytes()).transpose()?,
            ..Operation::default()
        };
        if has(7) {
            return Err("has a member that its schema does not know");
        }
        while !self.is_at_end() {
            self.sparse(&mut operation)?;
        }
        Ok(operation)
    }

    /// Reads one sparse member into `operation`. A member may be present once; null counts as
    /// absent.
    fn sparse(&mut self, operation: &mut Operation) -> Read<()> {
        let (kind, path) = (self.byte()?, self.varint()?);
        let is_repeated = match (path, kind) {
            (path::INDEXING_DIRECTIVE..=path::MINIMAL, kind::NULL) => false,
            (path::INDEXING_DIRECTIVE, kind::UTF8) => {
                operation.indexing_directive.replace(self.text()?).is_some()
            }
            (path::IF_MATCH, kind::UTF8) => operation.if_match.replace(self.text()?).is_some(),
            (path::IF_NONE_MATCH, kind::UTF8) => {
                operation.if_none_match.replace(self.text()?).is_some()
            }
            (path::TIME_TO_LIVE, kind::INT32) => {
                operation.time_to_live.replace(self.int32()?).is_some()
            }
            (path::MINIMAL, kind::FALSE | kind::TRUE) => {
                operation.minimal.replace(kind == kind::TRUE).is_some()
            }
            _ => return Err("has a member that its schema does not know, or of another type"),
        };
        if is_repeated {
            Err("has a member twice")
        } else {
            Ok(())
        }
    }
}

impl OperationResult<'_> {
    /// Returns the result as a row of its schema.
    fn row(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(64 + self.body.map_or(0, <[u8]>::len));
        row.put_u8(FIRST_BYTE);
        row.put_u32_le(BATCH_RESULT);
        let present = [
            true,
            self.sub_status != 0,
            self.etag.is_some(),
            self.body.is_some(),
        ];
        let mut mask = 0;
        for (bit, is_present) in present.iter().enumerate() {
            mask |= u8::from(*is_present) << bit;
        }
        row.put_u8(mask);

        // Fixed members, variable members, and sparse members.
        row.put_i32_le(i32::from(self.status));
        row.put_u32_le(self.sub_status);
        for bytes in [self.etag.map(str::as_bytes), self.body]
            .into_iter()
            .flatten()
        {
            put_varint(&mut row, bytes.len() as u64);
            row.put_slice(bytes);
        }
        if let Some(milliseconds) = self.retry_after_ms {
            row.put_slice(&[kind::UINT32, path::RETRY_AFTER]);
            row.put_u32_le(milliseconds);
        }
        row.put_slice(&[kind::FLOAT64, path::CHARGE]);
        row.put_f64_le(self.charge);
        row
    }
}

fn write_segment(stream: &mut Vec<u8>) {
    stream.put_u8(FIRST_BYTE);
    stream.put_u32_le(SEGMENT);
    stream.put_u8(1);
    stream.put_u32_le(10);
}

fn write_record(stream: &mut Vec<u8>, row: &[u8]) {
    stream.put_u8(FIRST_BYTE);
    stream.put_u32_le(RECORD);
    stream.put_u32_le(row.len() as u32);
    stream.put_u32_le(crc32fast::hash(row));
    stream.put_slice(row);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests;
