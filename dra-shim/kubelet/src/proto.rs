//! The generated protocol modules, and kubelet's names for the services.

macro_rules! generated {
    ($(#[$doc:meta])* $name:ident, $package:literal) => {
        $(#[$doc])*
        #[allow(
            clippy::all,
            clippy::pedantic,
            missing_docs,
            unreachable_pub,
            unused,
            reason = "generated; which lints fire depends on the generator's version"
        )]
        pub(crate) mod $name {
            tonic::include_proto!($package);
        }
    };
}

generated!(
    /// The registration of plugins.
    registration, "pluginregistration"
);
generated!(v1, "k8s.io.kubelet.pkg.apis.dra.v1");
generated!(
    /// The same as [`v1`] without share ids.
    v1beta1, "k8s.io.kubelet.pkg.apis.dra.v1beta1"
);
generated!(health, "v1alpha1");

/// `type` of [`registration::PluginInfo`].
pub(crate) const PLUGIN_TYPE: &str = "DRAPlugin";

/// `supported_versions` of [`registration::PluginInfo`]. kubelet uses the first DRA version in
/// the list that it supports. These are kubelet's short names, not the gRPC packages.
pub(crate) fn supported(only_v1beta1: bool) -> Vec<String> {
    let v1 = (!only_v1beta1).then_some("v1.DRAPlugin");
    let always = ["v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"];
    v1.into_iter().chain(always).map(str::to_owned).collect()
}
