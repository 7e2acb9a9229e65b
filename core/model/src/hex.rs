//! Bytes as hexadecimal digits, two for each byte.

use std::fmt::Write;

/// Returns bytes as lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Reads digits of either case. Returns `None` for an odd number of digits and for any other
/// character.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_is_the_inverse_of_encoding() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode(&bytes);
        assert_eq!(&text[..8], "00010203");
        assert_eq!(decode(&text).expect("digits"), bytes);
        assert_eq!(decode(&text.to_uppercase()).expect("digits"), bytes);
        assert_eq!(decode("").expect("no digits"), Vec::<u8>::new());
    }

    #[test]
    fn other_characters_and_odd_numbers_of_digits_are_refused() {
        for text in ["0", "0g", "+1", "é", "00 "] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
