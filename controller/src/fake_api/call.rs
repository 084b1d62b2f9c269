//! The calls of the controller, by purpose.

use compute_domain_api::names::CLIQUE_LABEL;
use http::Method;
use serde_json::Value;

use super::request::Request;
use super::resource::Resource;

/// A call of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    ListDomains,
    WatchDomains,
    ListTemplates,
    WatchTemplates,
    ListClaims,
    ListClaimsOfDomain,
    WatchClaims,
    ListOtherTemplates,
    WatchOtherTemplates,
    ListDaemonSets,
    ListNodes,
    ListSlices,
    WatchSlices,
    ListNodeLabels,
    ListAllocations,
    GetDomain,
    FindDomain,
    GetTemplate,
    AddFinalizer,
    RemoveFinalizer,
    WriteStatus,
    RemoveNodes,
    TryStatus,
    CreateTemplate,
    DryRunTemplate,
    DeleteTemplate,
    ReleaseTemplate,
    RestoreLabel,
    PostEvent,
    GetLease,
    CreateLease,
    UpdateLease,
    ListChannels,
    WatchChannels,
    GetChannel,
    CreateChannel,
    ChangeChannel,
    DeleteChannel,
    LabelNode,
    CreateSlice,
    ReplaceSlice,
    DeleteSlice,
    GetCrd,
    ApplyCrd,
    ListDaemonTemplates,
    ListDaemonPods,
    WatchDaemonPods,
    ListCliques,
    ListAllCliques,
    WatchCliques,
    GetClique,
    CreateClique,
    ReplaceClique,
    DeleteClique,
    GetNode,
    ListTemplatesOfDaemons,
    WatchTemplatesOfDaemons,
    DeleteDaemonPod,
    ListGoDaemonSets,
    WatchGoDaemonSets,
    WatchGoTemplates,
    WatchAllClaims,
    DeleteGoDaemonSet,
    ReleaseGoDaemonSet,
    UnlabelNode,
}

impl Call {
    #[expect(clippy::too_many_lines, reason = "the function is a table of requests")]
    /// `None` for requests that the controller should never send.
    pub(super) fn of(request: &Request) -> Option<Self> {
        use Resource::{
            Claims, Cliques, Crds, DaemonSets, Domains, Events, Leases, Nodes, Pods, Slices,
            Templates,
        };

        let all = request.namespace.is_empty();
        let named = !request.name.is_empty();
        let unlabelled = request.query("labelSelector").starts_with('!');
        let selected = !request.query("labelSelector").is_empty();
        let dry = request.is_dry_run();
        let status = request.subresource == "status";
        Some(match (request.method.clone(), request.resource) {
            (Method::GET, Domains) if request.is_watch() => Self::WatchDomains,
            (Method::GET, Domains) if named => Self::GetDomain,
            (Method::GET, Domains) if all => Self::ListDomains,
            (Method::GET, Domains) => Self::FindDomain,
            (Method::GET, Templates) if named => Self::GetTemplate,
            (Method::GET, Templates) if request.query("labelSelector").contains('=') => {
                if request.is_watch() {
                    Self::WatchGoTemplates
                } else {
                    Self::ListDaemonTemplates
                }
            }
            (Method::GET, Templates) => match (request.is_watch(), unlabelled) {
                (true, true) => Self::WatchOtherTemplates,
                (true, false) => Self::WatchTemplates,
                (false, true) => Self::ListOtherTemplates,
                (false, false) => Self::ListTemplates,
            },
            (Method::GET, Claims) if request.is_watch() && !selected => Self::WatchAllClaims,
            (Method::GET, Claims) if request.is_watch() => Self::WatchClaims,
            (Method::GET, Claims) if !named && all && !request.metadata_only => {
                Self::ListAllocations
            }
            (Method::GET, Claims) if !named && all => Self::ListClaims,
            (Method::GET, Claims) if !named && request.query("labelSelector").contains('=') => {
                Self::ListClaimsOfDomain
            }
            (Method::GET, DaemonSets)
                if !all
                    && request
                        .query("labelSelector")
                        .starts_with("imex-dra/resident=") =>
            {
                if request.is_watch() {
                    Self::WatchTemplatesOfDaemons
                } else {
                    Self::ListTemplatesOfDaemons
                }
            }
            (Method::GET, DaemonSets) if request.is_watch() && !all && selected => {
                Self::WatchGoDaemonSets
            }
            (Method::GET, DaemonSets) if !named && !all && request.query("limit") == "10" => {
                Self::ListDaemonSets
            }
            (Method::GET, DaemonSets) if !named && !all && selected => Self::ListGoDaemonSets,
            (Method::DELETE, DaemonSets) if named && !all => Self::DeleteGoDaemonSet,
            (Method::PATCH, DaemonSets) if !status => Self::ReleaseGoDaemonSet,
            (Method::GET, Nodes) if request.query("labelSelector") == CLIQUE_LABEL => {
                Self::ListNodeLabels
            }
            (Method::GET, Nodes) if named && request.metadata_only => Self::GetNode,
            (Method::GET, Nodes) if !named => Self::ListNodes,
            // Only with a field selector: otherwise it would list the slices of all drivers.
            (Method::GET, Slices) if !named && !request.query("fieldSelector").is_empty() => {
                if request.is_watch() {
                    Self::WatchSlices
                } else {
                    Self::ListSlices
                }
            }
            (Method::GET, Leases) if request.is_watch() => Self::WatchChannels,
            (Method::GET, Leases) if !named && !all => Self::ListChannels,
            (Method::GET, Leases) if is_channel(&request.name) => Self::GetChannel,
            (Method::GET, Leases) if named => Self::GetLease,
            (Method::PATCH, Leases) => Self::ChangeChannel,
            (Method::DELETE, Leases) => Self::DeleteChannel,
            (Method::POST, Leases) if is_channel(request.name_in_body()) => Self::CreateChannel,
            (Method::PATCH, Domains) if status && dry => Self::TryStatus,
            (Method::PATCH, Domains) if status && request.body.is_array() => Self::RemoveNodes,
            (Method::PATCH, Domains) if status => Self::WriteStatus,
            (Method::PATCH, Domains) if adds(&request.body) => Self::AddFinalizer,
            (Method::PATCH, Domains) => Self::RemoveFinalizer,
            (Method::PATCH, Templates) if adds(&request.body) => Self::RestoreLabel,
            (Method::PATCH, Templates) => Self::ReleaseTemplate,
            (Method::POST, Templates) if dry => Self::DryRunTemplate,
            (Method::POST, Templates) => Self::CreateTemplate,
            (Method::DELETE, Templates) => Self::DeleteTemplate,
            (Method::POST, Events) => Self::PostEvent,
            (Method::POST, Leases) => Self::CreateLease,
            (Method::PUT, Leases) => Self::UpdateLease,
            (Method::PATCH, Nodes) if !status && request.body.is_array() => Self::UnlabelNode,
            (Method::PATCH, Nodes) if !status => Self::LabelNode,
            (Method::POST, Slices) => Self::CreateSlice,
            (Method::PUT, Slices) => Self::ReplaceSlice,
            (Method::DELETE, Slices) => Self::DeleteSlice,
            // Only in one namespace and with a label: otherwise it would list the cluster's pods.
            (Method::GET, Pods) if !named && !all && selected => {
                if request.is_watch() {
                    Self::WatchDaemonPods
                } else {
                    Self::ListDaemonPods
                }
            }
            (Method::DELETE, Pods) if named && !all => Self::DeleteDaemonPod,
            (Method::GET, Cliques) if !named && !all && selected => {
                if request.is_watch() {
                    Self::WatchCliques
                } else {
                    Self::ListCliques
                }
            }
            (Method::GET, Cliques) if !named && all && !request.is_watch() => Self::ListAllCliques,
            (Method::GET, Cliques) if named => Self::GetClique,
            (Method::POST, Cliques) => Self::CreateClique,
            (Method::PUT, Cliques) => Self::ReplaceClique,
            (Method::DELETE, Cliques) => Self::DeleteClique,
            (Method::GET, Crds) if named => Self::GetCrd,
            (Method::PATCH, Crds) => Self::ApplyCrd,
            _ => return None,
        })
    }

    /// Whether it changes an object, other than an event.
    pub(crate) fn is_write(self) -> bool {
        matches!(
            self,
            Self::AddFinalizer
                | Self::RemoveFinalizer
                | Self::WriteStatus
                | Self::RemoveNodes
                | Self::CreateTemplate
                | Self::DeleteTemplate
                | Self::ReleaseTemplate
                | Self::RestoreLabel
                | Self::CreateChannel
                | Self::ChangeChannel
                | Self::DeleteChannel
                | Self::LabelNode
                | Self::CreateSlice
                | Self::ReplaceSlice
                | Self::DeleteSlice
                | Self::ApplyCrd
                | Self::CreateClique
                | Self::ReplaceClique
                | Self::DeleteClique
                | Self::DeleteDaemonPod
                | Self::DeleteGoDaemonSet
                | Self::ReleaseGoDaemonSet
                | Self::UnlabelNode
        )
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(
            self,
            Self::ListDomains
                | Self::ListTemplates
                | Self::ListClaims
                | Self::ListClaimsOfDomain
                | Self::ListOtherTemplates
                | Self::ListDaemonSets
                | Self::ListNodes
                | Self::ListSlices
                | Self::ListNodeLabels
                | Self::ListAllocations
                | Self::FindDomain
                | Self::ListChannels
                | Self::ListDaemonTemplates
                | Self::ListDaemonPods
                | Self::ListCliques
                | Self::ListAllCliques
                | Self::ListTemplatesOfDaemons
                | Self::ListGoDaemonSets
        )
    }

    pub(crate) fn is_watch(self) -> bool {
        matches!(
            self,
            Self::WatchDomains
                | Self::WatchTemplates
                | Self::WatchClaims
                | Self::WatchOtherTemplates
                | Self::WatchChannels
                | Self::WatchSlices
                | Self::WatchDaemonPods
                | Self::WatchCliques
                | Self::WatchTemplatesOfDaemons
                | Self::WatchGoDaemonSets
                | Self::WatchGoTemplates
                | Self::WatchAllClaims
        )
    }
}

/// Whether this is the name of a channel's Lease.
fn is_channel(name: &str) -> bool {
    name.starts_with("imex-channel-")
}

/// Whether a JSON patch adds something.
fn adds(patch: &Value) -> bool {
    let operations = patch.as_array().into_iter().flatten();
    operations
        .into_iter()
        .any(|operation| operation["op"] == "add")
}
