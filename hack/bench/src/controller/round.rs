//! A round: one program from start to end, while the user creates and deletes all domains.
//!
//! ```text
//! start ─ settle ─ create ─ settle ─┬────────────────────────────────────┬─ delete ─ settle ─ SIGTERM
//!                                   └ idle ─ SIGTERM ─ start ─ settle ───┘
//!                                     (the subject, once for each size)
//! ```

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::measured::{Change, Phase, Rest, Round};
use super::program::{Program, Which};
use super::settled::{HTTP_ENDPOINT, settle};
use super::user::User;
use crate::accounts::{Account, HOME};
use crate::audit::{AuditLog, Requests};

/// The time during which requests of an idle program are counted.
pub(super) const IDLE: Duration = Duration::from_secs(30);
/// The limit for the time of a change.
const GIVE_UP: Duration = Duration::from_secs(900);

/// State shared by all rounds.
pub(super) struct Bench {
    pub(super) user: User,
    pub(super) audit: AuditLog,
    pub(super) subject: Account,
    pub(super) floor: Account,
    /// The controller's program.
    pub(super) controller: PathBuf,
    pub(super) at_once: usize,
    pub(super) scratch: TempDir,
}

// === impl Bench ===

impl Bench {
    pub(super) async fn round(
        &mut self,
        which: Which,
        size: usize,
        rest: bool,
    ) -> anyhow::Result<Round> {
        let mut program = self.start(which, &mut Requests::default()).await?;
        let started_kib = program.anonymous_kib()?;
        let create = self.phase(&mut program, Change::Create, size).await?;
        let mut measured = None;
        if rest {
            let (next, rest) = self.rest(program).await?;
            (program, measured) = (next, Some(rest));
        }
        let delete = self.phase(&mut program, Change::Delete, size).await?;
        program.terminate().await?;
        Ok(Round {
            create,
            delete,
            started_kib,
            rest: measured,
        })
    }

    /// Starts the program and waits until it has settled.
    async fn start(&mut self, which: Which, requests: &mut Requests) -> anyhow::Result<Program> {
        Ok(self.start_timed(which, requests).await?.0)
    }

    /// Like [`Bench::start`]; also returns the time that it took.
    async fn start_timed(
        &mut self,
        which: Which,
        requests: &mut Requests,
    ) -> anyhow::Result<(Program, Duration)> {
        let (command, account) = match which {
            Which::Subject => (subject(&self.controller), &self.subject),
            Which::Floor => (floor(self.at_once)?, &self.floor),
        };
        // Drops the requests of this user's previous process.
        self.audit.read(&account.user)?;
        let mut program = Program::start(which, command, account, self.scratch.path())?;
        let since = settle(&mut program, &mut self.audit, requests).await?;
        let took = since - program.started;
        Ok((program, took))
    }

    async fn phase(
        &mut self,
        program: &mut Program,
        change: Change,
        size: usize,
    ) -> anyhow::Result<Phase> {
        let before = program.cpu()?;
        program.peak_kib()?;
        let began = Instant::now();
        tokio::select! {
            changed = timeout(GIVE_UP, self.user.change(change, size)) => match changed {
                Ok(changed) => changed?,
                Err(_) => bail!("after {GIVE_UP:?}: {}\n{}", self.user.progress(), program.last_lines()),
            },
            ended = ends(program) => ended?,
        }
        let wall = began.elapsed();
        let mut requests = Requests::default();
        settle(program, &mut self.audit, &mut requests).await?;
        let templates = self.user.templates().await?;
        let expected = if change == Change::Create { size } else { 0 };
        ensure!(
            templates == expected,
            "{templates} templates exist, not {expected}"
        );
        Ok(Phase {
            wall,
            cpu: program.cpu()?.saturating_sub(before),
            requests,
            peak_kib: program.peak_kib()?,
            settled_kib: program.anonymous_kib()?,
        })
    }

    /// Lets the program idle, then replaces it by a new process.
    async fn rest(&mut self, program: Program) -> anyhow::Result<(Program, Rest)> {
        self.audit.read(&program.user)?;
        sleep(IDLE).await;
        let idle = self.audit.read(&program.user)?;
        let which = program.which;
        let ended_in = program.terminate().await?;
        let mut requests = Requests::default();
        let (program, settled_in) = self.start_timed(which, &mut requests).await?;
        let rest = Rest {
            idle,
            ended_in,
            settled_in,
            requests,
            peak_kib: program.peak_kib()?,
            settled_kib: program.anonymous_kib()?,
        };
        Ok((program, rest))
    }
}

/// Returns an error when the program has ended: it must keep running.
async fn ends(program: &mut Program) -> anyhow::Result<()> {
    loop {
        program.check_alive()?;
        sleep(Duration::from_millis(100)).await;
    }
}

/// The controller with the chart's settings. They are environment variables, because other versions
/// reject unknown options.
fn subject(program: &PathBuf) -> Command {
    let mut command = Command::new(program);
    command.envs([
        ("POD_NAME", "bench"),
        ("NAMESPACE", HOME),
        ("FEATURE_GATES", "HostManagedIMEX=true"),
        ("HTTP_ENDPOINT", HTTP_ENDPOINT),
        ("LEADER_ELECTION_ENABLED", "true"),
        ("LEADER_ELECTION_LEASE_LOCK_NAME", "bench"),
        ("LEADER_ELECTION_LEASE_LOCK_NAMESPACE", HOME),
    ]);
    command
}

/// This program as the floor (`floor.rs`).
fn floor(at_once: usize) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("cannot find this program's path")?;
    let mut command = Command::new(own);
    command.args(["controller-floor", "--at-once", &at_once.to_string()]);
    Ok(command)
}
