//! Helpers of several modules: bytes from digits, and heads of bytes.

use orrery_rntbd::FrameWriter;

/// A GUID in the order of a frame, whose text is `00112233-4455-6677-8899-aabbccddeeff`.
pub(crate) const ACTIVITY: [u8; 16] = [
    0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
];

/// Reads pairs of hexadecimal digits with blanks between them.
pub(crate) fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.split_whitespace();
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|e| panic!("{pair}: {e}")))
        .collect()
}

/// Returns a head of a read of an item with some bytes as its tokens.
pub(crate) fn head_with(tokens: &[u8]) -> Vec<u8> {
    let mut head = FrameWriter::request(3, 3, ACTIVITY).finish(&[]);
    head.extend_from_slice(tokens);
    state_length(&mut head);
    head
}

/// Writes the number of bytes of a head into its length field.
pub(crate) fn state_length(head: &mut [u8]) {
    let length = u32::try_from(head.len()).expect("a short head");
    head[..4].copy_from_slice(&length.to_le_bytes());
}
