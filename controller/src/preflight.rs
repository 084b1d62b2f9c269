//! The subcommand `preflight`: checks whether a change of the driver breaks live `ComputeDomains` or pods with GPUs.
//! Read-only.

use std::collections::{BTreeSet, HashSet};
use std::process::ExitCode;

use clap::{Args as ClapArgs, ValueEnum};
use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::driver_managed::DRIVER_MANAGED_LABEL;
use compute_domain_api::names::{DOMAIN_LABEL, TARGET_DAEMON, TARGET_LABEL};
use compute_domain_api::{Mode, Settings};
use compute_domain_core::{DriverChange, LiveDomain, Preflight};
use daemon_runtime::{ImexArgs, KubeArgs, Part, Readiness, StartError, for_each_page};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, Resource as _};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_client::RawMetadata;
use crate::namespace_args::NamespaceArgs;
use crate::refused::{REFUSED, print};

/// Label, with value `true`, of the plugins' `DaemonSet` if it has the GPU plugin.
const GPUS_LABEL: &str = "imex-dra/gpus";

const GPU_DRIVER: &str = "gpu.nvidia.com";

/// The planned change, and the settings after it.
#[derive(ClapArgs, Debug)]
pub(crate) struct PreflightArgs {
    /// The planned change.
    step: Step,
    /// What the change could break. gpus: it ends the GPU plugin, if that is installed. Default: compute-domains, and for
    /// an uninstallation both.
    #[arg(long = "check", value_delimiter = ',', value_name = "CHECK")]
    checks: Vec<Check>,
    /// Report obstacles, but exit with code 0.
    #[arg(long = "override")]
    overridden: bool,
    /// Output format: a sentence, or a JSON object.
    #[arg(long, default_value = "text")]
    output: Output,
    #[command(flatten)]
    namespaces: NamespaceArgs,
    #[command(flatten)]
    imex: ImexArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The driver is installed, perhaps after another one.
    Install,
    /// The driver is upgraded, perhaps with other settings.
    Upgrade,
    /// The driver is rolled back, perhaps to other settings.
    Rollback,
    /// The driver is uninstalled.
    Uninstall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Check {
    /// `ComputeDomains`.
    ComputeDomains,
    /// Pods with GPUs.
    Gpus,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// The fields of a ComputeDomain or claim that are read; invalid content elsewhere does not matter.
#[derive(Deserialize)]
struct Listed {
    metadata: ListedMetadata,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
struct ListedMetadata {
    name: String,
    namespace: String,
    uid: String,
}

/// Prints the verdict. Exit code 0 without an obstacle or if it is overridden; 3 otherwise.
pub(crate) async fn run(args: PreflightArgs) -> Result<ExitCode, StartError> {
    let PreflightArgs {
        step,
        checks,
        overridden,
        output,
        namespaces,
        imex,
        kube,
    } = args;
    let checks = |check| match &checks[..] {
        [] => check == Check::ComputeDomains || step == Step::Uninstall,
        checks => checks.contains(&check),
    };
    // After an uninstallation, there are no settings.
    let settings = (step != Step::Uninstall)
        .then(|| imex.resolve())
        .transpose()?;
    let condition = Readiness::default().add_condition("api-server", "not reached yet");
    let client = kube.client(&condition).await?;
    let domains = async {
        if !checks(Check::ComputeDomains) {
            return Ok(Preflight::default());
        }
        let change = change(&client, namespaces.own(), step, settings.as_ref()).await?;
        let removes = |settings: &Settings| settings.mode == Mode::DriverManaged;
        let removed_in = settings.as_ref().filter(|settings| removes(settings));
        let removed_in = removed_in.map(|_| namespaces.of_driver());
        check(&client, change, &removed_in.unwrap_or_default()).await
    };
    let checked = async {
        let preflight = domains.await?;
        if preflight.obstacle.is_some() || !checks(Check::Gpus) {
            return Ok(preflight);
        }
        check_gpus(&client, namespaces.own()).await
    };
    let preflight: Result<_, ListError> = checked.await;
    let preflight = preflight.map_err(|err| {
        StartError::new(
            &err,
            "the check did not complete; try again when the API server is available and RBAC allows listing these objects",
        )
    })?;
    print(&match output {
        Output::Text => sentence(step, overridden, &preflight),
        Output::Json => as_json(step, overridden, &preflight).to_string(),
    })?;
    Ok(match verdict(overridden, &preflight) {
        "refused" => ExitCode::from(REFUSED),
        _ => ExitCode::SUCCESS,
    })
}

/// A list that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {what}")]
pub(crate) struct ListError {
    what: &'static str,
    #[source]
    source: kube::Error,
}

/// The planned change; without settings, an uninstallation.
async fn change(
    client: &Client,
    namespace: &str,
    step: Step,
    settings: Option<&Settings>,
) -> Result<DriverChange, ListError> {
    let Some(settings) = settings else {
        return Ok(DriverChange::Uninstall);
    };
    // Before an installation, nothing is installed.
    let installed = match step {
        Step::Install => None,
        _ => Some(installed_mode(client, namespace).await?),
    };
    Ok(DriverChange::Run {
        isolation: settings.isolation,
        mode: settings.mode,
        installed,
    })
}

/// Mode of the present installation: only in driver-managed mode, it has a `DaemonSet` of IMEX daemons.
async fn installed_mode(client: &Client, namespace: &str) -> Result<Mode, ListError> {
    Ok(
        if has_daemon_set(client, namespace, DRIVER_MANAGED_LABEL).await? {
            Mode::DriverManaged
        } else {
            Mode::HostManaged
        },
    )
}

async fn has_daemon_set(client: &Client, namespace: &str, label: &str) -> Result<bool, ListError> {
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let labelled = ListParams::default().labels(label).limit(1);
    let found = api.list_metadata(&labelled).await;
    let found = found.map_err(|source| ListError {
        what: "the DaemonSets of the installation",
        source,
    })?;
    Ok(!found.items.is_empty())
}

/// If the GPU plugin is installed, finds the pods that hold its devices.
// req: CHART-25
async fn check_gpus(client: &Client, namespace: &str) -> Result<Preflight, ListError> {
    let mut pods = BTreeSet::new();
    // Without the plugin, another driver may serve gpu.nvidia.com.
    if has_daemon_set(client, namespace, GPUS_LABEL).await? {
        let visit = |page: Vec<Listed>| {
            for Listed { metadata, status } in page {
                let mut drivers = listed(&status, "/allocation/devices/results", "driver");
                if drivers.any(|driver| driver == GPU_DRIVER) {
                    let names = listed(&status, "/reservedFor", "name");
                    pods.extend(names.map(|name| format!("{}/{name}", metadata.namespace)));
                }
            }
            true
        };
        let url_path = ResourceClaim::url_path(&(), None);
        for_each_page(client, &url_path, Part::Whole, ListParams::default(), visit)
            .await
            .map_err(|source| ListError {
                what: "the ResourceClaims",
                source,
            })?;
    }
    Ok(Preflight::of_pods_with_gpus(pods))
}

/// Reads the objects and decides. IMEX daemons of the Go driver in the namespaces `removed_in` are no obstacle,
/// because the controller removes them.
// req: MODE-36
async fn check(
    client: &Client,
    change: DriverChange,
    removed_in: &[String],
) -> Result<Preflight, ListError> {
    let mut managed = HashSet::new();
    let url_path = ResourceClaimTemplate::url_path(&(), None);
    let daemons = ListParams::default().labels(&format!("{TARGET_LABEL}={TARGET_DAEMON}"));
    let visit = |page: Vec<RawMetadata<ResourceClaimTemplate>>| {
        let stays = |meta: &&ObjectMeta| {
            let is_its = |namespace: &String| removed_in.contains(namespace);
            !meta.namespace.as_ref().is_some_and(is_its)
        };
        let staying = page.iter().map(RawMetadata::meta).filter(stays);
        let labels = staying.filter_map(|meta| meta.labels.as_ref());
        managed.extend(labels.filter_map(|labels| labels.get(DOMAIN_LABEL).cloned()));
        true
    };
    for_each_page(client, &url_path, Part::Metadata, daemons, visit)
        .await
        .map_err(|source| ListError {
            what: "the ResourceClaimTemplates of IMEX daemons",
            source,
        })?;

    let mut domains = Vec::new();
    let url_path = ComputeDomain::url_path(&(), None);
    let visit = |page: Vec<Listed>| {
        domains.extend(
            page.into_iter()
                .map(|Listed { metadata, status }| LiveDomain {
                    channel: status.get("channel").and_then(Value::as_u64),
                    mode: LiveDomain::mode_in(&status),
                    has_daemons: managed.contains(&metadata.uid),
                    namespace: metadata.namespace,
                    name: metadata.name,
                }),
        );
        true
    };
    let listed = for_each_page(client, &url_path, Part::Whole, ListParams::default(), visit).await;
    match listed {
        // Without the CRD there are none.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        listed => listed.map_err(|source| ListError {
            what: "the ComputeDomains",
            source,
        })?,
    }
    Ok(Preflight::of(change, &domains))
}

/// This field of each element of the list at `path`.
fn listed<'a>(
    status: &'a Value,
    path: &str,
    field: &'a str,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let list = status.pointer(path).and_then(Value::as_array);
    let elements = list.into_iter().flatten();
    elements.filter_map(move |element| element.get(field)?.as_str())
}

fn verdict(overridden: bool, preflight: &Preflight) -> &'static str {
    match (preflight.obstacle, overridden) {
        (None, _) => "allowed",
        (Some(_), true) => "overridden",
        (Some(_), false) => "refused",
    }
}

fn sentence(step: Step, overridden: bool, preflight: &Preflight) -> String {
    let verdict = verdict(overridden, preflight);
    format!("{} {verdict}: {preflight}", step.as_str())
}

fn as_json(step: Step, overridden: bool, preflight: &Preflight) -> Value {
    json!({
        "step": step.as_str(),
        "verdict": verdict(overridden, preflight),
        "obstacle": preflight.obstacle.as_ref().map(compute_domain_core::Obstacle::code),
        "sentence": sentence(step, overridden, preflight),
        "domains": preflight.domains,
        "pods": preflight.pods,
    })
}

impl Step {
    fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Uninstall => "uninstall",
        }
    }
}

#[cfg(test)]
mod tests;
