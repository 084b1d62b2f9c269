/// The kinds of objects that the server stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    Domains,
    Templates,
    Claims,
    Leases,
    Events,
    DaemonSets,
    Nodes,
    Slices,
    Crds,
    Pods,
    Cliques,
}

impl Resource {
    const ALL: [Self; 11] = [
        Self::Domains,
        Self::Templates,
        Self::Claims,
        Self::Leases,
        Self::Events,
        Self::DaemonSets,
        Self::Nodes,
        Self::Slices,
        Self::Crds,
        Self::Pods,
        Self::Cliques,
    ];

    /// `apiVersion`, `kind` and the name in paths.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Domains => [
                "resource.nvidia.com/v1beta1",
                "ComputeDomain",
                "computedomains",
            ],
            Self::Templates => [
                "resource.k8s.io/v1",
                "ResourceClaimTemplate",
                "resourceclaimtemplates",
            ],
            Self::Claims => ["resource.k8s.io/v1", "ResourceClaim", "resourceclaims"],
            Self::Leases => ["coordination.k8s.io/v1", "Lease", "leases"],
            Self::Events => ["events.k8s.io/v1", "Event", "events"],
            Self::DaemonSets => ["apps/v1", "DaemonSet", "daemonsets"],
            Self::Nodes => ["v1", "Node", "nodes"],
            Self::Slices => ["resource.k8s.io/v1", "ResourceSlice", "resourceslices"],
            Self::Pods => ["v1", "Pod", "pods"],
            Self::Cliques => [
                "resource.nvidia.com/v1beta1",
                "ComputeDomainClique",
                "computedomaincliques",
            ],
            Self::Crds => [
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            ],
        }
    }

    pub(super) fn api_version(self) -> &'static str {
        self.names()[0]
    }

    pub(super) fn kind(self) -> &'static str {
        self.names()[1]
    }

    pub(super) fn plural(self) -> &'static str {
        self.names()[2]
    }

    /// By `apiVersion` and the name in paths.
    pub(super) fn find(api_version: &str, plural: &str) -> Option<Self> {
        let is = |it: &Self| it.api_version() == api_version && it.plural() == plural;
        Self::ALL.into_iter().find(is)
    }

    pub(super) fn of_kind(kind: &str) -> Self {
        let is = |it: &Self| it.kind() == kind;
        Self::ALL.into_iter().find(is).unwrap()
    }
}
