//! JSON patches and applied statuses, by the rules of Kubernetes.

use serde_json::{Map, Value};

/// Applies a JSON patch. A missing value equals null.
///
/// # Errors
/// The first operation that fails; the object may then be partly changed.
pub(super) fn json_patch(object: &mut Value, patch: &Value) -> Result<(), String> {
    for operation in patch.as_array().ok_or("a JSON patch must be a list")? {
        apply(object, operation).ok_or_else(|| format!("cannot apply {operation}"))?;
    }
    Ok(())
}

/// Merges a patch, which may have a UID and a version as preconditions.
///
/// # Errors
/// If the object has another UID or version.
pub(super) fn merge_patch(object: &mut Value, patch: &Value) -> Result<(), String> {
    for field in ["uid", "resourceVersion"] {
        let (wanted, found) = (&patch["metadata"][field], &object["metadata"][field]);
        if !wanted.is_null() && wanted != found {
            return Err(format!("{field}: want {wanted}, found {found}"));
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

/// The lists of a status whose items are merged, each with its key field.
const MAP_LISTS: [(&str, &str); 2] = [("conditions", "type"), ("nodes", "name")];

/// Merges an applied status: fields and items of lists replace those of the same name or key. Items that the
/// same manager applied `before`, but does not apply now, are removed.
pub(super) fn apply_status(object: &mut Value, applied: &Value, before: &[Item]) {
    let now = applied_items(applied);
    let applied = applied["status"].as_object().unwrap();
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    for (field, value) in applied {
        if MAP_LISTS.iter().all(|(list, _)| list != field) {
            object["status"][field] = value.clone();
        }
    }
    for (list, key) in MAP_LISTS {
        let items = object["status"].get_mut(list).and_then(Value::as_array_mut);
        if let Some(items) = items {
            items.retain(|it| {
                let item = item(list, key, it);
                now.contains(&item) || !before.contains(&item)
            });
        }
        for wanted in applied
            .get(list)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            apply_item(&mut object["status"][list], key, wanted);
        }
    }
}

/// An item of a list: the list, and the item's key.
pub(super) type Item = (&'static str, String);

/// The applied items of lists.
pub(super) fn applied_items(applied: &Value) -> Vec<Item> {
    let items = |(list, key)| {
        let items = applied["status"][list].as_array().into_iter().flatten();
        items.map(move |it| item(list, key, it))
    };
    MAP_LISTS.into_iter().flat_map(items).collect()
}

fn item(list: &'static str, key: &str, item: &Value) -> Item {
    (list, item[key].as_str().unwrap_or_default().to_owned())
}

fn apply_item(items: &mut Value, key: &str, applied: &Value) {
    if !items.is_array() {
        *items = Value::Array(Vec::new());
    }
    let list = items.as_array_mut().unwrap();
    match list.iter_mut().find(|it| it[key] == applied[key]) {
        Some(before) => *before = applied.clone(),
        None => list.push(applied.clone()),
    }
}
