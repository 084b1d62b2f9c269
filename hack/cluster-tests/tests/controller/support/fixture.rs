//! The fixture of a test: its namespaces, its controllers, its clean-up.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use cluster_tests::{at_most, create_namespace, module_and_title, run_scenario};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams};

use super::{Controller, OUR_CRD, apply_crd};

/// The time limit of a test. The longest part is the minute that some outages may last.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The limit for the deletion of a test's leftovers.
const LEFTOVERS_LIMIT: Duration = Duration::from_secs(30);

/// The namespaces and controllers of a test. Dropping it kills the controllers.
pub(crate) struct Fixture {
    pub(crate) client: kube::Client,
    /// Its first namespace.
    pub(crate) namespace: String,
    namespaces: Mutex<Vec<String>>,
    controllers: Mutex<Vec<Controller>>,
}

/// Runs a test with our CRD installed and a namespace. The test returns a remark for the table.
pub(crate) fn run<F>(body: F) -> Result<()>
where
    F: AsyncFnOnce(&Fixture) -> Result<String>,
{
    run_for(TIMEOUT, body)
}

/// As [`run`], with another time limit.
pub(crate) fn run_for<F>(limit: Duration, body: F) -> Result<()>
where
    F: AsyncFnOnce(&Fixture) -> Result<String>,
{
    let (module, title) = module_and_title(&body);
    run_scenario(&module, &title, async {
        let on = Fixture::new(&title).await?;
        let whole = async {
            let remark = body(&on).await?;
            on.finish().await?;
            Ok(remark)
        };
        let outcome = at_most(limit, Box::pin(whole)).await;
        if outcome.is_err() {
            on.print_state().await;
            on.clear_by_force().await;
        }
        outcome
    })
}

impl Fixture {
    async fn new(title: &str) -> Result<Self> {
        let client = kube::Client::try_default()
            .await
            .context("no cluster; run this with hack/e2e.sh controller")?;
        apply_crd(&client, OUR_CRD).await?;
        let mut fixture = Self {
            client,
            namespace: String::new(),
            namespaces: Mutex::default(),
            controllers: Mutex::default(),
        };
        // Namespaces are named after the test, to identify one that is left behind.
        let mut name: String = title.replace(' ', "-").chars().take(45).collect();
        name.truncate(name.trim_end_matches('-').len());
        fixture.namespace = fixture.new_namespace(&name).await?;
        Ok(fixture)
    }

    /// A further namespace of the test, whose name begins with `prefix`.
    pub(crate) async fn new_namespace(&self, prefix: &str) -> Result<String> {
        let name = create_namespace(self.client.clone(), "controller", prefix).await?;
        lock(&self.namespaces).push(name.clone());
        Ok(name)
    }

    /// Every namespace of the test.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        lock(&self.namespaces).clone()
    }

    fn namespaces_api(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    pub(super) fn keep(&self, controller: &Controller) {
        lock(&self.controllers).push(controller.clone());
    }

    pub(crate) async fn delete_namespace(&self, name: &str) -> Result<()> {
        self.namespaces_api()
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Fails as long as the namespace exists.
    pub(crate) async fn namespace_gone(&self, name: &str) -> Result<()> {
        let namespace = self.namespaces_api().get_opt(name).await?;
        match namespace {
            None => Ok(()),
            Some(it) => bail!("{name} still exists: {:?}", it.status),
        }
    }

    /// Deletes the test's domains and waits until no objects of the controller are left in its namespaces.
    /// Needs a working controller.
    async fn finish(&self) -> Result<()> {
        for namespace in self.namespaces() {
            self.domains(&namespace)
                .delete_collection(&DeleteParams::default(), &ListParams::default())
                .await
                .map(drop)?;
        }
        self.nothing_is_left_within(LEFTOVERS_LIMIT).await?;
        for controller in self.controllers() {
            let panics = controller.lines_with("panicked");
            ensure!(panics.is_empty(), "a controller panicked: {panics:?}");
        }
        for namespace in self.namespaces() {
            // The test may have deleted some itself.
            drop(self.delete_namespace(&namespace).await);
        }
        Ok(())
    }

    /// Prints the objects left in the test's namespaces, their events, and the controllers' logs.
    async fn print_state(&self) {
        for object in self.leftovers().await.unwrap_or_default() {
            eprintln!("left: {object}");
        }
        for namespace in self.namespaces() {
            for event in self.all_events(&namespace).await.unwrap_or_default() {
                eprintln!("event in {namespace}: {event}");
            }
        }
        for controller in self.controllers() {
            controller.print_log();
        }
    }

    fn controllers(&self) -> Vec<Controller> {
        lock(&self.controllers).clone()
    }

    /// Cleans up after a failure, so that this test does not affect the next one.
    async fn clear_by_force(&self) {
        for controller in self.controllers() {
            controller.kill();
        }
        for namespace in self.namespaces() {
            self.strip_all(&namespace).await;
            drop(self.delete_namespace(&namespace).await);
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
