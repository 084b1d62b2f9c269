//! The health of the node's GPUs, from XIDs, recovery actions and readings. Pure: the time is a parameter.
//!
//! Every fault of a device is a taint in the slice and, if it keeps claims away, a message for kubelet.
//!
//! | what is known | fault | until |
//! |---|---|---|
//! | recovery action other than none | `xid`, `NoSchedule`, of all devices of the GPU | the action is none |
//! | the action is to recover the IMEX domain | `xid`, `None`, of all devices | the action is none |
//! | XID, and the driver needs no action, or the list has it | `xid`, `None`, of the devices that it concerns | 10 minutes have passed |
//! | XID, and the driver does not know recovery actions | `xid`, `NoSchedule`, of the devices that it concerns | the driver is loaded again, or the time of a setting has passed |
//! | XID, and the action cannot be read | the same, after a second | the action is read |
//! | events are not received | `unmonitored`, `None` | they are |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpu_api::names::{UNMONITORED_TAINT, XID_TAINT};
use gpu_inventory::Fact;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970. Unlike an instant, it is kept across a restart.
pub(crate) type Millis = u64;

/// XIDs that errors of applications cause, as in the Go driver.
const OF_APPLICATIONS: [u64; 6] = [13, 31, 43, 45, 68, 109];

/// The XID of a changed recovery action. It says nothing that the action does not say.
const ACTION_CHANGED: u64 = 154;

/// `NVML_GPU_RECOVERY_ACTION_NONE`.
const NO_ACTION: u32 = 0;

/// `NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN`: the GPU itself works.
const RECOVER_IMEX: u32 = 5;

/// How long an XID is published that needs no action.
const HARMLESS_FOR: Millis = 10 * 60 * 1000;

/// How long an XID waits for the recovery action until it is published.
const ACTION_WITHIN: Millis = 1000;

/// How long the driver may need after an XID until it requires an action.
const ACTION_FOLLOWS: Millis = 30 * 1000;

/// Maximum number of parts of a GPU with XIDs of their own. Today's GPUs have 7 instances.
const MAX_PLACES: usize = 64;

/// How old the time of a repeated XID becomes until it is renewed: a storm of XIDs changes nothing.
const RENEW_AFTER: Millis = 60 * 1000;

/// Settings of the administrator.
#[derive(Debug, Clone, Default)]
pub(crate) struct HealthSettings {
    /// XIDs that never keep claims away.
    pub(crate) ignored: BTreeSet<u64>,
    /// Without recovery actions: how long an XID keeps claims away. `None`: until the driver is loaded again.
    pub(crate) clear_after: Option<Duration>,
}

/// The part of a GPU that an XID concerns. Both `None`: all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) gpu_instance: Option<u32>,
    pub(crate) compute_instance: Option<u32>,
}

/// The health of the node's GPUs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health {
    settings: HealthSettings,
    /// What is kept across restarts, by UUID.
    gpus: BTreeMap<String, GpuHealth>,
    /// Why the events of GPUs are not received, by UUID.
    unmonitored: BTreeMap<String, String>,
}

/// What is kept of a GPU across restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct GpuHealth {
    /// The last recovery action. `None`: the driver does not know any, or none was read yet.
    action: Option<u32>,
    /// The XID that came with the recovery action.
    cause: Option<u64>,
    places: Vec<PlaceHealth>,
}

/// The XIDs of a part of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PlaceHealth {
    place: Place,
    /// Its recovery action is not known yet.
    pending: Option<Xid>,
    settled: Option<SettledXid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Xid {
    code: u64,
    at: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SettledXid {
    #[serde(flatten)]
    xid: Xid,
    class: XidClass,
}

/// What an XID means; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum XidClass {
    /// The settings say that it does not matter.
    Ignored,
    /// An application's error, or one after which the driver needs no recovery.
    Harmless,
    /// The driver knows no recovery actions, and the list of harmless XIDs lacks it.
    Fatal,
}

/// What a reading has of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuReading {
    pub(crate) uuid: String,
    /// The index in NVML. `None`: NVML does not enumerate it.
    pub(crate) index: Option<u32>,
    pub(crate) action: Fact<u32>,
    /// GPU instance and compute instance of each MIG device; `None` if they cannot be read.
    pub(crate) instances: Option<Vec<(u32, u32)>>,
}

/// What is wrong with a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The key of the taint.
    pub(crate) key: &'static str,
    /// The value of the taint.
    pub(crate) value: Option<String>,
    pub(crate) effect: Effect,
    /// For people, in one line.
    pub(crate) message: String,
}

/// The effect of a taint; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// It only informs.
    None,
    /// It keeps new claims away.
    NoSchedule,
}

/// The faults of all GPUs at some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HealthReport(BTreeMap<String, Vec<(Place, Fault)>>);

// === impl Effect ===

impl Effect {
    /// The effect's name in a taint.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::NoSchedule => "NoSchedule",
        }
    }
}

// === impl Place ===

impl Place {
    const GPU: Self = Self {
        gpu_instance: None,
        compute_instance: None,
    };

    /// Whether a device with this instance is part of it. A device without one is a whole GPU.
    fn concerns(self, instance: Option<(u32, u32)>) -> bool {
        let Some((gpu, compute)) = instance else {
            return true;
        };
        self.gpu_instance.is_none_or(|it| it == gpu)
            && self.compute_instance.is_none_or(|it| it == compute)
    }
}

// === impl HealthReport ===

impl HealthReport {
    /// The faults of a device: the worst for each key of a taint. `instance` is that of a MIG device.
    // req: GPU-46
    pub(crate) fn faults(&self, gpu: &str, instance: Option<(u32, u32)>) -> Vec<&Fault> {
        let mut worst: BTreeMap<&str, &Fault> = BTreeMap::new();
        for (place, fault) in self.0.get(gpu).into_iter().flatten() {
            if !place.concerns(instance) {
                continue;
            }
            let known = worst.entry(fault.key).or_insert(fault);
            if fault.effect > known.effect {
                *known = fault;
            }
        }
        worst.into_values().collect()
    }
}

// === impl Health ===

impl Health {
    /// What an earlier process has kept.
    pub(crate) fn new(settings: HealthSettings, gpus: BTreeMap<String, GpuHealth>) -> Self {
        Self {
            settings,
            gpus,
            unmonitored: BTreeMap::new(),
        }
    }

    pub(crate) fn settings(&self) -> &HealthSettings {
        &self.settings
    }

    /// What a later process needs.
    pub(crate) fn kept(&self) -> &BTreeMap<String, GpuHealth> {
        &self.gpus
    }

    /// The driver was loaded again, or the host was booted: nothing of before counts.
    pub(crate) fn forget(&mut self) {
        self.gpus.clear();
    }

    /// An XID event.
    // req: GPU-44
    pub(crate) fn xid(&mut self, gpu: &str, place: Place, code: u64, now: Millis) {
        if code == ACTION_CHANGED {
            return;
        }
        let is_ignored = self.settings.ignored.contains(&code);
        let gpu = self.gpus.entry(gpu.to_owned()).or_default();
        if gpu.needs_recovery() {
            let was_ignored = |it| self.settings.ignored.contains(&it);
            let replaces = gpu.cause.is_none_or(|it| was_ignored(it) && !is_ignored);
            if replaces {
                gpu.cause = Some(code);
            }
        }
        let class = match code {
            _ if is_ignored => Some(XidClass::Ignored),
            code if OF_APPLICATIONS.contains(&code) => Some(XidClass::Harmless),
            _ => None,
        };
        gpu.add(place, Xid { code, at: now }, class);
    }

    /// The recovery action of a GPU that answers, read at some time.
    // req: GPU-44, GPU-45
    pub(crate) fn action(&mut self, gpu: &str, action: &Fact<u32>, read_at: Millis) {
        let gpu = self.gpus.entry(gpu.to_owned()).or_default();
        match action {
            Fact::Known(NO_ACTION) => {
                let is_recovered = gpu.action.is_some_and(|it| it != NO_ACTION);
                gpu.no_action_needed(is_recovered, read_at);
            }
            Fact::Known(RECOVER_IMEX) => {
                let is_recovered = gpu.needs_recovery();
                let cause = gpu.cause.or_else(|| gpu.worst_xid());
                gpu.no_action_needed(is_recovered, read_at);
                gpu.action = Some(RECOVER_IMEX);
                gpu.cause = cause.filter(|_| !is_recovered);
            }
            Fact::Known(action) => {
                if !gpu.needs_recovery() {
                    gpu.cause = gpu.worst_xid();
                }
                gpu.action = Some(*action);
            }
            Fact::Absent => {
                gpu.action = None;
                gpu.cause = None;
                gpu.settle(read_at, XidClass::Fatal);
            }
            Fact::Failed(_) => {}
        }
    }

    /// A reading of the host's GPUs, begun at some time. `is_complete`: the UUID of each GPU is known.
    // req: GPU-44, GPU-46
    pub(crate) fn reading(&mut self, gpus: &[GpuReading], is_complete: bool, begun_at: Millis) {
        if is_complete {
            self.gpus
                .retain(|uuid, _| gpus.iter().any(|it| it.uuid == *uuid));
        }
        for gpu in gpus.iter().filter(|it| it.index.is_some()) {
            self.action(&gpu.uuid, &gpu.action, begun_at);
            if let (Some(known), Some(instances)) = (self.gpus.get_mut(&gpu.uuid), &gpu.instances) {
                // An instance that does not exist any more has taken its error along.
                known.places.retain(|it| {
                    it.place.gpu_instance.is_none()
                        || instances.iter().any(|id| it.place.concerns(Some(*id)))
                });
            }
        }
    }

    /// Drops what has expired.
    pub(crate) fn expire(&mut self, now: Millis) {
        for gpu in self.gpus.values_mut() {
            let mut places = std::mem::take(&mut gpu.places);
            for place in &mut places {
                let is_over =
                    |it: SettledXid| gpu.end(it, &self.settings).is_some_and(|it| it <= now);
                place.settled = place.settled.filter(|it| !is_over(*it));
            }
            gpu.places = places;
            gpu.drop_empty();
        }
        self.gpus.retain(|_, gpu| !gpu.is_healthy());
    }

    /// Why the events of GPUs are not received, by UUID.
    pub(crate) fn unmonitored(&mut self, gpus: BTreeMap<String, String>) {
        self.unmonitored = gpus;
    }

    /// Whether somebody may want to reset this GPU, so that nothing may hold it.
    // req: GPU-47
    pub(crate) fn wants_reset(&self, gpu: &str) -> bool {
        self.gpus.get(gpu).is_some_and(|gpu| {
            let is_fatal = |it: &PlaceHealth| {
                it.place == Place::GPU && it.settled.is_some_and(|it| it.class == XidClass::Fatal)
            };
            gpu.needs_recovery() || gpu.places.iter().any(is_fatal)
        })
    }

    /// Whether a GPU should be read again soon: it may have recovered, or its recovery action is not known or may
    /// follow an XID.
    pub(crate) fn may_change(&self, now: Millis) -> bool {
        let is_new = |it: &SettledXid| {
            it.class == XidClass::Harmless
                && !OF_APPLICATIONS.contains(&it.xid.code)
                && now.saturating_sub(it.xid.at) < ACTION_FOLLOWS
        };
        self.gpus.values().any(|gpu| {
            let is_open =
                |it: &PlaceHealth| it.pending.is_some() || it.settled.as_ref().is_some_and(is_new);
            gpu.action.is_some_and(|it| it != NO_ACTION) || gpu.places.iter().any(is_open)
        })
    }

    /// When the report changes next, if nothing happens before.
    pub(crate) fn next_change(&self, now: Millis) -> Option<Millis> {
        let places = self.gpus.values().flat_map(|gpu| {
            let places = gpu.places.iter();
            places.map(move |place| (gpu, place))
        });
        let times = places.flat_map(|(gpu, place)| {
            let pending = place.pending.map(|it| it.at.saturating_add(ACTION_WITHIN));
            let settled = place.settled.and_then(|it| gpu.end(it, &self.settings));
            pending.into_iter().chain(settled)
        });
        times.filter(|it| *it > now).min()
    }

    /// The faults now.
    pub(crate) fn report(&self, now: Millis) -> HealthReport {
        let mut report: BTreeMap<String, Vec<(Place, Fault)>> = BTreeMap::new();
        for (uuid, gpu) in &self.gpus {
            let faults = gpu.faults(&self.settings, now);
            if !faults.is_empty() {
                report.insert(uuid.clone(), faults);
            }
        }
        for (uuid, reason) in &self.unmonitored {
            let fault = Fault {
                key: UNMONITORED_TAINT,
                value: None,
                effect: Effect::None,
                message: format!("its events are not received: {reason}"),
            };
            let faults = report.entry(uuid.clone()).or_default();
            faults.push((Place::GPU, fault));
        }
        HealthReport(report)
    }
}

// === impl GpuHealth ===

impl GpuHealth {
    /// Whether the GPU itself cannot be used.
    fn needs_recovery(&self) -> bool {
        let works = [NO_ACTION, RECOVER_IMEX];
        self.action.is_some_and(|action| !works.contains(&action))
    }

    fn add(&mut self, place: Place, xid: Xid, class: Option<XidClass>) {
        if let Some(known) = self.places.iter_mut().find(|it| it.place == place) {
            return known.add(xid, class);
        }
        if self.places.len() >= MAX_PLACES && place != Place::GPU {
            return self.add(Place::GPU, xid, class);
        }
        let mut new = PlaceHealth {
            place,
            ..PlaceHealth::default()
        };
        new.add(xid, class);
        self.places.push(new);
    }

    /// When a settled XID is not published any more.
    fn end(&self, settled: SettledXid, settings: &HealthSettings) -> Option<Millis> {
        let after = if settled.class < XidClass::Fatal {
            HARMLESS_FOR
        } else {
            let after = settings.clear_after.filter(|_| self.action.is_none())?;
            Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX)
        };
        Some(settled.xid.at.saturating_add(after))
    }

    /// Whether nothing about it has to be kept.
    fn is_healthy(&self) -> bool {
        self.action.is_none_or(|it| it == NO_ACTION) && self.places.is_empty()
    }

    /// The driver needs no action for what happened before it was asked.
    fn no_action_needed(&mut self, is_recovered: bool, read_at: Millis) {
        if is_recovered {
            for place in &mut self.places {
                place.pending = place.pending.filter(|it| it.at > read_at);
                place.settled = place.settled.filter(|it| it.xid.at > read_at);
            }
        }
        self.settle(read_at, XidClass::Harmless);
        self.action = Some(NO_ACTION);
        self.cause = None;
        self.drop_empty();
    }

    /// Decides about the XIDs before the driver was asked.
    fn settle(&mut self, read_at: Millis, class: XidClass) {
        for place in &mut self.places {
            if let Some(settled) = &mut place.settled {
                // An earlier answer, of a driver without recovery actions, counts no more.
                settled.class = match class {
                    XidClass::Fatal => settled.class,
                    class => settled.class.min(class),
                };
            }
            if let Some(xid) = place.pending.filter(|it| it.at <= read_at) {
                place.pending = None;
                let at = read_at;
                place.settle(Xid { at, ..xid }, class);
            }
        }
    }

    /// The XID to blame for a recovery action: the worst before it.
    fn worst_xid(&self) -> Option<u64> {
        let pending = self.places.iter().filter_map(|it| it.pending);
        let settled = self.places.iter().filter_map(|it| it.settled);
        let worst = settled.max_by_key(|it| it.class).map(|it| it.xid);
        pending.chain(worst).map(|it| it.code).next()
    }

    fn drop_empty(&mut self) {
        self.places
            .retain(|it| it.pending.is_some() || it.settled.is_some());
    }

    fn faults(&self, settings: &HealthSettings, now: Millis) -> Vec<(Place, Fault)> {
        let mut faults = Vec::new();
        if let Some(action) = self.action.filter(|it| *it != NO_ACTION) {
            let code = self.cause.unwrap_or(0);
            let is_ignored = settings.ignored.contains(&code);
            let effect = if self.needs_recovery() && !is_ignored {
                Effect::NoSchedule
            } else {
                Effect::None
            };
            let action = describe_action(action);
            let message = match self.cause {
                Some(code) => format!("XID {code}; recovery action: {action}"),
                None => format!("recovery action: {action}"),
            };
            faults.push((Place::GPU, xid_fault(code, effect, message)));
        }
        for place in &self.places {
            faults.extend(place.fault(now).map(|fault| (place.place, fault)));
        }
        faults
    }
}

// === impl PlaceHealth ===

impl PlaceHealth {
    /// `class`: `None` if only the recovery action says it.
    fn add(&mut self, xid: Xid, class: Option<XidClass>) {
        match class {
            Some(class) => self.settle(xid, class),
            None => self.pending = Some(self.pending.unwrap_or(xid)),
        }
    }

    /// The worst one stays, and of those the first one.
    fn settle(&mut self, xid: Xid, class: XidClass) {
        let known = self.settled.get_or_insert(SettledXid { xid, class });
        if class > known.class {
            *known = SettledXid { xid, class };
        } else if class == known.class && xid.at >= known.xid.at.saturating_add(RENEW_AFTER) {
            known.xid.at = xid.at;
        }
    }

    fn fault(&self, now: Millis) -> Option<Fault> {
        let is_overdue = |it: &Xid| now.saturating_sub(it.at) >= ACTION_WITHIN;
        let settled = self.settled;
        if let Some(SettledXid {
            xid,
            class: XidClass::Fatal,
        }) = settled
        {
            let message = format!("XID {}; the driver reports no recovery actions", xid.code);
            return Some(xid_fault(xid.code, Effect::NoSchedule, message));
        }
        if let Some(xid) = self.pending.filter(is_overdue) {
            let message = format!("XID {}; its recovery action is not known", xid.code);
            return Some(xid_fault(xid.code, Effect::NoSchedule, message));
        }
        settled.map(|it| {
            let code = it.xid.code;
            let message = format!("XID {code}, which needs no recovery");
            xid_fault(code, Effect::None, message)
        })
    }
}

fn xid_fault(code: u64, effect: Effect, message: String) -> Fault {
    Fault {
        key: XID_TAINT,
        value: Some(code.to_string()),
        effect,
        message,
    }
}

fn describe_action(action: u32) -> String {
    match gpu_inventory::recovery_action(action) {
        Some(name) => name.to_owned(),
        None => format!("number {action}"),
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
