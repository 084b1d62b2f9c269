//! kubelet's checkpoint checksum: FNV-1a, 32 bits, over a Go debug rendering of the bytes,
//! `([]uint8)[123 34 99]`. The rendering, four times the input, is hashed without being written.

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// The checksum of a text in pieces.
// req: CKPT-5
pub(crate) fn compute<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = fnv(OFFSET, b"([]uint8)[");
    let mut separator: &[u8] = b"";
    for &byte in pieces.into_iter().flatten() {
        hash = fnv(hash, separator);
        separator = b" ";
        if byte >= 100 {
            hash = step(hash, digit(byte / 100));
        }
        if byte >= 10 {
            hash = step(hash, digit(byte / 10));
        }
        hash = step(hash, digit(byte));
    }
    step(hash, b']').into()
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
