use serde::{Deserialize, Deserializer, Serialize};

/// A Kubernetes quantity in the API server's spelling. Compared by value: `1Gi` equals
/// `1024Mi`.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Quantity(String);

/// `±odd · 2^twos · 5^fives`, where `odd` is divisible by neither 2 nor 5. Unique per
/// value, since all suffixes are products of 2 and 5.
#[derive(PartialEq, Eq)]
struct Value {
    negative: bool,
    odd: u128,
    twos: i32,
    fives: i32,
}

/// The value of a Kubernetes quantity (`1500m`, `4Gi`), rounded up to an integer as Go's `Quantity.Value` does.
///
/// `None` if the text is not a quantity, or if its value is negative or more than a `u64`.
pub fn quantity_value(text: &str) -> Option<u64> {
    Value::parse(text)?.rounded_up()
}

// === impl Quantity ===

impl Quantity {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(Self(text.unwrap_or_else(|| "0".to_owned())))
    }
}

impl PartialEq for Quantity {
    /// Texts that are not a quantity, or too long for an exact value, equal only
    /// themselves.
    // req: CKPT-17
    fn eq(&self, other: &Self) -> bool {
        if self.0 == other.0 {
            return true;
        }
        let (left, right) = (Value::parse(&self.0), Value::parse(&other.0));
        left.is_some() && left == right
    }
}

// === impl Value ===

impl Value {
    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = text.split_at(digits_end.unwrap_or(text.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
        let (tens, twos) = exponents(suffix)?;
        let tens = tens.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        if mantissa == 0 {
            return Some(Self {
                negative: false,
                odd: 0,
                twos: 0,
                fives: 0,
            });
        }
        let (odd, own_twos) = strip(mantissa, 2);
        let (odd, own_fives) = strip(odd, 5);
        Some(Self {
            negative,
            odd,
            twos: own_twos.checked_add(tens)?.checked_add(twos)?,
            fives: own_fives.checked_add(tens)?,
        })
    }

    fn rounded_up(&self) -> Option<u64> {
        let power = |base: u128, exponent: i32| base.checked_pow(exponent.unsigned_abs());
        let factor = power(2, self.twos.max(0))?.checked_mul(power(5, self.fives.max(0))?)?;
        let dividend = self.odd.checked_mul(factor)?;
        let (twos, fives) = (power(2, self.twos.min(0)), power(5, self.fives.min(0)));
        let divisor = twos
            .zip(fives)
            .and_then(|(twos, fives)| twos.checked_mul(fives));
        // A divisor beyond u128 is larger than the dividend.
        let divisor = divisor.unwrap_or(u128::MAX);
        let value = dividend.div_ceil(divisor).try_into().ok()?;
        (value == 0 || !self.negative).then_some(value)
    }
}

/// A suffix as powers of ten and of two.
fn exponents(suffix: &str) -> Option<(i32, i32)> {
    Some(match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, 0),
    })
}

fn strip(mut value: u128, factor: u128) -> (u128, i32) {
    let mut times = 0;
    while value.is_multiple_of(factor) {
        value /= factor;
        times += 1;
    }
    (value, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity(text.to_owned())
    }

    #[test]
    fn quantities_are_compared_by_value() {
        for (left, right) in [
            ("1.5Gi", "1536Mi"),
            ("1000m", "1"),
            ("0.1", "100m"),
            ("1e3", "1k"),
            ("1E", "1000000000000000000"),
            ("-0", "0"),
            ("+5", "5"),
            (".5", "500m"),
        ] {
            assert_eq!(quantity(left), quantity(right));
        }
        for (left, right) in [("1Gi", "1G"), ("1", "-1"), ("1m", "1M"), ("0.1", "0.10001")] {
            assert_ne!(quantity(left), quantity(right));
        }
    }

    #[test]
    fn a_value_is_rounded_up_to_an_integer() {
        for (text, value) in [
            ("4Gi", Some(4 << 30)),
            ("1.5Gi", Some(1536 << 20)),
            ("1k", Some(1000)),
            ("1e3", Some(1000)),
            ("-0", Some(0)),
            ("1m", Some(1)),
            ("1001m", Some(2)),
            ("1e-300", Some(1)),
            ("0e-300", Some(0)),
            ("1Ei", Some(1 << 60)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("1e300", None),
            ("1e2147483647", None),
            ("1e-2147483648", Some(1)),
            ("-1", None),
            ("-1m", None),
            ("", None),
            ("4GB", None),
        ] {
            assert_eq!(quantity_value(text), value, "{text}");
        }
    }

    #[test]
    fn every_spelling_in_the_vectors_has_the_value_of_its_canonical_form() {
        #[derive(Deserialize)]
        struct Vector {
            #[serde(rename = "In")]
            given: String,
            #[serde(rename = "Out")]
            canonical: String,
        }
        let text = include_str!("../../tests/fixtures/go-quantity-vectors.json");
        let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
        assert!(!vectors.is_empty());
        for vector in vectors {
            let canonical: Quantity = serde_json::from_str(&vector.canonical).unwrap();
            assert_eq!(quantity(&vector.given), canonical);
        }
    }

    #[test]
    fn a_text_that_is_not_a_quantity_equals_only_itself() {
        assert_eq!(quantity("x"), quantity("x"));
        assert_ne!(quantity("x"), quantity("y"));
        assert_ne!(quantity(""), quantity("."));
        assert_ne!(quantity("1.2.3"), quantity("1"));
    }
}
