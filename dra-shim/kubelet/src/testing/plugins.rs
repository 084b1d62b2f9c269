//! The table of registered plugins, and the choice of the plugin for a driver's calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::DropGuard;

use super::channel::Channel;
use super::event::ServiceVersion;
use crate::proto::registration::PluginInfo;

/// kubelet's name, not this library's constant: with the constants of the code under test, a
/// test would pass for any value.
const PLUGIN_TYPE: &str = "DRAPlugin";
const V1: &str = "v1.DRAPlugin";
const V1BETA1: &str = "v1beta1.DRAPlugin";

pub(super) struct Plugin {
    pub(super) driver: String,
    pub(super) endpoint: PathBuf,
    pub(super) service: ServiceVersion,
    pub(super) channel: Arc<Channel>,
    /// Ends the health stream when dropped.
    pub(super) _listening: DropGuard,
}

/// A plugin's key in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) driver: String,
    pub(super) endpoint: PathBuf,
}

/// All plugins, in the order of their registration.
#[derive(Default)]
pub(super) struct Plugins(Vec<Plugin>);

// === impl Plugins ===

impl Plugins {
    /// Adds a plugin. Fact: an existing pair of driver and endpoint is refused, so no instance
    /// can replace another.
    pub(super) fn add(&mut self, plugin: Plugin) -> Result<(), String> {
        let taken = |other: &Plugin| same(other, &plugin.driver, &plugin.endpoint);
        if self.0.iter().any(taken) {
            return Err(format!(
                "endpoint {} already registered for plugin {}",
                plugin.endpoint.display(),
                plugin.driver
            ));
        }
        self.0.push(plugin);
        Ok(())
    }

    pub(super) fn remove(&mut self, driver: &str, endpoint: &Path) -> Option<Plugin> {
        let index = self.0.iter().position(|it| same(it, driver, endpoint))?;
        Some(self.0.remove(index))
    }

    /// The driver's newest connected plugin, or its newest plugin if none is connected.
    pub(super) fn choose(&self, driver: &str) -> Option<&Plugin> {
        let of_driver = || self.0.iter().rev().filter(|it| it.driver == driver);
        of_driver()
            .find(|it| it.channel.is_connected())
            .or_else(|| of_driver().next())
    }

    /// The endpoints of the driver's plugins, oldest first.
    pub(super) fn endpoints(&self, driver: &str) -> Vec<PathBuf> {
        let of_driver = self.0.iter().filter(|it| it.driver == driver);
        of_driver.map(|it| it.endpoint.clone()).collect()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn service(&self, driver: &str, endpoint: &Path) -> Option<ServiceVersion> {
        let plugin = self.0.iter().find(|it| same(it, driver, endpoint))?;
        Some(plugin.service)
    }

    pub(super) fn is_connected(&self, driver: &str) -> bool {
        self.0
            .iter()
            .any(|it| it.driver == driver && it.channel.is_connected())
    }
}

fn same(plugin: &Plugin, driver: &str, endpoint: &Path) -> bool {
    plugin.driver == driver && plugin.endpoint == endpoint
}

/// Returns the version of the service that kubelet will use, or the reason for a refusal.
///
/// Fact: kubelet uses the first version in the plugin's list that it supports.
pub(super) fn validate(info: &PluginInfo) -> Result<ServiceVersion, String> {
    if info.r#type != PLUGIN_TYPE {
        return Err(format!(
            "no handler registered for plugin type: {}",
            info.r#type
        ));
    }
    if info.supported_versions.is_empty() {
        return Err("empty list for supported gRPC services".to_owned());
    }
    let known = |version: &String| match version.as_str() {
        V1 => Some(ServiceVersion::V1),
        V1BETA1 => Some(ServiceVersion::V1beta1),
        _ => None,
    };
    info.supported_versions
        .iter()
        .find_map(known)
        .ok_or_else(|| {
            format!(
                "none of the supported gRPC services {:?} is known to kubelet",
                info.supported_versions
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_info(versions: &[&str]) -> PluginInfo {
        PluginInfo {
            r#type: PLUGIN_TYPE.to_owned(),
            supported_versions: versions.iter().map(|&it| it.to_owned()).collect(),
            ..PluginInfo::default()
        }
    }

    #[test]
    fn the_plugins_order_decides_the_version() {
        let chosen = |versions: &[&str]| validate(&mk_info(versions)).ok();
        let newest_first = [V1, V1BETA1, "v1alpha1.DRAResourceHealth"];
        assert_eq!(chosen(&newest_first), Some(ServiceVersion::V1));
        let reversed = ["v1beta1.DRAPlugin", "v1.DRAPlugin"];
        assert_eq!(chosen(&reversed), Some(ServiceVersion::V1beta1));
        let unknown = ["v7.DRAPlugin", "v1.DRAPlugin"];
        assert_eq!(chosen(&unknown), Some(ServiceVersion::V1));
    }

    #[test]
    fn a_list_without_a_version_of_the_service_is_refused() {
        // kubelet's name of the service is not the name of the gRPC package.
        let package = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin";
        for versions in [&[] as &[&str], &["v1alpha1.DRAResourceHealth"], &[package]] {
            assert!(validate(&mk_info(versions)).is_err(), "{versions:?}");
        }
    }
}
