//! The subcommand `apply-crds`: applies the CRDs that the program contains, one after the other.
//!
//! ```text
//! read the CRD ── would objects lose versions or fields? ──> refused
//!      │  ^
//!      v  └── changed meanwhile (409)
//! server-side apply, forced, of the version that was read ──> wait until it is served
//! ```
//!
//! The process can be killed after any step: the apply is the only write, and a second run finds the same state or
//! the finished one.

#![expect(
    clippy::indexing_slicing,
    reason = "indexing a serde_json::Value yields null, and writes go only to our own object"
)]

mod fields;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args as ClapArgs;
use compute_domain_core::WRITER;
use daemon_runtime::{KubeArgs, Part, Readiness, StartError, for_each_page};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::fields::{Field, dropped};
use crate::crd_kind::CrdKind;
use crate::refused::{REFUSED, print};

/// How long to wait until an applied CRD is served.
const GIVE_UP: Duration = Duration::from_secs(60);

/// How often to check whether it is served.
const POLL: Duration = Duration::from_millis(500);

/// How often the CRD may change between the read and the apply.
const ATTEMPTS: usize = 5;

/// How many objects and fields a refusal names.
const NAMED: usize = 5;

#[derive(ClapArgs, Debug)]
pub(crate) struct ApplyCrdsArgs {
    /// Apply even if objects would lose fields.
    #[arg(long)]
    allow_older: bool,
    #[command(flatten)]
    kube: KubeArgs,
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The CRD is served.
    Applied,
    /// Nothing was changed, for this reason.
    Refused(String),
}

/// Why the CRD was not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CrdError {
    #[error("cannot {action} the CustomResourceDefinition {name}")]
    Request {
        name: &'static str,
        action: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot list the {objects}")]
    List {
        objects: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error(
        "the CustomResourceDefinition {name} was changed by other clients during each of {ATTEMPTS} attempts"
    )]
    Changing { name: &'static str },
    #[error("the CustomResourceDefinition {name} was applied, but is not served after {} s", GIVE_UP.as_secs())]
    NotServed { name: &'static str },
}

/// Exit code 0 if the CRDs are applied and served, 3 if one is refused.
pub(crate) async fn run(args: ApplyCrdsArgs) -> Result<ExitCode, StartError> {
    let ApplyCrdsArgs { allow_older, kube } = args;
    let condition = Readiness::default().add_condition("api-server", "not reached yet");
    let client = kube.client(&condition).await?;
    let outcome = apply(&client, allow_older)
        .await
        .map_err(|err| StartError::new(&err, "run apply-crds again; completed steps are kept"))?;
    match outcome {
        Outcome::Applied => {
            for kind in CrdKind::ALL {
                print(&format!("{} is applied and served", kind.name()))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Outcome::Refused(why) => {
            print(&format!("refused: {why}"))?;
            Ok(ExitCode::from(REFUSED))
        }
    }
}

/// Applies all CRDs, and stops at the first that would lose something.
pub(crate) async fn apply(client: &Client, allow_older: bool) -> Result<Outcome, CrdError> {
    for kind in CrdKind::ALL {
        let outcome = apply_one(client, kind, allow_older).await?;
        if outcome != Outcome::Applied {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Applied)
}

async fn apply_one(client: &Client, kind: CrdKind, allow_older: bool) -> Result<Outcome, CrdError> {
    let name = kind.name();
    // Dynamic, because content of other writers need not match the types of k8s-openapi.
    let resource = kube::core::ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    for _ in 0..ATTEMPTS {
        let found = api.get_opt(name).await.map_err(failed_to(name, "read"))?;
        if let Some(found) = &found
            && let Some(why) = refusal(client, kind, &found.data, allow_older).await?
        {
            return Ok(Outcome::Refused(why));
        }
        let mut wanted = json!(kind.crd());
        // If it changes before the apply, it is checked again.
        if let Some(version) = found.and_then(|found| found.metadata.resource_version) {
            wanted["metadata"]["resourceVersion"] = json!(version);
        }
        let forced = PatchParams::apply(WRITER).force();
        let applied = api.patch(name, &forced, &Patch::Apply(&wanted)).await;
        match applied {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            applied => {
                applied.map_err(failed_to(name, "apply"))?;
                return until_served(&api, name).await.map(|()| Outcome::Applied);
            }
        }
    }
    Err(CrdError::Changing { name })
}

/// Why the existing CRD must not be replaced.
// req: CD-4
async fn refusal(
    client: &Client,
    kind: CrdKind,
    found: &Value,
    allow_older: bool,
) -> Result<Option<String>, CrdError> {
    let ours = json!(kind.crd());
    let versions = |crd: &Value| -> Vec<Value> {
        crd["spec"]["versions"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let (own, others) = (versions(&ours), versions(found));
    let named = |name: &Value| own.iter().find(|version| version["name"] == *name);
    let stored = found["status"]["storedVersions"].as_array();
    let unknown = stored
        .into_iter()
        .flatten()
        .find(|name| named(name).is_none());
    if let Some(name) = unknown {
        let (objects, _) = kind.plural();
        return Ok(Some(format!(
            "{objects} are stored in version {name}, which the CustomResourceDefinition of this chart lacks: install a newer chart, or rewrite all {objects} in another version and remove {name} from status.storedVersions"
        )));
    }
    if allow_older {
        return Ok(None);
    }
    let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
    for version in &others {
        // A version in which no object is stored can be removed safely.
        let Some(own) = named(&version["name"]) else {
            continue;
        };
        let fields = dropped(&schema(version), &schema(own));
        if !fields.is_empty()
            && let Some(why) = losing(client, kind, &version["name"], &fields).await?
        {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// The refusal, if objects have one of these fields.
async fn losing(
    client: &Client,
    kind: CrdKind,
    version: &Value,
    fields: &[Field],
) -> Result<Option<String>, CrdError> {
    let (objects, plural) = kind.plural();
    let url_path = format!(
        "/apis/resource.nvidia.com/{}/{plural}",
        version.as_str().unwrap_or_default()
    );
    let mut domains = Vec::new();
    let mut lost = vec![false; fields.len()];
    let visit = |page: Vec<Value>| {
        for object in page {
            let has: Vec<_> = fields.iter().map(|field| field.is_in(&object)).collect();
            if has.contains(&true) {
                let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
                domains.push(format!("{}/{}", part("namespace"), part("name")));
            }
            for (lost, has) in lost.iter_mut().zip(has) {
                *lost |= has;
            }
        }
        true
    };
    let listed = for_each_page(client, &url_path, Part::Whole, ListParams::default(), visit).await;
    match listed {
        // Not served, so no objects are visible.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        listed => listed.map_err(|err| CrdError::List {
            objects,
            source: Box::new(err),
        })?,
    }
    if domains.is_empty() {
        return Ok(None);
    }
    let fields = fields.iter().zip(lost).filter(|(_, lost)| *lost);
    let fields: Vec<_> = fields.map(|(field, _)| field.to_string()).collect();
    Ok(Some(format!(
        "{} {objects} ({}) have fields that the CustomResourceDefinition of this chart lacks ({}): install a newer chart, or accept the loss of these fields (crds.allowOlder=true, --allow-older)",
        domains.len(),
        first(&domains),
        first(&fields),
    )))
}

fn first(names: &[String]) -> String {
    let more = if names.len() > NAMED { ", ..." } else { "" };
    let shown: Vec<_> = names.iter().take(NAMED).map(String::as_str).collect();
    shown.join(", ") + more
}

/// Waits until the CRD is established.
async fn until_served(api: &Api<DynamicObject>, name: &'static str) -> Result<(), CrdError> {
    let end = Instant::now() + GIVE_UP;
    loop {
        let crd = api.get(name).await.map_err(failed_to(name, "read"))?;
        let conditions = crd.data["status"]["conditions"].as_array();
        let served = |it: &Value| it["type"] == "Established" && it["status"] == "True";
        if conditions.into_iter().flatten().any(served) {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(CrdError::NotServed { name });
        }
        sleep(POLL).await;
    }
}

fn failed_to(name: &'static str, action: &'static str) -> impl Fn(kube::Error) -> CrdError {
    move |source| CrdError::Request {
        name,
        action,
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests;
