//! The value of a scalar of YAML 1.1, as `goyaml.v2` resolves it (`resolve.go`), and
//! the string that Go makes of a number.

use std::borrow::Cow;

use granit_parser::Tag;

/// A resolved scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// Above what [`Int`](Self::Int) holds.
    BigInt(u64),
    Float(f64),
    Text(Cow<'t, str>),
    /// A plain `<<`: as a key it merges another mapping, elsewhere it is a string.
    Merge,
}

impl<'t> Scalar<'t> {
    /// The value of `text`; `plain` means without quotes.
    pub(super) fn resolve(
        text: Cow<'t, str>,
        plain: bool,
        tag: Option<&Tag>,
    ) -> Result<Self, String> {
        let Some(tag) = tag else {
            return Ok(if plain {
                Self::plain(text)
            } else {
                Self::Text(text)
            });
        };
        let tag = tag.to_string();
        let Some(core) = tag.strip_prefix("tag:yaml.org,2002:") else {
            // Go knows no other tags, and reads the value as a string.
            return Ok(Self::Text(text));
        };
        let found = Self::plain(text.clone());
        match (core, found) {
            ("null", Self::Null) => Ok(Self::Null),
            ("bool", found @ Self::Bool(_))
            | ("int", found @ (Self::Int(_) | Self::BigInt(_)))
            | ("float", found @ Self::Float(_)) => Ok(found),
            #[expect(clippy::cast_precision_loss, reason = "as Go does")]
            ("float", Self::Int(int)) => Ok(Self::Float(int as f64)),
            ("merge", Self::Merge) => Ok(Self::Merge),
            ("null" | "bool" | "int" | "float", _) => Err(format!("{text:?} is not a !!{core}")),
            ("binary", _) => Err("!!binary is not supported".to_owned()),
            _ => Ok(Self::Text(text)),
        }
    }

    fn plain(text: Cow<'t, str>) -> Self {
        match text.as_ref() {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                Self::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => Self::Bool(false),
            ".nan" | ".NaN" | ".NAN" => Self::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Self::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Self::Float(f64::NEG_INFINITY),
            "<<" => Self::Merge,
            _ => match number(&text) {
                Some(number) => number,
                None => Self::Text(text),
            },
        }
    }

    /// The value where Go expects a string: a number is formatted again, whatever its
    /// spelling. `None` for null.
    pub(super) fn to_text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(true) => "true".into(),
            Self::Bool(false) => "false".into(),
            Self::Int(int) => int.to_string().into(),
            Self::BigInt(int) => int.to_string().into(),
            Self::Float(float) => float_text(*float).into(),
            Self::Text(text) => text.as_ref().into(),
            Self::Merge => "<<".into(),
        })
    }

    /// The value as a key.
    pub(super) fn to_key(&self) -> Option<Cow<'_, str>> {
        let text = self.to_text()?;
        Some(match (self, text.as_ref()) {
            (Self::Float(_), "+Inf") => ".inf".into(),
            (Self::Float(_), "-Inf") => "-.inf".into(),
            (Self::Float(_), "NaN") => ".nan".into(),
            _ => text,
        })
    }
}

/// A number as in YAML 1.1 and in Go's literals: `0666` and `0o666` are octal, `0b11`
/// binary, `0x1f` hexadecimal, `_` may be anywhere; no base 60.
fn number(text: &str) -> Option<Scalar<'static>> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    if text.starts_with('.') {
        return float(text);
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

fn integer(text: &str) -> Option<Scalar<'static>> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => ("+", text.get(1..)?),
        b'-' => ("-", text.get(1..)?),
        _ => ("", text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // Rust's parser would accept a sign here.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let small = i64::from_str_radix(&format!("{sign}{digits}"), radix);
    match small {
        Ok(int) => Some(Scalar::Int(int)),
        Err(_) if sign.is_empty() => {
            let big = u64::from_str_radix(digits, radix);
            big.ok().map(Scalar::BigInt)
        }
        Err(_) => None,
    }
}

fn float(text: &str) -> Option<Scalar<'static>> {
    // Excludes what Rust and Go parse and YAML does not, such as `infinity`.
    let spelled = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    if !text.chars().all(spelled) {
        return None;
    }
    let float: f64 = text.parse().ok()?;
    float.is_finite().then_some(Scalar::Float(float))
}

/// As Go formats it (`%g`): the fewest digits that give the same 32-bit float,
/// with an exponent of at least two digits below 1e-4 and from 1e6.
fn float_text(float: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
    let float = float as f32;
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
