//! The subcommand `apply-crds`: makes the CRDs that the program contains the API server's, one after the other.
//!
//! ```text
//! read the CRD ── versions, fields and objects that ours would lose? ──> refused
//!      │  ^
//!      v  └── changed meanwhile (409)
//! server-side apply, forced, of the version that was read ──> wait until it is served
//! ```
//!
//! Each step may be the last of its process: nothing was changed before the apply, which is one write,
//! and a second run finds the same state or a finished one.

#![expect(
    clippy::indexing_slicing,
    reason = "a serde_json::Value answers null, and is written into as an object of ours"
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

/// How long the API server may take to serve an applied CRD.
const GIVE_UP: Duration = Duration::from_secs(60);

/// How often it is asked whether it does.
const POLL: Duration = Duration::from_millis(500);

/// How often the CRD may change between its reading and the apply.
const ATTEMPTS: usize = 5;

/// How many objects and fields a refusal names.
const NAMED: usize = 5;

#[derive(ClapArgs, Debug)]
pub(crate) struct ApplyCrdsArgs {
    /// Also if objects have fields that are lost then.
    #[arg(long)]
    allow_older: bool,
    #[command(flatten)]
    kube: KubeArgs,
}

/// What became of the CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is served.
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
        "the CustomResourceDefinition {name} was changed by others {ATTEMPTS} times in between"
    )]
    Changing { name: &'static str },
    #[error("the CustomResourceDefinition {name} is applied, and not served after {} s", GIVE_UP.as_secs())]
    NotServed { name: &'static str },
}

/// Exit code 0 if the CRD is applied and served, 3 if that is refused.
pub(crate) async fn run(args: ApplyCrdsArgs) -> Result<ExitCode, StartError> {
    let ApplyCrdsArgs { allow_older, kube } = args;
    let condition = Readiness::default().add_condition("api-server", "not reached yet");
    let client = kube.client(&condition).await?;
    let outcome = apply(&client, allow_older)
        .await
        .map_err(|err| StartError::new(&err, "run it again: what it did so far stays valid"))?;
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

/// Applies all CRDs, up to the first of whose objects one would lose something.
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
    // Of any content: what others have written need not be what k8s-openapi knows.
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
        // One that has changed since is looked at again.
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

/// Why the CRD that is there must not be replaced.
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
            "{objects} are stored in the version {name}, which this CustomResourceDefinition lacks: install a newer chart, or write all of them in another version and take {name} from status.storedVersions"
        )));
    }
    if allow_older {
        return Ok(None);
    }
    let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
    for version in &others {
        // What no object is stored in is lost without loss.
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

/// Which objects have one of these fields, as a refusal.
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
        // Not served, and so there are none to be seen.
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
        "the CustomResourceDefinition on the API server is a newer one, and {} {objects} ({}) have fields that this one lacks ({}): install a newer chart, or lose these fields knowingly (crds.allowOlder=true, --allow-older)",
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

/// Waits until objects can be read.
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
