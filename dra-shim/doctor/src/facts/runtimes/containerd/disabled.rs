//! `disabled_plugins`: without its CRI plugin, containerd does not serve kubelet.
//!
//! `ValidateV2`, `V1DisabledFilter` and `V2DisabledFilter` of
//! `services/server/config/config.go` (1.7), `ValidateVersion`, `v1MigratePluginName` and
//! `V2DisabledFilter` of `cmd/containerd/server/config/config.go` (2.x).

use toml::Table;

use super::layer::{Layer, RUNTIME, SERVICE, SHORT, plugin_of_1};
use super::release::Rules;

/// Without one of these, 2.x does not serve kubelet (`plugins/cri/cri.go`).
const NEEDED_BY_2: [&str; 3] = [SERVICE, RUNTIME, IMAGES];
/// As [`NEEDED_BY_2`], in a file of version 1.
const NEEDED_BY_2_IN_1: [&str; 4] = [SHORT, SERVICE, RUNTIME, IMAGES];
const IMAGES: &str = "io.containerd.cri.v1.images";

/// A name in `disabled_plugins` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disabled {
    pub(super) file: String,
    pub(super) name: String,
}

/// What disables CRI: the lists of all files count, and may have only such names as
/// their version has.
pub(super) fn disabled(
    layers: &[Layer<'_>],
    rules: Rules,
    version: i64,
) -> Result<Option<Disabled>, String> {
    let mut found = None;
    for layer in layers {
        // 2.x gives long names to those in a file of version 1.
        let (version, needed): (_, &[&str]) = match rules {
            Rules::V1 { .. } => (version, &[plugin_of_1(version)]),
            _ if layer.is_of_1() => (1, &NEEDED_BY_2_IN_1),
            _ => (layer.version, &NEEDED_BY_2),
        };
        let listed = layer.list("disabled_plugins")?;
        let mut names = layer.list("required_plugins")?;
        names.extend(listed.iter().cloned());
        if matches!(rules, Rules::V1 { .. }) {
            names.extend(layer.plugins().into_iter().flat_map(Table::keys).cloned());
        }
        if let Some(short) = names.iter().find(|name| !is_long(name, rules))
            && version > 1
        {
            return Err(format!(
                "{} names the plugin {short:?}: in version {version} the names are long, as {SERVICE}",
                layer.path
            ));
        }
        let name = listed.into_iter().find(|it| needed.contains(&it.as_str()));
        let file = layer.path.to_owned();
        found = found.or_else(|| name.map(|name| Disabled { file, name }));
    }
    Ok(found)
}

fn is_long(name: &str, rules: Rules) -> bool {
    match rules {
        Rules::V1 { .. } => name.starts_with("io.containerd.") && name.split('.').nth(3).is_some(),
        _ => name.contains('.'),
    }
}
