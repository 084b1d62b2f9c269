//! Specs as people and other tools write them: block YAML.

use std::fmt::Write;

use serde_json::Value;

/// `value` in block style; texts are quoted unless YAML cannot mistake them,
/// modes are octal.
pub(crate) fn block(value: &Value) -> String {
    let mut text = String::from("# by hand\n---\n");
    write_block(&mut text, value, 0);
    text
}

fn write_block(text: &mut String, value: &Value, indent: usize) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                write!(text, "{pad}{key}:").unwrap();
                if let ("fileMode", Some(mode)) = (key.as_str(), value.as_u64()) {
                    writeln!(text, " 0{mode:o}").unwrap();
                } else {
                    write_value(text, value, indent + 2);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write!(text, "{pad}-").unwrap();
                write_value(text, item, indent + 2);
            }
        }
        _ => writeln!(text, "{pad}{value}").unwrap(),
    }
}

fn write_value(text: &mut String, value: &Value, indent: usize) {
    let nested = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        text.push('\n');
        write_block(text, value, indent);
    } else {
        match value.as_str() {
            Some(plain) if is_plain(plain) => writeln!(text, " {plain}").unwrap(),
            _ => writeln!(text, " {value}").unwrap(),
        }
    }
}

/// Whether the text starts with a letter or slash, has no YAML syntax, and is not a YAML 1.1 word
/// for true or false.
fn is_plain(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '=' | '-' | '_');
    starts && text.chars().all(safe) && !["y", "n", "Y", "N"].contains(&text)
}
