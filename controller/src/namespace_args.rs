//! Options for the driver's namespaces, for the controller and `preflight`.

use clap::Args as ClapArgs;

/// Namespaces in which the Go driver's driver-managed mode keeps its objects. Leftovers there are reported.
#[derive(ClapArgs, Clone, Debug)]
pub(crate) struct NamespaceArgs {
    /// Namespace of this pod.
    #[arg(long = "namespace", env = "NAMESPACE", default_value = "default")]
    own: String,
    /// Other namespaces with objects of the Go driver, comma-separated: the namespace of its
    /// chart, and the namespaces in the Go driver's own option --additional-namespaces.
    #[arg(
        long = "additional-namespaces",
        env = "ADDITIONAL_NAMESPACES",
        value_delimiter = ','
    )]
    additional: Vec<String>,
}

// === impl NamespaceArgs ===

impl NamespaceArgs {
    /// Namespace of this pod, which also has the Leases of channels.
    pub(crate) fn own(&self) -> &str {
        &self.own
    }

    /// All namespaces, each once.
    pub(crate) fn of_driver(&self) -> Vec<String> {
        let mut namespaces = self.additional.clone();
        namespaces.push(self.own.clone());
        namespaces.retain(|namespace| !namespace.is_empty());
        namespaces.sort();
        namespaces.dedup();
        namespaces
    }
}
