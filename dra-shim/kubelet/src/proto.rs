//! The generated protocol modules, under the names that kubelet lists them by.

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
    /// How a plugin makes itself known.
    registration, "pluginregistration"
);
generated!(v1, "k8s.io.kubelet.pkg.apis.dra.v1");
generated!(
    /// The same as [`v1`] without share ids.
    v1beta1, "k8s.io.kubelet.pkg.apis.dra.v1beta1"
);
generated!(health, "v1alpha1");

/// `supported_versions`, and the type of plugin that they belong to. kubelet takes
/// the first DRA version in this order that it knows. These are its own short
/// names, not the gRPC packages.
pub(crate) const PLUGIN_TYPE: &str = "DRAPlugin";
pub(crate) const SUPPORTED: [&str; 3] = [
    "v1.DRAPlugin",
    "v1beta1.DRAPlugin",
    "v1alpha1.DRAResourceHealth",
];
