//! The scopes of the proofs.

use std::collections::BTreeSet;

/// Every string of at most `max_len` characters of `alphabet`.
pub(crate) fn strings(alphabet: &str, max_len: usize) -> impl Iterator<Item = String> {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut next: Option<Vec<usize>> = Some(Vec::new());
    std::iter::from_fn(move || {
        let digits = next.take()?;
        let text = digits.iter().map(|digit| letters[*digit]).collect();
        next = Some(successor(digits, letters.len())).filter(|digits| digits.len() <= max_len);
        Some(text)
    })
}

/// The next number in base `base`, or one digit longer after the last.
fn successor(mut digits: Vec<usize>, base: usize) -> Vec<usize> {
    for digit in digits.iter_mut().rev() {
        *digit += 1;
        if *digit < base {
            return digits;
        }
        *digit = 0;
    }
    digits.push(0);
    digits
}

/// Numbers of 32 bits on both sides of every power of two and of `limits`.
pub(crate) fn edges(limits: &[u32]) -> BTreeSet<u32> {
    let powers = (0..32).map(|bit| 1_u32 << bit);
    around(powers.chain(limits.iter().copied()))
}

/// Numbers of 32 bits on both sides of every multiple of 2^16 and every power of
/// two.
pub(crate) fn boundaries() -> BTreeSet<u32> {
    let words = (0..=u32::from(u16::MAX)).map(|word| word << 16);
    &around(words) | &edges(&[])
}

fn around(numbers: impl Iterator<Item = u32>) -> BTreeSet<u32> {
    numbers
        .flat_map(|number| [number.wrapping_sub(1), number, number.wrapping_add(1)])
        .collect()
}

/// The value of `text` if it is the decimal spelling of a number: digits only, no
/// needless zero.
pub(crate) fn decimal(text: &str) -> Option<u128> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| canonical)
}

#[test]
fn the_strings_of_a_scope_are_complete_and_distinct() {
    let all: Vec<String> = strings("ab-", 4).collect();
    assert_eq!(all.len(), 1 + 3 + 9 + 27 + 81);
    assert_eq!(BTreeSet::from_iter(&all).len(), all.len());
    assert!(
        all.iter()
            .all(|text| text.chars().all(|c| "ab-".contains(c)))
    );
}
