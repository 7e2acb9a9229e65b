//! MurmurHash3 (Austin Appleby, public domain): the two variants that the service uses, with seed
//! 0.
//!
//! The constants and steps are those of the reference implementation, `MurmurHash3.cpp`.

/// Returns the 32-bit hash of the x86 variant.
pub(super) fn murmur3_32(data: &[u8]) -> u32 {
    const C1: u32 = 0xCC9E_2D51;
    const C2: u32 = 0x1B87_3593;
    let mix = |k: u32| k.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    let mut h: u32 = 0;
    let mut blocks = data.chunks_exact(4);
    for block in &mut blocks {
        h ^= mix(u32::from_le_bytes(block.try_into().expect("four bytes")));
        h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64);
    }
    // The last bytes form a little-endian word of up to three bytes.
    let tail = blocks
        .remainder()
        .iter()
        .rev()
        .fold(0u32, |k, &b| k << 8 | u32::from(b));
    h ^= mix(tail);
    // Finalization: every input bit affects every output bit.
    h ^= data.len() as u32;
    h ^= h >> 16;
    h = h.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 13;
    h = h.wrapping_mul(0xC2B2_AE35);
    h ^ h >> 16
}

/// Returns the 128-bit hash of the x64 variant: h1 and h2, each little-endian.
pub fn murmur3_128(data: &[u8]) -> [u8; 16] {
    const C1: u64 = 0x87C3_7B91_1142_53D5;
    const C2: u64 = 0x4CF5_AD43_2745_937F;
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word = |b: &[u8]| b.iter().rev().fold(0u64, |k, &b| k << 8 | u64::from(b));
    // Body: blocks of 16 bytes, mixed into both halves of the state.
    let (mut h1, mut h2) = (0u64, 0u64);
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= mix1(word(&block[..8]));
        h1 = h1
            .rotate_left(27)
            .wrapping_add(h2)
            .wrapping_mul(5)
            .wrapping_add(0x52DC_E729);
        h2 ^= mix2(word(&block[8..]));
        h2 = h2
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5AB5);
    }
    // Tail: up to 15 bytes, zero-padded. An empty word mixes to 0 and changes nothing.
    let tail = blocks.remainder();
    if tail.len() > 8 {
        h2 ^= mix2(word(&tail[8..]));
    }
    h1 ^= mix1(word(&tail[..tail.len().min(8)]));
    // Finalization: every input bit affects every output bit of both halves.
    let length = data.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = final_mix(h1);
    h2 = final_mix(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let mut out = [0; 16];
    out[..8].copy_from_slice(&h1.to_le_bytes());
    out[8..].copy_from_slice(&h2.to_le_bytes());
    out
}

/// Mixes the bits of one half (`fmix64` in the reference implementation).
fn final_mix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    k ^= k >> 33;
    k = k.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    k ^ k >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes_match() {
        assert_eq!(murmur3_32(&[0x08]), 0x2036_BCC7);
        assert_eq!(murmur3_32(&[0x01]), 0xE45A_D1AB);
        assert_eq!(murmur3_32(&[0x03]), 0x5E2A_8076);
        let reversed = |data: &[u8]| {
            let mut hash = murmur3_128(data);
            hash.reverse();
            hash.iter().map(|b| format!("{b:02X}")).collect::<String>()
        };
        assert_eq!(reversed(&[0x08]), "6A63D2CF33E52BDBDFA3A1B71AF6E07E");
        assert_eq!(reversed(&[0x08, 0xFF]), "B2E9366E637A71B4E710384B2F4970A0");
    }
}
