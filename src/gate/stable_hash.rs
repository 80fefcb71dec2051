//! A hash that outlives the process.
//!
//! Never guards a secret: it is fast and anybody can make two texts collide.

/// A hash that may stand on the disk or in an id: it is the same on every machine and never changes.
///
/// Whoever makes texts collide makes only their own lookups slower, since texts are compared.
pub fn stable_hash(parts: &[&[u8]]) -> u64 {
    const A: u64 = 0xa076_1d64_78bd_642f;
    const B: u64 = 0xe703_7ed1_a0b4_28db;
    let mut state = A;
    for part in parts {
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            state = mix(state ^ u64::from_le_bytes(*word), B);
        }
        let last = rest
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        state = mix(state ^ last, A ^ part.len() as u64);
    }
    mix(state, B)
}

fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ ((product >> 64) as u64)
}
