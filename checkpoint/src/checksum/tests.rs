use std::collections::BTreeSet;

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, proptest};
use serde::Deserialize;

use super::*;

/// The definition: FNV-1a over the text of the rendering.
fn defined(bytes: &[u8]) -> u64 {
    let numbers: Vec<String> = bytes.iter().map(ToString::to_string).collect();
    hash(
        OFFSET,
        format!("([]uint8)[{}]", numbers.join(" ")).as_bytes(),
    )
    .into()
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
            assert_eq!(Checksum::new().add(head).add(tail).finish(), checksum);
        }
    }
}

/// The induction behind [`Steps::walk`], for texts of any length: from a
/// hash whose low byte is known, one more byte gives the defined hash, and
/// its low byte is known.
///
/// Scope: every byte from every low byte; of the other 24 bits, which only
/// take part in a sum, each alone, all and none.
#[test]
fn every_step_from_every_low_byte_is_exact() {
    let highs = (8..32).map(|bit| 1_u32 << bit).chain([0, 0xffff_ff00]);
    for high in highs {
        for byte in 0..=u8::MAX {
            let text = format!(" {byte}");
            for low in 0..=u8::MAX {
                let start = high | u32::from(low);
                let hash = hash(start, text.as_bytes());
                assert_eq!(STEPS.walk(start, &[byte]), hash);
                let (byte, low) = (usize::from(byte), usize::from(low));
                assert_eq!(STEPS.low[byte][low], low_byte(hash));
            }
        }
    }
}

/// Every changed digit is noticed: from any hash, no two bytes that are
/// rendered in as many digits lead to the same hash, and no two hashes are
/// led to the same one by the bytes that follow, since a step of FNV-1a can
/// be undone (its prime is odd).
///
/// Scope: every byte from every low byte; what the other bits add is the
/// same for both. A byte that is rendered in fewer or more digits may
/// collide, as any two texts may.
#[test]
fn one_byte_for_another_of_as_many_digits_always_changes_the_checksum() {
    assert_eq!(PRIME % 2, 1);
    for low in 0..256 {
        for bytes in [0..=9_usize, 10..=99, 100..=255] {
            let width = bytes.clone().count();
            let addends: BTreeSet<u32> = bytes.map(|byte| STEPS.addend[byte][low]).collect();
            assert_eq!(addends.len(), width, "from the low byte {low}");
        }
    }
    let first: BTreeSet<u64> = (0..=u8::MAX).map(|byte| compute([&[byte][..]])).collect();
    assert_eq!(first.len(), 256, "the first byte");
}

/// Every text of up to `length` bytes, of every number of digits.
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

/// Scope: every text of up to 4 bytes, cut at every two places, which
/// leaves empty pieces at every place too.
#[test]
fn every_short_text_has_the_defined_checksum_however_it_is_cut() {
    for text in short_texts(4) {
        for second in 0..=text.len() {
            for first in 0..=second {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(compute(pieces), defined(&text), "{pieces:?}");
            }
        }
    }
}

/// Scope: every two texts of up to 3 bytes, the first cut at every place.
#[test]
fn every_two_short_texts_at_once_have_each_its_own_checksum() {
    for one in short_texts(3) {
        for other in short_texts(3) {
            for at in 0..=one.len() {
                let both = compute_pair([&one[..at], &one[at..]], [&other[..]]);
                assert_eq!(both, (defined(&one), defined(&other)));
            }
        }
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..2000)
}

fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20)
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_have_the_defined_checksum(
        (bytes, at) in bytes().prop_flat_map(|b| { let n = b.len(); (Just(b), 0..=n) }),
    ) {
        let (head, tail) = bytes.split_at(at);
        prop_assert_eq!(Checksum::new().add(head).add(tail).finish(), defined(&bytes));
    }

    #[test]
    fn two_texts_at_once_have_each_its_own_checksum(one in pieces(), other in pieces()) {
        let both = compute_pair(one.iter().map(Vec::as_slice), other.iter().map(Vec::as_slice));
        prop_assert_eq!(both, (defined(&one.concat()), defined(&other.concat())));
    }
}
