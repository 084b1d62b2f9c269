//! kubelet's checkpoint checksum: 32-bit FNV-1a over a Go debug rendering of the bytes,
//! `([]uint8)[123 34 99]`. The rendering is four times the input; it is hashed without being built.
//!
//! Each step depends on the one before. Hashing the two texts of a file side by side takes little more
//! time than hashing one.

use std::slice;
use std::sync::LazyLock;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// Lookup table for hashing an ASCII character in one step instead of up to four. Building its 128 KiB
/// takes as long as hashing some 30 kB without it.
///
/// An exclusive or with a character depends on the lowest 8 bits of the hash only; the other bits are just
/// multiplied. So the new hash is the table's value for the lowest 8 bits, plus the others times a power
/// of the prime.
struct Table {
    /// By byte: the new hashes of the hashes 0 to 255, and the power.
    rows: Vec<([u32; 256], u32)>,
}

/// A text that is being hashed.
struct Text<'a, T> {
    hash: u32,
    /// The rest of the current piece, and the pieces after it.
    left: &'a [u8],
    pieces: slice::Iter<'a, T>,
}

/// The checksums of two texts, each in pieces.
// req: CKPT-5
pub(crate) fn compute_both<T: AsRef<[u8]>>(texts: [&[T]; 2]) -> [u64; 2] {
    let table = &*TABLE;
    let [mut one, mut other] = texts.map(Text::new);
    while let Some((one_piece, other_piece)) = one.piece().zip(other.piece()) {
        let length = one_piece.len().min(other_piece.len());
        let (one_bytes, one_left) = one_piece.split_at(length);
        let (other_bytes, other_left) = other_piece.split_at(length);
        // Local variables stay in registers; struct fields would be written to memory in each step.
        let (mut hash, mut other_hash) = (one.hash, other.hash);
        for (byte, other_byte) in one_bytes.iter().zip(other_bytes) {
            hash = table.next(hash, *byte);
            other_hash = table.next(other_hash, *other_byte);
        }
        (one.hash, other.hash) = (hash, other_hash);
        (one.left, other.left) = (one_left, other_left);
    }
    [one.finish(), other.finish()]
}

/// The checksum of one text.
pub(crate) fn compute<T: AsRef<[u8]>>(pieces: &[T]) -> u64 {
    Text::new(pieces).finish()
}

// === impl Text ===

impl<'a, T: AsRef<[u8]>> Text<'a, T> {
    /// Hashes the first byte, which has no space before it.
    fn new(pieces: &'a [T]) -> Self {
        let mut text = Self {
            hash: fnv(OFFSET, b"([]uint8)["),
            left: &[],
            pieces: pieces.iter(),
        };
        if let Some((&first, left)) = text.piece().and_then(<[u8]>::split_first) {
            text.hash = number(text.hash, first);
            text.left = left;
        }
        text
    }

    /// The rest of the current piece, or the next piece.
    fn piece(&mut self) -> Option<&'a [u8]> {
        while self.left.is_empty() {
            self.left = self.pieces.next()?.as_ref();
        }
        Some(self.left)
    }

    fn finish(mut self) -> u64 {
        while let Some(piece) = self.piece() {
            self.hash = piece
                .iter()
                .fold(self.hash, |hash, byte| TABLE.next(hash, *byte));
            self.left = &[];
        }
        step(self.hash, b']').into()
    }
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
            rows: (0..128).map(row).collect(),
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

/// The hash after one more number in the list.
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
