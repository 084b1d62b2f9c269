//! One block: every measurement of one program.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use kube::Client;
use tokio::runtime::Runtime;

use super::objects::{Claims, FEW, MANY};
use super::program::{GPUS, MANY_GPUS, Program};
use super::slices::Slices;
use crate::audit::{AuditLog, Requests};
use crate::plugin::report::Row;
use crate::plugin::{Call, Calls, Plugin};
use crate::proc;

/// The calls that kubelet makes for a pod.
const CALLS: [Call; 2] = [Call::Prepare, Call::Unprepare];

/// The time between two XIDs. Within it, a plugin has published the first one and waits for the second one.
const XID_EVERY: Duration = Duration::from_secs(2);

/// The time without requests after which a plugin has nothing left to do.
const QUIET: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// The limit for the time until then.
const GIVE_UP: Duration = Duration::from_secs(60);

pub(super) struct Bench<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) client: Client,
    pub(super) slices: Slices,
    pub(super) audit: AuditLog,
    /// The plugin's user in the audit log.
    pub(super) user: String,
    pub(super) claims: &'a Claims,
    pub(super) starts: usize,
    pub(super) rounds: usize,
    pub(super) idle: Duration,
    pub(super) pause: Duration,
}

/// All blocks of one program.
#[derive(Default)]
pub(super) struct Measured {
    /// From exec until the slices are published.
    pub(super) starts: Vec<Duration>,
    pub(super) restarts: usize,
    /// Writes to the API server after restarts with equal slices.
    pub(super) restart_writes: u64,
    pub(super) idle: Duration,
    pub(super) idle_requests: u64,
    /// With health checks, as long.
    pub(super) monitored_requests: u64,
    /// The CPU time of the plugin and its children meanwhile.
    pub(super) monitored_cpu: Duration,
    /// From an XID until its taint is published.
    pub(super) taints: Vec<Duration>,
    pub(super) pods: usize,
    /// To prepare and unprepare their claims.
    pub(super) pod_requests: u64,
    /// The time to prepare the claims of those pods, one after the other.
    pub(super) in_a_row: Duration,
    pub(super) rows: Vec<Row>,
    pub(super) filesystem: &'static str,
    /// The largest, in KiB.
    pub(super) registered_kib: u64,
    pub(super) prepared_kib: u64,
}

// === impl Bench ===

impl Bench<'_> {
    pub(super) fn block(
        &mut self,
        program: &Program,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        // The first one may have to prepare its host.
        self.start(program, GPUS)?.0.terminate()?;
        for _ in 0..self.starts {
            let (plugin, took) = self.start(program, GPUS)?;
            measured.starts.push(took);
            self.settle()?;
            plugin.terminate()?;
        }
        self.restart(program, measured)?;

        let (mut plugin, _) = self.start(program, MANY_GPUS)?;
        plugin.until_listens()?;
        self.settle()?;
        thread::sleep(self.idle);
        measured.idle += self.idle;
        measured.idle_requests += self.requests()?.requests_without_lease();
        let kib = plugin.memory()?.anonymous;
        measured.registered_kib = measured.registered_kib.max(kib);
        self.calls(&plugin, measured)?;
        plugin.terminate()?;
        self.monitored(program, measured)
    }

    /// With health checks and shares.
    fn monitored(&mut self, program: &Program, measured: &mut Measured) -> anyhow::Result<()> {
        let started = self.slices.start(GPUS, || program.start_monitored());
        let (mut plugin, _) = self.runtime.block_on(started)?;
        plugin.until_listens()?;
        self.settle()?;
        let cpu = proc::cpu_with_children(plugin.pid())?;
        thread::sleep(self.idle);
        let until = proc::cpu_with_children(plugin.pid())?;
        measured.monitored_cpu += until.saturating_sub(cpu);
        measured.monitored_requests += self.requests()?.requests_without_lease();

        let shares = &self.claims.shares;
        let calls = Calls::new(self.runtime, &self.client, shares, &plugin, self.pause)?;
        calls.hold(0..FEW)?;
        let row = calls.compare("Prepare of a share / of a GPU", FEW, self.rounds)?;
        measured.add_rows(vec![row]);
        calls.release(FEW)?;

        for gpu in 0..GPUS {
            thread::sleep(XID_EVERY);
            let device = format!("gpu-{gpu}");
            let tainted = self.slices.tainted(&device, || program.xid(gpu));
            measured.taints.push(self.runtime.block_on(tainted)?);
        }
        plugin.terminate()
    }

    /// Deletes the slices, starts the program and waits for its slices.
    fn start(&self, program: &Program, gpus: usize) -> anyhow::Result<(Plugin, Duration)> {
        let started = self.slices.start(gpus, || program.start(gpus));
        self.runtime.block_on(started)
    }

    /// Starts the program again with the slices that it has published.
    fn restart(&mut self, program: &Program, measured: &mut Measured) -> anyhow::Result<()> {
        self.requests()?;
        let before = self.runtime.block_on(self.slices.versions())?;
        let mut plugin = program.start(GPUS)?;
        plugin.until_listens()?;
        let writes = self.settle()?.writes();
        let after = self.runtime.block_on(self.slices.versions())?;
        ensure!(
            writes > 0 || before == after,
            "slices changed without a write in the audit log"
        );
        measured.restarts += 1;
        measured.restart_writes += writes;
        plugin.terminate()
    }

    fn calls(&mut self, plugin: &Plugin, measured: &mut Measured) -> anyhow::Result<()> {
        let claims = &self.claims.whole;
        let calls = Calls::new(self.runtime, &self.client, claims, plugin, self.pause)?;
        calls.hold(0..FEW)?;
        let mut rows = calls.rows(&CALLS, FEW, self.rounds)?;
        calls.release(FEW)?;
        self.settle()?;
        let began = Instant::now();
        calls.hold(0..MANY)?;
        measured.in_a_row += began.elapsed();
        let mut requests = self.settle()?;
        rows.extend(calls.rows(&CALLS, MANY, self.rounds)?);
        let kib = plugin.memory()?.anonymous;
        measured.prepared_kib = measured.prepared_kib.max(kib);
        self.settle()?;
        calls.release(MANY)?;
        requests.extend(&self.settle()?);
        measured.pods += MANY;
        measured.pod_requests += requests.requests_without_lease();
        measured.filesystem = calls.filesystem;
        measured.add_rows(rows);
        Ok(())
    }

    /// Waits until the plugin sends no requests; returns those since the last call.
    fn settle(&mut self) -> anyhow::Result<Requests> {
        let began = Instant::now();
        let mut last = Instant::now();
        let mut requests = Requests::default();
        while last.elapsed() < QUIET {
            let new = self.requests()?;
            if new.requests_without_lease() > 0 {
                last = Instant::now();
            }
            requests.extend(&new);
            if began.elapsed() > GIVE_UP {
                bail!("the plugin sends requests without end: {requests:?}");
            }
            thread::sleep(POLL);
        }
        Ok(requests)
    }

    fn requests(&mut self) -> anyhow::Result<Requests> {
        self.audit.read(&self.user)
    }
}

// === impl Measured ===

impl Measured {
    fn add_rows(&mut self, mut rows: Vec<Row>) {
        for row in &mut rows {
            // The limit is that of the ComputeDomain plugin.
            row.cpu = None;
        }
        for row in rows {
            let is_it =
                |it: &&mut Row| it.operation == row.operation && it.prepared == row.prepared;
            match self.rows.iter_mut().find(is_it) {
                Some(all) => all.rounds.extend(row.rounds),
                None => self.rows.push(row),
            }
        }
    }
}
