//! The fields of a schema, as a table.

use std::fmt::Write as _;

use serde_json::Value;

use crate::page::cell;

/// A table of the fields of a custom resource's OpenAPI schema: path, type, validation rules and
/// description. It leaves out fields that every object has (`apiVersion`, `kind`, `metadata`).
pub fn fields_table(schema: &Value) -> String {
    let mut table = "| field | type | rules | |\n|---|---|---|---|\n".to_owned();
    write_fields(&mut table, "", schema);
    table
}

fn write_fields(table: &mut String, path: &str, schema: &Value) {
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    let required = schema.get("required").and_then(Value::as_array);
    for (name, field) in fields {
        if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let path = format!("{path}{name}");
        let is_required = required.is_some_and(|names| names.iter().any(|it| it == name));
        let description = field.get("description").and_then(Value::as_str);
        let _ = writeln!(
            table, // a String: cannot fail
            "| `{path}` | {} | {} | {} |",
            type_of(field),
            cell(&rules(field, is_required).join("; ")),
            cell(description.unwrap_or_default())
        );
        match field.get("items") {
            Some(items) => write_fields(table, &format!("{path}[]."), items),
            None => write_fields(table, &format!("{path}."), field),
        }
    }
}

fn type_of(field: &Value) -> String {
    let name = |schema: &Value| {
        schema
            .get("type")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let own = name(field).unwrap_or_else(|| "any".to_owned());
    match field.get("items") {
        Some(items) => format!(
            "list of {}",
            name(items).unwrap_or_else(|| "any".to_owned())
        ),
        None => own,
    }
}

fn rules(field: &Value, is_required: bool) -> Vec<String> {
    let mut rules = Vec::new();
    if is_required {
        rules.push("required".to_owned());
    }
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        let values: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", plain(value)))
            .collect();
        rules.push(values.join(" or "));
    }
    for (key, words) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "length at least"),
        ("maxLength", "length at most"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
        ("pattern", "matches"),
        ("format", "format"),
        ("default", "default"),
    ] {
        if let Some(value) = field.get(key) {
            rules.push(format!("{words} `{}`", plain(value)));
        }
    }
    let validations = field
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    for validation in validations.into_iter().flatten() {
        if let Some(message) = validation.get("message").and_then(Value::as_str) {
            rules.push(message.to_owned());
        }
    }
    rules
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 => format!("{whole:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_every_field_with_its_validation_rules() {
        let schema = json!({ "properties": {
            "kind": { "type": "string" },
            "spec": {
                "type": "object",
                "description": "What is\nwanted",
                "required": ["mode"],
                "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "never changes" }],
                "properties": {
                    "mode": { "type": "string", "enum": ["A", "B"], "default": "A" },
                    "nodes": { "type": "array", "items": {
                        "type": "object",
                        "properties": { "kind": { "type": "integer", "minimum": 0.0 } },
                    } },
                },
            },
        } });
        assert_eq!(
            fields_table(&schema),
            "| field | type | rules | |\n|---|---|---|---|\n\
             | `spec` | object | never changes | What is wanted |\n\
             | `spec.mode` | string | required; `A` or `B`; default `A` |  |\n\
             | `spec.nodes` | list of object |  |  |\n\
             | `spec.nodes[].kind` | integer | at least `0` |  |\n"
        );
    }
}
