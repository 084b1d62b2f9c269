//! Runs the controller, the API server and the users step by step.

use compute_domain_core::{Key, StatusSchema};
use fastrand::Rng;
use k8s_openapi::jiff::SignedDuration;

use crate::checks::check;
use crate::controller::{Controller, Fault, Pass, Stage};
use crate::server::{Call, Failure, Server};
use crate::user::User;

/// The most steps until nothing happens any more. A run needs a few hundred.
const MOST_STEPS: usize = 20_000;

/// The most rounds of retries until nothing changes.
const MOST_ROUNDS: usize = 12;

/// The CRD of the Go driver.
pub(crate) const OLD: StatusSchema = StatusSchema {
    conditions: false,
    observed_generation: false,
    channel: false,
};

pub(crate) struct Simulation {
    pub(crate) server: Server,
    pub(crate) controller: Controller,
    pub(crate) user: User,
    random: Rng,
    /// Requests of killed controllers that are still on their way.
    late: Vec<(Key, Call)>,
    channel_count: Option<u32>,
}

/// A possible next step.
#[derive(Clone, Debug)]
enum Step {
    ListDomains,
    ListTemplates,
    ListClaims,
    ListLeases,
    TellDomain,
    TellTemplate,
    TellClaim,
    TellLease,
    StartPass(Key),
    /// By number.
    AdvancePass(usize),
    ArriveLate(usize),
}

impl Simulation {
    pub(crate) fn new(
        seed: u64,
        schema: StatusSchema,
        fault: Fault,
        channel_count: Option<u32>,
    ) -> Self {
        Self {
            server: Server::new(schema),
            controller: Controller::new(fault, channel_count),
            channel_count,
            user: User::default(),
            random: Rng::with_seed(seed),
            late: Vec::new(),
        }
    }

    fn enabled(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let domains = &self.server.domains;
        let templates = &self.server.templates;
        let (claims, leases) = (&self.server.claims, &self.server.leases);
        // The index assumes that no response takes longer than a whole list.
        let answered = |pass: &Pass| matches!(pass.stage, Stage::Answered(..));
        if !self.controller.passes.iter().any(answered) {
            steps.extend((!domains.is_watched()).then_some(Step::ListDomains));
            steps.extend((!templates.is_watched()).then_some(Step::ListTemplates));
            if self.channel_count.is_some() {
                steps.extend((!claims.is_watched()).then_some(Step::ListClaims));
                steps.extend((!leases.is_watched()).then_some(Step::ListLeases));
            }
        }
        steps.extend(domains.has_news().then_some(Step::TellDomain));
        steps.extend(templates.has_news().then_some(Step::TellTemplate));
        steps.extend(claims.has_news().then_some(Step::TellClaim));
        steps.extend(leases.has_news().then_some(Step::TellLease));
        steps.extend(
            self.controller
                .ready_keys()
                .into_iter()
                .map(Step::StartPass),
        );
        steps.extend((0..self.controller.passes.len()).map(Step::AdvancePass));
        steps.extend((0..self.late.len()).map(Step::ArriveLate));
        steps
    }

    /// Does a random possible step. Returns whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        let enabled = self.enabled();
        let Some(step) = self.random.choice(enabled) else {
            return false;
        };
        match step {
            Step::ListDomains => self.server.domains.list(&mut self.random),
            Step::ListTemplates => self.server.templates.list(&mut self.random),
            Step::ListClaims => self.server.claims.list(&mut self.random),
            Step::ListLeases => self.server.leases.list(&mut self.random),
            Step::TellDomain => {
                let told = self.server.domains.next_event().unwrap();
                self.controller.take_domain(told);
            }
            Step::TellTemplate => {
                let told = self.server.templates.next_event().unwrap();
                self.controller.take_template(told);
            }
            Step::TellClaim => {
                let told = self.server.claims.next_event().unwrap();
                self.controller.take_claim(told);
            }
            Step::TellLease => {
                let told = self.server.leases.next_event().unwrap();
                self.controller.take_lease(told);
            }
            Step::StartPass(key) => self.controller.start_pass(key),
            Step::AdvancePass(number) => self.advance_pass(number),
            Step::ArriveLate(number) => {
                let (key, call) = self.late.swap_remove(number);
                self.server.handle(&key, &call).ok();
            }
        }
        self.server.finish_namespaces();
        self.server.note_channels();
        self.controller.take_woken();
        true
    }

    /// Time passes: everything that waits for it is retried.
    fn pass_time(&mut self, seconds: i64) {
        // The current uses lasted until now.
        self.server.note_channels();
        self.server.now += SignedDuration::from_secs(seconds);
        self.controller.now = self.server.now;
        self.controller.fire_timers();
    }

    /// Delivers the request on its way, or lets the controller do its next step.
    fn advance_pass(&mut self, number: usize) {
        let mut pass = self.controller.passes.swap_remove(number);
        match std::mem::replace(&mut pass.stage, Stage::Deciding) {
            Stage::Deciding => self.controller.decide(pass),
            Stage::Sent(request, call) => {
                let reply = self.server.handle(&pass.key, &call);
                pass.stage = Stage::Answered(request, call, reply);
                self.controller.passes.push(pass);
            }
            Stage::Answered(request, call, reply) => {
                self.controller.go_on(pass, request, &call, reply);
            }
        }
    }

    // === disorder ===

    /// Users act and things break, now and then.
    pub(crate) fn disturb(&mut self) {
        match self.random.u8(..64) {
            0..12 => self.user.act(&mut self.server, &mut self.random),
            12 => self.kill(),
            13 => self.server.domains.break_watch(),
            14 => self.server.templates.break_watch(),
            15..17 => self.disconnect(),
            17..19 => {
                let seconds = self.random.i64(0..700);
                self.pass_time(seconds);
            }
            19 => self.server.claims.break_watch(),
            20 => self.server.leases.break_watch(),
            _ => {}
        }
    }

    /// Kills the controller and starts another one. Requests on their way still arrive.
    pub(crate) fn kill(&mut self) {
        let mut successor = Controller::new(self.controller.fault, self.channel_count);
        successor.now = self.server.now;
        let killed = std::mem::replace(&mut self.controller, successor);
        for pass in killed.passes {
            if let Stage::Sent(_, call) = pass.stage {
                self.late.push((pass.key, call));
            }
        }
        self.server.forget_deleted_leases();
        self.server.domains.break_watch();
        self.server.templates.break_watch();
        self.server.claims.break_watch();
        self.server.leases.break_watch();
    }

    /// A request is lost, or its response.
    fn disconnect(&mut self) {
        let Some(pass) = self.random.choice(&mut self.controller.passes) else {
            return;
        };
        match std::mem::replace(&mut pass.stage, Stage::Deciding) {
            Stage::Sent(request, call) | Stage::Answered(request, call, _) => {
                pass.stage = Stage::Answered(request, call, Err(Failure::Disconnected));
            }
            Stage::Deciding => {}
        }
    }

    // === order ===

    /// Does all possible steps and lets time pass, until nothing changes.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.drain()?;
        for _ in 0..MOST_ROUNDS {
            let before = self.fingerprint();
            self.pass_time(601);
            self.drain()?;
            if self.fingerprint() == before {
                return Ok(());
            }
        }
        Err("it does not converge".into())
    }

    fn drain(&mut self) -> Result<(), String> {
        let ends = (0..MOST_STEPS).any(|_| !self.step());
        ends.then_some(()).ok_or_else(|| "it never ends".into())
    }

    /// Every object, with its version.
    fn fingerprint(&self) -> Vec<(Option<String>, Option<String>)> {
        let domains = self.server.domains.values().map(|it| &it.metadata);
        let templates = self.server.templates.values().map(|it| &it.metadata);
        let leases = self.server.leases.values().map(|it| &it.metadata);
        let all = domains.chain(templates).chain(leases);
        all.map(|it| (it.uid.clone(), it.resource_version.clone()))
            .collect()
    }

    pub(crate) fn settle_and_check(&mut self) -> Result<(), String> {
        self.settle()?;
        check(&self.server, self.channel_count)
    }
}
