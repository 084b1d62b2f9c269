use std::collections::BTreeSet;

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, proptest};
use serde::Deserialize;

use super::*;

/// The definition: FNV-1a over the rendered text.
fn defined(bytes: &[u8]) -> u64 {
    let numbers: Vec<String> = bytes.iter().map(ToString::to_string).collect();
    let rendering = format!("([]uint8)[{}]", numbers.join(" "));
    fnv(OFFSET, rendering.as_bytes()).into()
}

#[test]
fn every_vector_has_its_checksum_however_it_is_cut() {
    #[derive(Deserialize)]
    struct Vector {
        input: String,
        checksum: u64,
    }
    let text = include_str!("../../tests/fixtures/checksum-vectors.json");
    let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
    assert!(!vectors.is_empty());
    for Vector { input, checksum } in vectors {
        assert_eq!(defined(input.as_bytes()), checksum);
        for at in 0..=input.len() {
            let (head, tail) = input.as_bytes().split_at(at);
            assert_eq!(compute(&[head, tail]), checksum);
        }
    }
}

#[test]
fn the_table_gives_the_same_hash_as_single_steps() {
    for byte in 0..=u8::MAX {
        for hash in (0..=255).chain([OFFSET, u32::MAX, 0x8000_0100]) {
            assert_eq!(TABLE.next(hash, byte), next(hash, byte), "{hash} {byte}");
        }
    }
}

/// From any hash, two bytes with the same number of digits lead to different hashes. Following bytes keep them
/// different, since a step of FNV-1a is invertible (its prime is odd). Bytes with different numbers of digits may
/// collide, like any two texts.
///
/// Scope: every byte, first and after another one.
#[test]
fn replacing_a_byte_by_one_with_as_many_digits_changes_the_checksum() {
    assert_eq!(PRIME % 2, 1);
    for before in [&b""[..], &b"{"[..]] {
        for bytes in [0..=9_u8, 10..=99, 100..=255] {
            let count = bytes.len();
            let checksums: BTreeSet<u64> = bytes.map(|byte| compute(&[before, &[byte]])).collect();
            assert_eq!(checksums.len(), count);
        }
    }
}

/// Every text of up to `length` bytes, with bytes of one, two and three digits.
fn short_texts(length: u32) -> impl Iterator<Item = Vec<u8>> {
    const BYTES: [u8; 5] = [0, 9, 10, 99, 255];
    let of_length = |length: u32| {
        (0..BYTES.len().pow(length)).map(move |n| {
            let digit = |at| BYTES[n / BYTES.len().pow(at) % BYTES.len()];
            (0..length).map(digit).collect()
        })
    };
    (0..=length).flat_map(of_length)
}

/// Scope: every text of up to 4 bytes, cut at every two places, so that there are
/// empty pieces at every place, too.
#[test]
fn every_short_text_has_the_defined_checksum_however_it_is_cut() {
    for text in short_texts(4) {
        for second in 0..=text.len() {
            for first in 0..=second {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(compute(&pieces), defined(&text), "{pieces:?}");
            }
        }
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..2000)
}

/// A text and the place of a cut.
fn pieces() -> impl Strategy<Value = (Vec<u8>, usize)> {
    bytes().prop_flat_map(|bytes| {
        let length = bytes.len();
        (Just(bytes), 0..=length)
    })
}

proptest! {
    #[test]
    fn any_two_texts_in_any_pieces_have_the_defined_checksums(one in pieces(), other in pieces()) {
        let [of_one, of_other] = [&one, &other].map(|(bytes, at)| <[&[u8]; 2]>::from(bytes.split_at(*at)));
        let expected = [defined(&one.0), defined(&other.0)];
        prop_assert_eq!(compute_both([&of_one[..], &of_other[..]]), expected);
    }
}
