//! A container's config, as containerd writes it for a small pod.

/// Of runtime-spec 1.2.
pub(super) const TEXT: &str = include_str!("config.json");
