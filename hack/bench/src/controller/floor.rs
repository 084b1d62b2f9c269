//! The floor: for each domain that a watch reports, it sends the necessary requests without decisions.
//!
//! ```text
//! watch of the domains ─► queue ─► at most N at once ─┬─ new:     PATCH finalizer, POST template, PATCH status
//!                                                     └─ deleted: DELETE template, PATCH its finalizer, PATCH the domain's
//! ```

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::pin::pin;

use anyhow::Context;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{DynamicObject, Request};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::objects;

/// Runs with the API server in `KUBECONFIG` until the process is killed.
pub(crate) fn run(at_once: usize) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let floor = Floor {
            client: Client::try_default().await?,
            templates: RefCell::default(),
        };
        let (jobs, mut queue) = unbounded_channel();
        let watch = tokio::spawn(watch(floor.client.clone(), jobs));
        let work = stream::poll_fn(|context| queue.poll_recv(context))
            .map(Ok)
            .try_for_each_concurrent(at_once, |job| floor.work(job));
        tokio::select! {
            ended = watch => ended?,
            failed = work => failed,
        }
    })
}

struct Floor {
    client: Client,
    /// UIDs of the templates by UID of their domain.
    templates: RefCell<HashMap<String, String>>,
}

/// A domain that was created, or that is being deleted.
struct Job {
    namespace: String,
    name: String,
    uid: String,
    template: String,
    deleted: bool,
}

/// The part of a POST's response that is parsed.
#[derive(Deserialize)]
struct Created {
    metadata: Identity,
}

#[derive(Deserialize)]
struct Identity {
    uid: String,
}

/// Queues each domain when it is new, and when it is being deleted.
async fn watch(client: Client, jobs: UnboundedSender<Job>) -> anyhow::Result<()> {
    let domains: Api<DynamicObject> = Api::all_with(client, &objects::domains());
    let mut events = pin!(watcher(domains, watcher::Config::default()));
    let mut queued = HashSet::new();
    while let Some(event) = events.try_next().await? {
        match event {
            Event::Apply(domain) | Event::InitApply(domain) => {
                let job = Job::new(&domain)?;
                if queued.insert((job.uid.clone(), job.deleted)) {
                    jobs.send(job)?;
                }
            }
            Event::Delete(domain) => {
                let uid = domain.uid().unwrap_or_default();
                queued.remove(&(uid.clone(), true));
                queued.remove(&(uid, false));
            }
            Event::Init | Event::InitDone => {}
        }
    }
    anyhow::bail!("the watch ended")
}

// === impl Job ===

impl Job {
    fn new(domain: &DynamicObject) -> anyhow::Result<Self> {
        let template = domain
            .data
            .pointer("/spec/channel/resourceClaimTemplate/name")
            .and_then(Value::as_str);
        Ok(Self {
            namespace: domain.namespace().unwrap_or_default(),
            name: domain.name_any(),
            uid: domain.uid().unwrap_or_default(),
            template: template.context("a domain without a template")?.to_owned(),
            deleted: domain.metadata.deletion_timestamp.is_some(),
        })
    }

    fn domains(&self) -> Request {
        Request::new(format!(
            "/apis/resource.nvidia.com/v1beta1/namespaces/{}/computedomains",
            self.namespace
        ))
    }

    fn templates(&self) -> Request {
        Request::new(format!(
            "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
            self.namespace
        ))
    }
}

// === impl Floor ===

impl Floor {
    async fn work(&self, job: Job) -> anyhow::Result<()> {
        if job.deleted {
            self.delete(&job).await
        } else {
            self.create(&job).await
        }
        .with_context(|| format!("{}/{}", job.namespace, job.name))
    }

    // It parses only those parts of responses that later requests need.

    async fn create(&self, job: &Job) -> anyhow::Result<()> {
        let Job {
            namespace,
            name,
            uid,
            template,
            ..
        } = job;
        let domains = job.domains();
        let patch = json_patch(objects::add_finalizer(uid))?;
        let request = domains.patch(name, &PatchParams::default(), &patch)?;
        self.client.request_text(request).await?;

        let params = PostParams {
            field_manager: Some(objects::MANAGER.to_owned()),
            ..PostParams::default()
        };
        let body = objects::template(namespace, name, uid, template).to_string();
        let request = job.templates().create(&params, body.into_bytes())?;
        let created: Created = self.client.request(request).await?;
        let template = created.metadata.uid;
        self.templates.borrow_mut().insert(uid.clone(), template);

        let status = Patch::Apply(objects::ready_status(namespace, name, uid));
        let params = PatchParams::apply(objects::MANAGER).force();
        let request = domains.patch_subresource("status", name, &params, &status)?;
        self.client.request_text(request).await?;
        Ok(())
    }

    async fn delete(&self, job: &Job) -> anyhow::Result<()> {
        let uid = self.templates.borrow_mut().remove(&job.uid);
        let uid = uid.context("no template was created")?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let templates = job.templates();
        let request = templates.delete(&job.template, &params)?;
        self.client.request_text(request).await?;

        let params = PatchParams::default();
        let patch = json_patch(objects::remove_finalizer(&uid))?;
        let request = templates.patch(&job.template, &params, &patch)?;
        self.client.request_text(request).await?;

        let patch = json_patch(objects::remove_finalizer(&job.uid))?;
        let request = job.domains().patch(&job.name, &params, &patch)?;
        self.client.request_text(request).await?;
        Ok(())
    }
}

fn json_patch(patch: Value) -> anyhow::Result<Patch<()>> {
    Ok(Patch::Json(serde_json::from_value(patch)?))
}
