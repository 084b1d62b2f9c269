//! kubelet's checkpoint checksum: FNV-1a, 32 bits, over a Go debug rendering of the bytes,
//! `([]uint8)[123 34 99]`. The rendering, four times the input, is hashed without being written.

use std::sync::OnceLock;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// The bytes of a text that are hashed character by character; the rest is hashed with a [`Table`],
/// which takes as long to make as some 60 kB to hash.
const WITHOUT_TABLE: usize = 16 << 10;

/// What each byte makes of a hash, in one step instead of up to four.
///
/// Only the lowest 8 bits of a hash decide what an exclusive or with a character changes; the others
/// are only multiplied. So a hash becomes what its lowest 8 bits become, plus the others times a power of
/// the prime.
struct Table {
    /// By byte: what the hashes 0 to 255 become, and the power.
    rows: Vec<([u32; 256], u32)>,
}

/// The checksum of a text in pieces.
// req: CKPT-5
pub(crate) fn compute<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let mut bytes = pieces.into_iter().flatten().copied();
    let mut hash = fnv(OFFSET, b"([]uint8)[");
    if let Some(first) = bytes.next() {
        hash = number(hash, first);
    }
    for byte in bytes.by_ref().take(WITHOUT_TABLE) {
        hash = next(hash, byte);
    }
    if let Some(byte) = bytes.next() {
        let table = TABLE.get_or_init(Table::new);
        hash = bytes.fold(next(hash, byte), |hash, byte| table.next(hash, byte));
    }
    step(hash, b']').into()
}

// === impl Table ===

impl Table {
    fn new() -> Self {
        let row = |byte: u8| {
            let digits = 1 + u32::from(byte >= 10) + u32::from(byte >= 100);
            let mut row = [0; 256];
            for (low, hash) in (0..).zip(&mut row) {
                *hash = next(low, byte);
            }
            (row, PRIME.wrapping_pow(1 + digits))
        };
        Self {
            rows: (0..=u8::MAX).map(row).collect(),
        }
    }

    fn next(&self, hash: u32, byte: u8) -> u32 {
        let [low, ..] = hash.to_le_bytes();
        let row = self.rows.get(usize::from(byte));
        let found = row.and_then(|(row, power)| Some((row.get(usize::from(low))?, power)));
        found.map_or_else(
            || next(hash, byte),
            |(becomes, power)| becomes.wrapping_add((hash ^ u32::from(low)).wrapping_mul(*power)),
        )
    }
}

/// The hash after another number in the list.
fn next(hash: u32, byte: u8) -> u32 {
    number(step(hash, b' '), byte)
}

fn number(mut hash: u32, byte: u8) -> u32 {
    if byte >= 100 {
        hash = step(hash, digit(byte / 100));
    }
    if byte >= 10 {
        hash = step(hash, digit(byte / 10));
    }
    step(hash, digit(byte))
}

fn fnv(start: u32, text: &[u8]) -> u32 {
    text.iter().fold(start, |hash, &byte| step(hash, byte))
}

fn step(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(PRIME)
}

/// The last decimal digit of a number.
fn digit(number: u8) -> u8 {
    b'0' + number % 10
}

#[cfg(test)]
mod tests;
