//! Fields of one CRD schema that another lacks, and whether an object has them.

use std::fmt;

use serde_json::Value;

/// The path of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Field(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Named(String),
    /// Each item of a list.
    Items,
    /// Each value of a map.
    Values,
}

/// Fields that the API server keeps in every object, regardless of the schema.
const KEPT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The fields of `theirs` that `ours` would drop, without the fields below them.
pub(super) fn dropped(theirs: &Value, ours: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    collect(theirs, ours, &mut Vec::new(), &mut found);
    found.sort();
    found
}

fn collect(theirs: &Value, ours: &Value, path: &mut Vec<Part>, found: &mut Vec<Field>) {
    if ours["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let named = theirs["properties"].as_object().into_iter().flatten();
    for (name, schema) in named {
        if path.is_empty() && KEPT.contains(&name.as_str()) {
            continue;
        }
        path.push(Part::Named(name.clone()));
        // A map of ours may keep a field of theirs.
        let own = [&ours["properties"][name], &ours["additionalProperties"]];
        match own.into_iter().find(|own| !own.is_null()) {
            Some(own) => collect(schema, own, path, found),
            None => found.push(Field(path.clone())),
        }
        path.pop();
    }
    for (word, part) in [
        ("items", Part::Items),
        ("additionalProperties", Part::Values),
    ] {
        if theirs[word].is_object() {
            path.push(part);
            if ours[word].is_null() {
                found.push(Field(path.clone()));
            } else {
                collect(&theirs[word], &ours[word], path, found);
            }
            path.pop();
        }
    }
}

impl Field {
    /// Whether this object has the field.
    pub(super) fn is_in(&self, object: &Value) -> bool {
        is_in(&self.0, object)
    }
}

fn is_in(path: &[Part], object: &Value) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return !object.is_null();
    };
    match first {
        Part::Named(name) => object.get(name).is_some_and(|value| is_in(rest, value)),
        Part::Items => object
            .as_array()
            .is_some_and(|items| items.iter().any(|item| is_in(rest, item))),
        Part::Values => object
            .as_object()
            .is_some_and(|map| map.values().any(|value| is_in(rest, value))),
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.0.iter().enumerate() {
            match part {
                Part::Named(name) if number == 0 => f.write_str(name),
                Part::Named(name) => write!(f, ".{name}"),
                Part::Items => f.write_str("[]"),
                Part::Values => f.write_str(".*"),
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(theirs: &Value, ours: &Value) -> Vec<String> {
        dropped(theirs, ours).iter().map(Field::to_string).collect()
    }

    fn mk_schema() -> Value {
        json!({ "properties": {
            "apiVersion": {}, "kind": {},
            "metadata": { "properties": { "x": {} } },
            "spec": { "properties": { "a": {}, "list": { "items": { "properties": { "b": {} } } } } },
            "status": { "properties": { "map": { "additionalProperties": { "properties": { "c": {} } } } } },
        } })
    }

    #[test]
    fn a_schema_with_the_same_fields_drops_none() {
        assert!(names(&mk_schema(), &mk_schema()).is_empty());
    }

    #[test]
    fn a_dropped_field_is_named_once_where_it_begins() {
        let mut ours = mk_schema();
        for kept in KEPT {
            ours["properties"].as_object_mut().unwrap().remove(kept);
        }
        ours["properties"]["spec"]["properties"]["list"]["items"] = json!({ "properties": {} });
        ours["properties"].as_object_mut().unwrap().remove("status");
        assert_eq!(names(&mk_schema(), &ours), ["spec.list[].b", "status"]);
    }

    #[test]
    fn what_a_map_or_an_open_schema_keeps_is_not_dropped() {
        let theirs = json!({ "properties": { "a": { "properties": { "b": {} } } } });
        for ours in [
            json!({ "properties": { "a": { "additionalProperties": {} } } }),
            json!({ "properties": { "a": { "x-kubernetes-preserve-unknown-fields": true } } }),
        ] {
            assert!(names(&theirs, &ours).is_empty(), "{ours}");
        }
    }

    #[test]
    fn an_object_has_a_field_if_any_item_or_value_has_it() {
        let fields = dropped(
            &mk_schema(),
            &json!({ "properties": {
            "spec": { "properties": { "a": {}, "list": { "items": {} } } },
            "status": { "properties": { "map": { "additionalProperties": {} } } },
        } }),
        );
        let has = |object: Value| fields.iter().filter(|it| it.is_in(&object)).count();
        assert_eq!(fields.len(), 2);
        assert_eq!(has(json!({ "spec": { "list": [{}, { "b": null }] } })), 0);
        assert_eq!(has(json!({ "spec": { "list": [{}, { "b": 1 }] } })), 1);
        assert_eq!(
            has(json!({ "status": { "map": { "x": { "c": false } } } })),
            1
        );
    }
}
