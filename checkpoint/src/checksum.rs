//! kubelet's checkpoint checksum: FNV-1a, 32 bits, over a Go debug rendering
//! of the bytes, `([]uint8)[123 34 99]`, not over the bytes.

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// The checksum of bytes that arrive in pieces. The rendering is hashed as it
/// would be written; its text, four times the input, never exists.
pub(crate) struct Checksum {
    hash: u32,
    empty: bool,
}

impl Checksum {
    pub(crate) fn new() -> Self {
        let mut sum = Self {
            hash: OFFSET,
            empty: true,
        };
        sum.render(b"([]uint8)[");
        sum
    }

    pub(crate) fn add(mut self, bytes: &[u8]) -> Self {
        for &byte in bytes {
            if !self.empty {
                self.render(b" ");
            }
            self.empty = false;
            self.render_decimal(byte);
        }
        self
    }

    pub(crate) fn finish(mut self) -> u64 {
        self.render(b"]");
        self.hash.into()
    }

    fn render_decimal(&mut self, byte: u8) {
        if byte >= 100 {
            self.render(&[b'0' + byte / 100]);
        }
        if byte >= 10 {
            self.render(&[b'0' + byte / 10 % 10]);
        }
        self.render(&[b'0' + byte % 10]);
    }

    fn render(&mut self, text: &[u8]) {
        for &c in text {
            self.hash = (self.hash ^ u32::from(c)).wrapping_mul(PRIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn every_vector_has_its_checksum_however_it_is_cut() {
        #[derive(Deserialize)]
        struct Vector {
            input: String,
            checksum: u64,
        }
        let text = include_str!("../tests/fixtures/checksum-vectors.json");
        let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
        assert!(!vectors.is_empty());
        for Vector { input, checksum } in vectors {
            for at in 0..=input.len() {
                let (head, tail) = input.as_bytes().split_at(at);
                assert_eq!(Checksum::new().add(head).add(tail).finish(), checksum);
            }
        }
    }
}
