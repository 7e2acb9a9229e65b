//! The stored form of a list.

use crate::support::Numbers;
use orrery_ann::{append_list, read_list};

fn stored(nodes: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_list(nodes, &mut bytes);
    bytes
}

#[test]
fn a_list_is_read_as_it_was_written_in_order() {
    assert!(stored(&[]).is_empty());
    assert_eq!(read_list(&[]), Some(Vec::new()));
    assert_eq!(stored(&[300, 5, 5, 6]), [5, 1, 0xa6, 2]);
    assert_eq!(read_list(&[5, 1, 0xa6, 2]), Some(vec![5, 6, 300]));
    for nodes in [
        vec![0],
        vec![0, 1, u64::MAX],
        vec![u64::MAX],
        vec![u64::MAX - 1, u64::MAX],
    ] {
        assert_eq!(read_list(&stored(&nodes)), Some(nodes));
    }
}

#[test]
fn damaged_bytes_are_no_list() {
    let no_number = [0xff; 10];
    let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
    let too_far = [&stored(&[u64::MAX])[..], &[1]].concat();
    for damaged in [&[0x80][..], &[5, 0], &no_number, &too_large, &too_far] {
        assert_eq!(read_list(damaged), None, "{damaged:?}");
    }
}

#[test]
fn no_bytes_panic_and_what_is_read_is_ascending() {
    let mut numbers = Numbers(5);
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        if let Some(nodes) = read_list(&bytes) {
            assert!(nodes.is_sorted_by(|left, right| left < right));
        }
    }
}
