//! GUIDs between frames and texts.

use crate::support::ACTIVITY;
use orrery_rntbd::{guid_bytes, guid_text};

const TEXT: &str = "00112233-4455-6677-8899-aabbccddeeff";

#[test]
fn the_first_three_groups_are_little_endian_in_a_frame() {
    assert_eq!(guid_text(ACTIVITY), TEXT);
    assert_eq!(guid_bytes(TEXT), Some(ACTIVITY));
    assert_eq!(guid_bytes(&TEXT.to_uppercase()), Some(ACTIVITY));
}

#[test]
fn other_texts_are_no_guid() {
    for text in [
        "",
        "00112233445566778899aabbccddeeff",
        "{00112233-4455-6677-8899-aabbccddeeff}",
        "00112233-4455-6677-8899-aabbccddeef",
        "00112233-4455-6677-8899-aabbccddeeff0",
        "0011223-34455-6677-8899-aabbccddeeff",
        "00112233-4455-6677-8899-aabbccddee-ff",
        "0011223g-4455-6677-8899-aabbccddeeff",
        "+0112233-4455-6677-8899-aabbccddeeff",
        "é112233-4455-6677-8899-aabbccddeeff",
        "é0112233-4455-6677-8899-aabbccddeef",
    ] {
        assert_eq!(guid_bytes(text), None, "{text}");
    }
}
