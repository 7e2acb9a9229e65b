//! GUIDs: sixteen bytes in a frame, text in HTTP headers and logs.
//!
//! The first three groups of the text, of 4, 2 and 2 bytes, are little-endian in a frame; the rest
//! has the order of the text.

/// The position in a frame of each byte of the text, in the order of the text.
const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
/// The digits of each group of the text.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Returns the 16 bytes of a frame as 36 lower-case characters in groups of 8-4-4-4-12 digits.
pub fn guid_text(activity_id: [u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (place, at) in ORDER.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let byte = activity_id[at];
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Returns the 16 bytes in a frame of a text in groups of 8-4-4-4-12 digits, of either case.
/// Returns `None` for any other text.
pub fn guid_bytes(text: &str) -> Option<[u8; 16]> {
    let groups = text.split('-').map(str::len);
    if !groups.eq(GROUPS) {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = text.chars().filter(|digit| *digit != '-');
    for at in ORDER {
        let high = digits.next()?.to_digit(16)?;
        let low = digits.next()?.to_digit(16)?;
        bytes[at] = u8::try_from(high << 4 | low).ok()?;
    }
    Some(bytes)
}
