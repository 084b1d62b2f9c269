//! The namespaces of the driver, for the controller and for `preflight`.

use clap::Args as ClapArgs;

/// Where the driver-managed mode of the Go driver keeps its objects, which are named if there are any
/// left.
#[derive(ClapArgs, Clone, Debug)]
pub(crate) struct NamespaceArgs {
    /// Namespace of this pod.
    #[arg(long = "namespace", env = "NAMESPACE", default_value = "default")]
    own: String,
    /// Further namespaces in which the Go driver's controller has kept its objects: another one that
    /// its chart was installed in, and its own additional namespaces.
    #[arg(
        long = "additional-namespaces",
        env = "ADDITIONAL_NAMESPACES",
        value_delimiter = ','
    )]
    additional: Vec<String>,
}

// === impl NamespaceArgs ===

impl NamespaceArgs {
    /// Where the Leases of channels are.
    pub(crate) fn own(&self) -> &str {
        &self.own
    }

    /// Each of them once.
    pub(crate) fn of_driver(&self) -> Vec<String> {
        let mut namespaces = self.additional.clone();
        namespaces.push(self.own.clone());
        namespaces.retain(|namespace| !namespace.is_empty());
        namespaces.sort();
        namespaces.dedup();
        namespaces
    }
}
