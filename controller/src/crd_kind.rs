//! The CRDs that the program contains.

use clap::ValueEnum;
use compute_domain_api::clique::ComputeDomainClique;
use compute_domain_api::crd::ComputeDomain;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The kinds that this program's CRDs define.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdKind {
    /// `ComputeDomain`
    #[default]
    Domains,
    /// `ComputeDomainClique`
    Cliques,
}

// === impl CrdKind ===

impl CrdKind {
    /// All kinds, in the order in which they are applied.
    pub(crate) const ALL: [Self; 2] = [Self::Domains, Self::Cliques];

    pub(crate) fn crd(self) -> CustomResourceDefinition {
        match self {
            Self::Domains => ComputeDomain::crd(),
            Self::Cliques => ComputeDomainClique::crd(),
        }
    }

    /// The name of the CRD.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Domains => ComputeDomain::crd_name(),
            Self::Cliques => ComputeDomainClique::crd_name(),
        }
    }

    /// The kind's plural in prose, and in API paths.
    pub(crate) fn plural(self) -> (&'static str, &'static str) {
        match self {
            Self::Domains => ("ComputeDomains", "computedomains"),
            Self::Cliques => ("ComputeDomainCliques", "computedomaincliques"),
        }
    }
}
