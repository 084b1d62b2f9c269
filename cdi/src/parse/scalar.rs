//! The meaning of a scalar without quotes.

/// A number: decimal, `0x1f`, or octal as `0666` or `0o666`.
pub(super) fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // Rust's parser would accept a sign here.
    let is_number = digits.starts_with(|c: char| c.is_digit(radix));
    let number = i64::from_str_radix(&format!("{sign}{digits}"), radix);
    number.ok().filter(|_| is_number)
}

/// A boolean of YAML 1.1.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(false)
        }
        _ => None,
    }
}

/// Whether readers turn this into different texts: some reformat a number or boolean of YAML 1.1
/// (`0x10` is `16`), others keep the spelling.
pub(super) fn is_ambiguous(text: &str) -> bool {
    // Reformatting keeps these. Go formats numbers with 32 bits, which keeps six digits.
    let is_same_float = |float: f32| float.abs() >= 0.0001 && float.to_string() == text;
    let is_stable = matches!(text, "true" | "false")
        || text.parse::<i64>().is_ok_and(|int| int.to_string() == text)
        || text.len() <= 7 && text.parse().is_ok_and(is_same_float);
    !is_stable && (boolean(text).is_some() || is_number(text))
}

/// Whether this is a number in YAML 1.1, in any spelling.
fn is_number(text: &str) -> bool {
    let digits = text.replace('_', "").to_ascii_lowercase();
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    let is_based = |prefix, radix| {
        let digits = digits.strip_prefix(prefix);
        digits.is_some_and(|digits| digits.chars().all(|c| c.is_digit(radix)))
    };
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    begins
        && (matches!(digits, ".inf" | ".nan")
            || digits.parse::<f64>().is_ok()
            || is_based("0x", 16)
            || is_based("0o", 8)
            || is_based("0b", 2))
}
