//! kubelet's checkpoint checksum: FNV-1a, 32 bits, over a Go debug rendering
//! of the bytes, `([]uint8)[123 34 99]`, not over the bytes.
//!
//! A step of FNV-1a is `h' = (h ^ c) * p`. The character `c` touches only the
//! low byte `l` of `h`, so `h ^ c = h + ((l ^ c) - l)`: what it adds depends on
//! `l` and `c` alone. The same then holds for the `n` characters that a byte is
//! rendered to: `h' = h * p^n + T[byte][l]`, exactly. The tests check every
//! `T[byte][l]`, and with it the checksum of every text.

use std::array;
use std::sync::LazyLock;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
const PREFIX: &[u8] = b"([]uint8)[";
const SUFFIX: &[u8] = b"]";

/// The checksum of bytes that arrive in pieces. The rendering is hashed as it
/// would be written; its text, four times the input, never exists.
struct Checksum {
    hash: u32,
    empty: bool,
}

/// What one more byte, rendered as a space and its decimal digits, does to a
/// hash: by byte, then by the low byte of the hash. The rows of the bytes that
/// JSON has fit the L1 and L2 caches.
struct Steps {
    /// `p^n`.
    factor: [u32; 256],
    /// `T`.
    addend: Box<[[u32; 256]]>,
    /// The new low byte. It follows from `addend`, but a chain of look-ups in
    /// a small table is shorter than one through the multiplication.
    low: Box<[[u8; 256]]>,
}

static STEPS: LazyLock<Steps> = LazyLock::new(Steps::new);

/// `" 123"`, of which the last `len` characters count.
struct Rendered {
    text: [u8; 4],
    len: usize,
}

// === impl Checksum ===

impl Checksum {
    fn new() -> Self {
        Self {
            hash: hash(OFFSET, PREFIX),
            empty: true,
        }
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        let mut rest = bytes;
        if self.empty
            && let Some((&first, others)) = bytes.split_first()
        {
            // No space before the first.
            self.hash = hash(self.hash, Rendered::new(first).digits());
            self.empty = false;
            rest = others;
        }
        self.hash = STEPS.walk(self.hash, rest);
        self
    }

    fn finish(self) -> u64 {
        hash(self.hash, SUFFIX).into()
    }
}

/// The checksum of a text in pieces.
// req: CKPT-5
pub(crate) fn compute<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let pieces = pieces.into_iter();
    pieces.fold(Checksum::new(), Checksum::add).finish()
}

/// The checksums of two texts, in about the time of one: each step waits for
/// the one before it, and meanwhile the processor does one of the other text.
pub(crate) fn compute_pair<'a>(
    first: impl IntoIterator<Item = &'a [u8]>,
    second: impl IntoIterator<Item = &'a [u8]>,
) -> (u64, u64) {
    let (mut first, mut second) = (Walk::new(first), Walk::new(second));
    while let (Some(one), Some(other)) = (first.piece(), second.piece()) {
        let both = one.len().min(other.len());
        let (one, rest_of_one) = one.split_at(both);
        let (other, rest_of_other) = other.split_at(both);
        let starts = (first.sum.hash, second.sum.hash);
        (first.sum.hash, second.sum.hash) = STEPS.walk_both(starts, one, other);
        (first.piece, second.piece) = (rest_of_one, rest_of_other);
    }
    (first.finish(), second.finish())
}

/// A text in pieces, hashed up to the rest of one.
struct Walk<'a, I> {
    sum: Checksum,
    piece: &'a [u8],
    pieces: I,
}

/// FNV-1a itself.
fn hash(start: u32, text: &[u8]) -> u32 {
    text.iter()
        .fold(start, |h, &c| (h ^ u32::from(c)).wrapping_mul(PRIME))
}

// === impl Walk ===

impl<'a, I: Iterator<Item = &'a [u8]>> Walk<'a, I> {
    fn new(pieces: impl IntoIterator<IntoIter = I>) -> Self {
        let mut pieces = pieces.into_iter();
        let first = pieces.by_ref().find(|piece| !piece.is_empty());
        Self {
            sum: Checksum::new().add(first.unwrap_or_default()),
            piece: &[],
            pieces,
        }
    }

    /// The rest of the current piece, or the next one.
    fn piece(&mut self) -> Option<&'a [u8]> {
        if self.piece.is_empty() {
            self.piece = self.pieces.find(|piece| !piece.is_empty())?;
        }
        Some(self.piece)
    }

    fn finish(self) -> u64 {
        let sum = self.sum.add(self.piece);
        self.pieces.fold(sum, Checksum::add).finish()
    }
}

// === impl Steps ===

impl Steps {
    fn new() -> Self {
        let bytes = || u8::MIN..=u8::MAX;
        let factor = array::from_fn(|byte| {
            let len = bytes()
                .nth(byte)
                .map_or(0, |b| Rendered::new(b).all().len());
            (0..len).fold(1_u32, |power, _| power.wrapping_mul(PRIME))
        });
        let after = |low: u32, byte: u8| hash(low, Rendered::new(byte).all());
        let addend = bytes().zip(factor).map(|(byte, factor): (u8, u32)| {
            let mut low = 0..256_u32;
            array::from_fn(|_| {
                let low = low.next().unwrap_or_default();
                after(low, byte).wrapping_sub(low.wrapping_mul(factor))
            })
        });
        let low = bytes().map(|byte| {
            let mut low = 0..256_u32;
            array::from_fn(|_| low_byte(after(low.next().unwrap_or_default(), byte)))
        });
        Self {
            factor,
            addend: addend.collect(),
            low: low.collect(),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "every table has 256 entries")]
    fn walk(&self, start: u32, bytes: &[u8]) -> u32 {
        let (mut hash, mut low) = (start, usize::from(low_byte(start)));
        for byte in bytes.iter().map(|&byte| usize::from(byte)) {
            let product = hash.wrapping_mul(self.factor[byte]);
            hash = product.wrapping_add(self.addend[byte][low]);
            low = self.low[byte][low].into();
        }
        hash
    }

    /// As `walk`, of two texts of one length.
    #[expect(clippy::indexing_slicing, reason = "every table has 256 entries")]
    fn walk_both(&self, starts: (u32, u32), one: &[u8], other: &[u8]) -> (u32, u32) {
        let (mut hash, mut hash2) = starts;
        let (mut low, mut low2) = (usize::from(low_byte(hash)), usize::from(low_byte(hash2)));
        for (&byte, &byte2) in one.iter().zip(other) {
            let (byte, byte2) = (usize::from(byte), usize::from(byte2));
            let product = hash.wrapping_mul(self.factor[byte]);
            let product2 = hash2.wrapping_mul(self.factor[byte2]);
            hash = product.wrapping_add(self.addend[byte][low]);
            hash2 = product2.wrapping_add(self.addend[byte2][low2]);
            low = self.low[byte][low].into();
            low2 = self.low[byte2][low2].into();
        }
        (hash, hash2)
    }
}

fn low_byte(hash: u32) -> u8 {
    let [low, ..] = hash.to_le_bytes();
    low
}

// === impl Rendered ===

impl Rendered {
    fn new(byte: u8) -> Self {
        let digit = |value: u8| b'0' + value % 10;
        let (hundreds, tens, ones) = (digit(byte / 100), digit(byte / 10), digit(byte));
        match byte {
            100.. => Self {
                text: [b' ', hundreds, tens, ones],
                len: 4,
            },
            10.. => Self {
                text: [0, b' ', tens, ones],
                len: 3,
            },
            _ => Self {
                text: [0, 0, b' ', ones],
                len: 2,
            },
        }
    }

    fn all(&self) -> &[u8] {
        self.text.get(4 - self.len..).unwrap_or_default()
    }

    fn digits(&self) -> &[u8] {
        self.all().get(1..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
