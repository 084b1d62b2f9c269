//! The canonical form of a config's mounts: their order counts where one is on,
//! or below, another.

use std::path::Path;

use serde_json::{Map, Value};

/// Makes each mount a member named by its target, with the related targets that
/// are mounted before it. Mounts on the same target are numbered.
pub(super) fn key_by_target(config: &mut Value) {
    let Some(Value::Array(mounts)) = config.get("mounts") else {
        return;
    };
    let target = |mount: &Value| Some(mount.get("destination")?.as_str()?.to_owned());
    let Some(targets) = mounts.iter().map(target).collect::<Option<Vec<_>>>() else {
        return;
    };
    let mut keyed = Map::new();
    for (at, (mount, target)) in mounts.iter().zip(&targets).enumerate() {
        let earlier = targets.iter().take(at);
        let mut before: Vec<&str> = earlier
            .filter(|other| related(other, target))
            .map(String::as_str)
            .collect();
        before.sort_unstable();
        let again = before.iter().filter(|other| *other == target).count();
        let mut mount = mount.clone();
        if let Value::Object(members) = &mut mount
            && !before.is_empty()
        {
            members.insert("(after)".to_owned(), before.into());
        }
        let count = match again {
            0 => String::new(),
            n => format!("#{}", n + 1),
        };
        keyed.insert(format!("[{target}{count}]"), mount);
    }
    if let Value::Object(members) = config {
        members.insert("mounts".to_owned(), Value::Object(keyed));
    }
}

/// Whether one is the other, or below it.
fn related(one: &str, other: &str) -> bool {
    let (one, other) = (Path::new(one), Path::new(other));
    one.starts_with(other) || other.starts_with(one)
}
