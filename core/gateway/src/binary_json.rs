//! Decoder of the service's binary encoding of JSON: a body whose first byte is 0x80 is translated
//! into JSON text.
//!
//! The Rust SDK encodes items in this form unless it is configured otherwise, and the .NET SDK does
//! if it is configured to. Both distinguish a text reply from a binary one by its first byte, so
//! the server always replies in text and needs no encoder.
//!
//! One value follows the first byte. The first byte of the value, the marker, determines its type:
//!
//! ```text
//! 00-1F  the number itself            C7-CF  numbers of a fixed width, little-endian
//! 20-3F  a word of the dictionary     D0-DF  null, false, true, GUID, more numbers, bytes
//! 71-7F  packed texts                 E0-E7  arrays
//! 80-BF  a text of marker & 7F bytes  E8-EF  objects
//! C0-C6  longer texts, and references to earlier texts
//!                                     F0-F3  arrays of numbers of one width
//! ```
//!
//! Source of the format: the decoders of the published clients and their test vectors, some of
//! which are in the tests below.
//!
//! Promises: any bytes give a text or a 400 that states the byte offset; the length of the text is
//! limited, however often it repeats a reference. Left out: dictionaries of the client (markers
//! 40-67), which no client sends and the service refuses.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use orrery_model::{Error, Json, Result, limits};
use std::borrow::Cow;

/// The first byte of every body in this encoding; no text begins with it.
pub(crate) const FIRST_BYTE: u8 = 0x80;

/// The longest text, in bytes. References and numbers of one byte make the text longer than the
/// binary form; the limit is that of a body sent as text.
pub(crate) const TEXT_BYTES_MAX: usize = 2 * limits::ITEM_BYTES;

/// The words that are encoded in one byte, from 0x20 on.
const DICTIONARY: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];

const LOWER_HEX: &[u8; 16] = b"0123456789abcdef";
const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";
/// The characters of dates and times.
const DATE_TIME: &[u8; 16] = b" 0123456789:-.TZ";

/// Translates a body that starts with [`FIRST_BYTE`] into JSON text.
///
/// # Errors
/// 400 if the body is malformed, its text is too long, or it is nested too deeply.
pub(crate) fn to_text(body: &[u8]) -> Result<String> {
    let mut reader = Reader { bytes: body, at: 1 };
    let mut text = String::with_capacity(body.len() * 2);
    reader.value(&mut text, 0)?;
    if reader.at != body.len() {
        return Err(reader.wrong("there is more than one value"));
    }
    Ok(text)
}

struct Reader<'b> {
    bytes: &'b [u8],
    /// The offset of the next byte.
    at: usize,
}

/// The extent of an array or object.
enum Extent {
    /// This number of elements.
    Count(usize),
    /// All elements before this byte offset, and their number if the encoding states it.
    End(usize, Option<usize>),
}

impl<'b> Reader<'b> {
    /// Returns the error for a malformed body, with the current offset.
    fn wrong(&self, what: &str) -> Error {
        Error::bad(format!(
            "The body is not valid binary JSON: {what}, at byte {}.",
            self.at
        ))
    }

    fn bytes(&mut self, count: usize) -> Result<&'b [u8]> {
        // The offset of a reference may lie behind the body.
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(found) = rest.get(..count) else {
            return Err(self.wrong("it ends too early"));
        };
        self.at += count;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    /// Reads a length or an offset of 1 to 4 bytes.
    fn length(&mut self, width: usize) -> Result<usize> {
        let mut length = 0;
        for byte in self.bytes(width)?.iter().rev() {
            length = length << 8 | usize::from(*byte);
        }
        Ok(length)
    }

    /// Translates one value. `depth` is the number of arrays and objects around the value.
    fn value(&mut self, out: &mut String, depth: usize) -> Result<()> {
        if out.len() > TEXT_BYTES_MAX {
            return Err(self.wrong("its text is too long"));
        }
        let start = self.at;
        let marker = self.byte()?;
        match marker {
            // Small numbers are their own markers.
            0x00..=0x1F => out.push_str(&marker.to_string()),
            0xD0 => out.push_str("null"),
            0xD1 => out.push_str("false"),
            0xD2 => out.push_str("true"),
            0xE0..=0xE7 => self.elements(marker & 7, out, depth, false)?,
            0xE8..=0xEF => self.elements(marker & 7, out, depth, true)?,
            0xF0..=0xF3 => self.uniform(marker, out, depth)?,
            0xC7..=0xCE | 0xD7..=0xDC => {
                let number = self.number(marker)?;
                out.push_str(&number);
            }
            // All other markers are those of texts, whose function reads the marker itself.
            _ => {
                self.at = start;
                let text = self.text(true)?;
                out.push_str(&Json::from(text.as_ref()).to_text());
            }
        }
        Ok(())
    }

    /// Checks the number of arrays and objects within each other, this one included.
    fn check_depth(&self, levels: usize) -> Result<()> {
        match levels > limits::NESTING_DEPTH {
            true => Err(self.wrong("it is nested too deeply")),
            false => Ok(()),
        }
    }

    /// Translates the members of an object or the elements of an array. `form`, the last three bits
    /// of the marker, determines the encoding of the extent.
    fn elements(
        &mut self,
        form: u8,
        out: &mut String,
        depth: usize,
        is_object: bool,
    ) -> Result<()> {
        self.check_depth(depth + 1)?;
        let extent = self.extent(form)?;
        let (open, close) = if is_object { ('{', '}') } else { ('[', ']') };
        out.push(open);

        let mut found = 0;
        loop {
            let is_complete = match extent {
                Extent::Count(count) => found >= count,
                Extent::End(end, _) => self.at >= end,
            };
            if is_complete {
                break;
            }
            if found > 0 {
                out.push(',');
            }
            if is_object {
                let name = self.text(true)?;
                out.push_str(&Json::from(name.as_ref()).to_text());
                out.push(':');
            }
            self.value(out, depth + 1)?;
            found += 1;
        }

        // The last element must end at the stated offset, and the stated number must be right.
        if let Extent::End(end, count) = extent {
            let is_count_wrong = count.is_some_and(|count| count != found);
            if self.at != end || is_count_wrong {
                return Err(self.wrong("a container does not end where it says"));
            }
        }
        out.push(close);
        Ok(())
    }

    /// Reads the extent of an array or object.
    fn extent(&mut self, form: u8) -> Result<Extent> {
        // Forms 0 and 1 have this number of elements; forms 2 to 4 state the length in 1, 2 or 4
        // bytes; forms 5 to 7 state the length and the number of elements.
        if form < 2 {
            return Ok(Extent::Count(usize::from(form)));
        }
        let width = [1, 2, 4][usize::from(form - 2) % 3];
        let length = self.length(width)?;
        let count = if form >= 5 {
            Some(self.length(width)?)
        } else {
            None
        };
        match self.at.checked_add(length) {
            Some(end) if end <= self.bytes.len() => Ok(Extent::End(end, count)),
            _ => Err(self.wrong("a container is longer than the body")),
        }
    }

    /// Translates an array of numbers of one width, or an array of such arrays.
    fn uniform(&mut self, marker: u8, out: &mut String, depth: usize) -> Result<()> {
        let width = if marker & 1 == 0 { 1 } else { 2 };
        let nested = marker >= 0xF2;
        self.check_depth(depth + if nested { 2 } else { 1 })?;
        if nested && self.byte()? != marker - 2 {
            return Err(self.wrong("an array of arrays names another kind of array"));
        }
        let kind = self.byte()?;
        let inner = self.length(width)?;
        let outer = if nested { self.length(width)? } else { 1 };
        // Empty arrays take no bytes, so their number is limited here.
        if inner == 0 && outer > self.bytes.len() {
            return Err(self.wrong("it has more empty arrays than bytes"));
        }
        let mut arrays = Vec::with_capacity(outer.min(1_024));
        for _ in 0..outer {
            let numbers = (0..inner)
                .map(|_| self.number(kind))
                .collect::<Result<Vec<_>>>()?;
            arrays.push(format!("[{}]", numbers.join(",")));
        }
        if nested {
            out.push_str(&format!("[{}]", arrays.join(",")));
        } else {
            out.push_str(&arrays.concat());
        }
        Ok(())
    }

    /// Reads the number that follows a marker, and returns it as JSON.
    fn number(&mut self, marker: u8) -> Result<String> {
        let double = |number: f64| number.is_finite().then(|| Json::from(number).to_text());
        let text = match marker {
            0xC8 | 0xD7 => Some(self.byte()?.to_string()),
            0xD8 => Some(i8::from_le_bytes(self.array()?).to_string()),
            0xC9 | 0xD9 => Some(i16::from_le_bytes(self.array()?).to_string()),
            0xCA | 0xDA => Some(i32::from_le_bytes(self.array()?).to_string()),
            0xCB | 0xDB => Some(i64::from_le_bytes(self.array()?).to_string()),
            0xDC => Some(u32::from_le_bytes(self.array()?).to_string()),
            0xC7 => Some(u64::from_le_bytes(self.array()?).to_string()),
            0xCC | 0xCE => double(f64::from_le_bytes(self.array()?)),
            0xCD => double(f64::from(f32::from_le_bytes(self.array()?))),
            _ => None,
        };
        text.ok_or_else(|| self.wrong("a number is none that JSON has"))
    }

    /// Reads a text with its marker. With `may_refer`, the text may be a reference to an earlier
    /// text, which must not be a reference itself.
    fn text(&mut self, may_refer: bool) -> Result<Cow<'b, str>> {
        let marker = self.byte()?;
        // One arm for each encoding: dictionary, plain text, reference, and packed forms.
        Ok(match marker {
            0x20..=0x3F => Cow::Borrowed(DICTIONARY[usize::from(marker - 0x20)]),
            0x80..=0xBF => self.plain(usize::from(marker & 0x7F))?,
            0xC0..=0xC2 => {
                let length = self.length([1, 2, 4][usize::from(marker - 0xC0)])?;
                self.plain(length)?
            }
            0xC3..=0xC6 if may_refer => {
                let at = self.length(usize::from(marker - 0xC2))?;
                Reader {
                    bytes: self.bytes,
                    at,
                }
                .text(false)?
            }
            0x71..=0x74 => Cow::Owned(self.base64(marker)?),
            0x75..=0x77 => Cow::Owned(self.guid_text(marker)?),
            0x78 => Cow::Owned(self.by_table(LOWER_HEX)?),
            0x79 => Cow::Owned(self.by_table(UPPER_HEX)?),
            0x7A => Cow::Owned(self.by_table(DATE_TIME)?),
            0x7B..=0x7F => Cow::Owned(self.packed(marker)?),
            0xD3 => Cow::Owned(self.guid()?),
            0xDD..=0xDF => {
                let length = self.length([1, 2, 4][usize::from(marker - 0xDD)])?;
                Cow::Owned(STANDARD.encode(self.bytes(length)?))
            }
            _ => return Err(self.wrong(&format!("the marker 0x{marker:02X} is unknown here"))),
        })
    }

    /// Reads a text of `length` bytes of UTF-8.
    fn plain(&mut self, length: usize) -> Result<Cow<'b, str>> {
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes)
            .map(Cow::Borrowed)
            .map_err(|_| self.wrong("a text is no UTF-8"))
    }

    /// Reads a text in base64 that is encoded as its bytes: the number of groups of four
    /// characters, the number of `=` at the end, and the bytes. A number of `=` above two is the
    /// complement of the number of omitted characters.
    fn base64(&mut self, marker: u8) -> Result<String> {
        let groups = self.length(if marker & 1 == 1 { 1 } else { 2 })?;
        let padding = self.byte()?;
        let missing = usize::from(if padding > 2 { !padding } else { padding });
        let characters = (groups * 4)
            .checked_sub(missing)
            .ok_or_else(|| self.wrong("its base64 is too short"))?;
        let bytes = self.bytes(characters * 3 / 4)?;
        let mut text = if marker < 0x73 {
            STANDARD.encode(bytes)
        } else {
            URL_SAFE.encode(bytes)
        };
        if padding > 2 {
            text.truncate(characters);
        }
        Ok(text)
    }

    /// Reads a GUID that is a text: two digits in each byte, the first in the low half. An etag is
    /// a GUID in quotes.
    fn guid_text(&mut self, marker: u8) -> Result<String> {
        let digits = if marker == 0x76 { UPPER_HEX } else { LOWER_HEX };
        let hex: String = self
            .bytes(16)?
            .iter()
            .flat_map(|byte| nibbles(*byte, digits))
            .collect();
        let text = dashed(&hex);
        Ok(if marker == 0x77 {
            format!("\"{text}\"")
        } else {
            text
        })
    }

    /// Reads a binary GUID, in the byte order of Windows.
    fn guid(&mut self) -> Result<String> {
        const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        let bytes = self.array::<16>()?;
        Ok(dashed(
            &ORDER.map(|at| format!("{:02x}", bytes[at])).concat(),
        ))
    }

    /// Reads a text with two characters of a table in each byte, the first in the low half.
    fn by_table(&mut self, table: &[u8; 16]) -> Result<String> {
        let length = self.length(1)?;
        let mut text: String = self
            .bytes(length.div_ceil(2))?
            .iter()
            .flat_map(|byte| nibbles(*byte, table))
            .collect();
        text.truncate(length);
        Ok(text)
    }

    /// Reads a text with characters of 4 to 7 bits each, the lowest bits first. Characters of up to
    /// 6 bits are offsets from a base character.
    fn packed(&mut self, marker: u8) -> Result<String> {
        let (bits, width) = match marker {
            0x7E => (7, 1),
            0x7F => (7, 2),
            _ => (usize::from(marker - 0x7B) + 4, 1),
        };
        let length = self.length(width)?;
        let base = if bits < 7 { self.byte()? } else { 0 };
        let bytes = self.bytes((length * bits).div_ceil(8))?;
        // A character may lie in two bytes.
        let character = |n: usize| {
            let (at, shift) = (n * bits / 8, n * bits % 8);
            let window =
                u16::from(bytes[at]) | u16::from(bytes.get(at + 1).copied().unwrap_or(0)) << 8;
            let value = (window >> shift) & ((1 << bits) - 1);
            base.checked_add(value as u8)
                .filter(u8::is_ascii)
                .map(char::from)
        };
        (0..length)
            .map(character)
            .collect::<Option<_>>()
            .ok_or_else(|| self.wrong("a packed text is not ASCII"))
    }
}

/// Returns the characters of both halves of a byte, the low half first.
fn nibbles(byte: u8, table: &[u8; 16]) -> [char; 2] {
    [byte & 0x0F, byte >> 4].map(|nibble| char::from(table[usize::from(nibble)]))
}

/// Returns 32 hexadecimal digits in the form of a GUID.
fn dashed(hex: &str) -> String {
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        hex.split(' ')
            .map(|byte| u8::from_str_radix(byte, 16).expect("hex"))
            .collect()
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a line for each vector")]
    fn the_vectors_of_the_clients_read_back() {
        let vectors = [
            ("80 D0", "null"),
            ("80 D1", "false"),
            ("80 1F", "31"),
            ("80 C8 C8", "200"),
            ("80 C9 18 FC", "-1000"),
            ("80 CA 70 11 01 00", "70000"),
            ("80 CB 00 0E FA D5 FE FF FF FF", "-5000000000"),
            ("80 C7 FE FF FF FF FF FF FF FF", "18446744073709551614"),
            ("80 CC 00 00 00 00 00 00 0C 40", "3.5"),
            ("80 CD 00 00 C0 3F", "1.5"),
            ("80 D8 FB", "-5"),
            ("80 DC FE FF FF FF", "4294967294"),
            ("80 2C", "\"id\""),
            ("80 2B", "\"GeometryCollection\""),
            ("80 3F", "\"_id\""),
            ("80 80", "\"\""),
            ("80 82 68 69", "\"hi\""),
            ("80 C0 05 68 65 6C 6C 6F", "\"hello\""),
            ("80 C2 05 00 00 00 68 65 6C 6C 6F", "\"hello\""),
            (
                "80 75 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F",
                "\"00102030-4050-6070-8090-a0b0c0d0e0f0\"",
            ),
            (
                "80 76 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F",
                "\"00102030-4050-6070-8090-A0B0C0D0E0F0\"",
            ),
            (
                "80 77 00 00 84 21 00 00 20 00 00 00 A6 F7 9A A8 00 00",
                r#""\"00004812-0000-0200-0000-6a7fa98a0000\"""#,
            ),
            (
                "80 D3 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F",
                "\"03020100-0504-0706-0809-0a0b0c0d0e0f\"",
            ),
            ("80 71 01 00 66 6F 6F", "\"Zm9v\""),
            ("80 71 01 01 66 6F", "\"Zm8=\""),
            ("80 71 01 FD 41", "\"QQ\""),
            ("80 72 02 00 00 66 6F 6F 62 61 72", "\"Zm9vYmFy\""),
            ("80 73 01 00 FB FF FE", "\"-__-\""),
            ("80 78 04 A1 B2", "\"1a2b\""),
            ("80 79 04 A1 B2", "\"1A2B\""),
            ("80 78 01 0F", "\"f\""),
            ("80 7A 07 13 53 1C 02", "\"2024-01\""),
            ("80 7B 04 30 10 32", "\"0123\""),
            ("80 7C 03 61 20 08", "\"abc\""),
            ("80 7D 04 61 40 20 0C", "\"abcd\""),
            ("80 7E 02 C8 34", "\"Hi\""),
            ("80 7F 02 00 C8 34", "\"Hi\""),
            ("80 DD 04 DE AD BE EF", "\"3q2+7w==\""),
            ("80 F0 DA 03 01 00 00 00 02 00 00 00 03 00 00 00", "[1,2,3]"),
            ("80 F0 DA 00", "[]"),
            ("80 F1 D9 03 00 FF FF 00 00 E8 03", "[-1,0,1000]"),
            (
                "80 F2 F0 DA 02 02 01 00 00 00 02 00 00 00 03 00 00 00 04 00 00 00",
                "[[1,2],[3,4]]",
            ),
            ("80 E0", "[]"),
            ("80 E8", "{}"),
            ("80 E1 D2", "[true]"),
            ("80 E9 2C D2", "{\"id\":true}"),
            ("80 E2 03 00 01 D0", "[0,1,null]"),
            ("80 E5 03 03 00 01 D0", "[0,1,null]"),
            ("80 E7 03 00 00 00 03 00 00 00 00 01 D0", "[0,1,null]"),
            ("80 EA 04 2C 00 3B 01", "{\"id\":0,\"type\":1}"),
            ("80 EE 04 00 02 00 2C 00 3B 01", "{\"id\":0,\"type\":1}"),
            ("80 E2 05 E1 00 E9 2C 01", "[[0],{\"id\":1}]"),
            ("80 E2 05 82 68 69 C3 03", "[\"hi\",\"hi\"]"),
            ("80 E2 08 82 68 69 C6 03 00 00 00", "[\"hi\",\"hi\"]"),
        ];
        for (hex, text) in vectors {
            assert_eq!(to_text(&bytes(hex)).expect(hex), text, "{hex}");
        }
    }

    #[test]
    fn a_malformed_body_is_refused_with_the_offset() {
        for (hex, part) in [
            ("80", "at byte 1"),
            ("80 D0 D0", "more than one value"),
            ("80 82 68", "too early"),
            ("80 82 FF FF", "UTF-8"),
            ("80 E2 09 00", "longer than the body"),
            ("80 E5 01 02 00", "does not end where it says"),
            ("80 E2 02 C3 02", "unknown here"),
            ("80 40", "0x40"),
            ("80 CC 00 00 00 00 00 00 F0 7F", "none that JSON has"),
            ("80 F3 F1 DA 00 00 FF FF", "more empty arrays"),
            ("80 71 00 01", "base64"),
        ] {
            let error = to_text(&bytes(hex)).expect_err(hex);
            assert!(
                error.status() == 400 && error.message().contains(part),
                "{hex}: {}",
                error.message()
            );
        }
    }

    #[test]
    fn depth_and_repeated_references_are_limited() {
        let deep: Vec<u8> = [0x80].into_iter().chain([0xE1; 100_000]).collect();
        assert!(
            to_text(&deep)
                .expect_err("deep")
                .message()
                .contains("deeply")
        );
        // Arrays of numbers are levels too.
        for (levels, innermost) in [
            (limits::NESTING_DEPTH, &[0xE0][..]),
            (limits::NESTING_DEPTH, &[0xE8]),
            (limits::NESTING_DEPTH, &[0xF0, 0xD7, 1, 1]),
            (limits::NESTING_DEPTH - 1, &[0xF2, 0xF0, 0xD7, 1, 1, 1]),
        ] {
            let body = |levels| {
                let arrays = std::iter::repeat_n(0xE1, levels);
                let body = [0x80].into_iter().chain(arrays);
                body.chain(innermost.iter().copied()).collect::<Vec<u8>>()
            };
            let error = to_text(&body(levels)).expect_err("deep");
            assert!(error.message().contains("deeply"), "{error}");
            let text = to_text(&body(levels - 1)).expect("it fits");
            assert!(parse(text.as_bytes()).is_ok(), "{innermost:?}");
        }
        // Each of many elements refers to one long text.
        let long = 60_000usize;
        let mut many = vec![0x80, 0xE4, 0, 0, 0, 0, 0xC1, 0x60, 0xEA];
        many.extend(std::iter::repeat_n(b'x', long));
        (0..10_000).for_each(|_| many.extend([0xC3, 6]));
        let length = (many.len() - 6) as u32;
        many[2..6].copy_from_slice(&length.to_le_bytes());
        assert!(
            to_text(&many)
                .expect_err("long")
                .message()
                .contains("too long")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_valid_text_or_an_error(
            tail in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let body: Vec<u8> = [FIRST_BYTE].into_iter().chain(tail).collect();
            if let Ok(text) = to_text(&body) {
                prop_assert!(parse(text.as_bytes()).is_ok(), "{text}");
            }
        }
    }
}
