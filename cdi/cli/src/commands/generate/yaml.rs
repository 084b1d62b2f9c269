//! A JSON value as block YAML.
//!
//! Strings are quoted as in JSON, so that YAML reads none as a number, date or boolean.

use serde_json::Value;

use crate::escape::escape_json;

pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Writes a value at the beginning of a line or after `- `.
fn block(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    text.push_str(&" ".repeat(indent));
                }
                text.push_str(&name(key));
                text.push(':');
                member(value, indent, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push_str(&" ".repeat(indent));
                }
                text.push_str("- ");
                block(item, indent + 2, text);
            }
        }
        scalar => {
            text.push_str(&escape_json(&scalar.to_string()));
            text.push('\n');
        }
    }
}

/// Writes the value of a key.
fn member(value: &Value, indent: usize, text: &mut String) {
    let has_lines = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if has_lines {
        text.push('\n');
        text.push_str(&" ".repeat(indent + 2));
        block(value, indent + 2, text);
    } else {
        text.push(' ');
        block(value, indent, text);
    }
}

/// Plain words that YAML 1.1 does not read as strings.
const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// A key, plain if that is not ambiguous.
fn name(key: &str) -> String {
    let letters = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphabetic());
    let word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(key));
    if letters && !word {
        key.to_owned()
    } else {
        escape_json(&Value::from(key).to_string()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::write;

    #[test]
    fn nesting_is_indented_and_strings_are_quoted() {
        let value = json!({
            "kind": "a/b",
            "empty": [],
            "none": {},
            "list": [{"name": "0", "on": true, "deep": [[1, "no"], "\u{85}\u{7f}"]}],
            "true": "0666",
        });
        assert_eq!(
            write(&value),
            r#"kind: "a/b"
empty: []
none: {}
list:
  - name: "0"
    "on": true
    deep:
      - - 1
        - "no"
      - "\u0085\u007f"
"true": "0666"
"#
        );
    }
}
