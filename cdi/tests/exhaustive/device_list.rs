//! The major in `/proc/devices`.

use imex_cdi::{Major, MajorError, channel_major};

use crate::scope::{boundaries, strings};

/// A device list in which `number` precedes the driver's name.
fn list(number: &str) -> String {
    format!(
        "Character devices:\n  1 mem\n{number} nvidia-caps-imex-channels\n\n\
         Block devices:\n  8 sd\n"
    )
}

/// What should be read where `number` precedes the name: of one word the number that
/// it is; more words, or none, make another driver's line.
fn model(number: &str) -> Result<u32, MajorError> {
    let mut words = number.split_whitespace();
    let (Some(word), None) = (words.next(), words.next()) else {
        return Err(MajorError::Missing);
    };
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let value = word.parse().ok().filter(|_| digits);
    value
        .filter(|value| (1..=4095).contains(value))
        .ok_or_else(|| MajorError::BadMajor {
            line: 3,
            found: word.to_owned(),
        })
}

fn assert_is_modelled(number: &str) {
    let read = channel_major(&list(number)).map(Major::get);
    assert_eq!(read, model(number), "{number:?}");
}

/// Scope: all numbers of 16 bits and both sides of every 16-bit and power-of-two
/// boundary of 32 bits, as the kernel prints them (`%3d`).
#[test]
fn a_major_is_a_number_from_1_to_4095() {
    let numbers = boundaries().into_iter().chain(0..=u32::from(u16::MAX));
    for number in numbers {
        let is_major = (1..=4095).contains(&number);
        assert_eq!(
            Major::new(number).map(Major::get).ok(),
            is_major.then_some(number)
        );
        assert_is_modelled(&format!("{number:3}"));
    }
}

/// Scope: every string of at most 5 characters over `0`, `1`, `9`, both signs, a
/// letter, a space and a tab, before the name.
#[test]
fn what_precedes_the_name_is_a_major_in_digits_or_refused() {
    for number in strings("019+-x \t", 5) {
        assert_is_modelled(&number);
    }
}
