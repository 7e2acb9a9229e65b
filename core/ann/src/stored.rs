//! The stored form of an adjacency list: the smallest node, then the differences, as varints of
//! seven bits a byte, the lowest first.

/// Bits of a byte of a varint that belong to the number.
const BITS: u32 = 7;
/// The bit of a byte of a varint after which another byte follows.
const MORE: u8 = 0x80;

/// Appends the stored form of a list. The order of the neighbours is lost, and so are repetitions.
pub fn append_list(neighbours: &[u64], bytes: &mut Vec<u8>) {
    let mut sorted = neighbours.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut last = 0;
    for neighbour in sorted {
        let mut rest = neighbour - last;
        while rest >= u64::from(MORE) {
            bytes.push(rest as u8 | MORE);
            rest >>= BITS;
        }
        bytes.push(rest as u8);
        last = neighbour;
    }
}

/// Reads what [`append_list`] appended: ascending nodes. Returns `None` for damaged bytes.
pub fn read_list(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut nodes: Vec<u64> = Vec::with_capacity(bytes.len().min(64));
    let mut bytes = bytes.iter();
    while let Some(&first) = bytes.next() {
        let mut number = u64::from(first & !MORE);
        let mut byte = first;
        let mut shift = BITS;
        while byte & MORE != 0 {
            byte = *bytes.next()?;
            let part = u64::from(byte & !MORE);
            let shifted = part.checked_shl(shift)?;
            if shifted >> shift != part {
                return None;
            }
            number |= shifted;
            shift += BITS;
        }
        let node = match nodes.last() {
            None => number,
            Some(_) if number == 0 => return None,
            Some(last) => last.checked_add(number)?,
        };
        nodes.push(node);
    }
    Some(nodes)
}
