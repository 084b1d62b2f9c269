//! JSON patches and applied statuses, as Kubernetes treats them.

use serde_json::{Map, Value};

/// Applies a JSON patch. Something that does not exist equals null.
///
/// # Errors
/// The first operation that fails; the object may be changed in part then.
pub(super) fn json_patch(object: &mut Value, patch: &Value) -> Result<(), String> {
    for operation in patch.as_array().ok_or("a JSON patch is a list")? {
        apply(object, operation).ok_or_else(|| format!("cannot apply {operation}"))?;
    }
    Ok(())
}

/// Merges a patch, which may name the UID and the version that it is for.
///
/// # Errors
/// If the object is another one, or has another version.
pub(super) fn merge_patch(object: &mut Value, patch: &Value) -> Result<(), String> {
    for field in ["uid", "resourceVersion"] {
        let (wanted, found) = (&patch["metadata"][field], &object["metadata"][field]);
        if !wanted.is_null() && wanted != found {
            return Err(format!("{field}: {wanted} is wanted, {found} is there"));
        }
    }
    merge(object, patch);
    Ok(())
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (field, value) in fields {
        merge(&mut into[field], value);
    }
    into.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
}

fn apply(object: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let value = &operation["value"];
    if operation["op"] == "test" {
        let found = object.pointer(path).unwrap_or(&Value::Null);
        return (found == value).then_some(());
    }
    let (parent, key) = path.rsplit_once('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    match (operation["op"].as_str()?, object.pointer_mut(parent)?) {
        ("add", Value::Array(list)) if key == "-" => list.push(value.clone()),
        ("add", Value::Object(map)) => drop(map.insert(key, value.clone())),
        ("remove", Value::Array(list)) => {
            let index = key.parse().ok().filter(|index| *index < list.len())?;
            list.remove(index);
        }
        ("remove", Value::Object(map)) => drop(map.shift_remove(&key)?),
        _ => return None,
    }
    Some(())
}

/// Merges an applied status: fields replace those of their name, and each condition that of its type.
/// Conditions of the types that the same manager applied `before`, and does not now, go.
pub(super) fn apply_status(object: &mut Value, applied: &Value, before: &[String]) {
    let now = condition_types(applied);
    let conditions = object.pointer_mut("/status/conditions");
    if let Some(conditions) = conditions.and_then(Value::as_array_mut) {
        let is_type = |it: &Value, kind: &String| it["type"] == **kind;
        conditions.retain(|it| {
            now.iter().any(|kind| is_type(it, kind)) || !before.iter().any(|kind| is_type(it, kind))
        });
    }
    let applied = applied["status"].as_object().unwrap();
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    for (field, value) in applied {
        if field == "conditions" {
            for condition in value.as_array().unwrap() {
                apply_condition(&mut object["status"][field], condition);
            }
        } else {
            object["status"][field] = value.clone();
        }
    }
}

/// The types of the conditions that are applied.
pub(super) fn condition_types(applied: &Value) -> Vec<String> {
    let conditions = applied["status"]["conditions"].as_array();
    let types = conditions.into_iter().flatten().map(|it| &it["type"]);
    types
        .filter_map(|it| Some(it.as_str()?.to_owned()))
        .collect()
}

fn apply_condition(conditions: &mut Value, applied: &Value) {
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let list = conditions.as_array_mut().unwrap();
    match list.iter_mut().find(|it| it["type"] == applied["type"]) {
        Some(before) => *before = applied.clone(),
        None => list.push(applied.clone()),
    }
}
