//! The matrix of steps and faults: what its rows, columns and cells are. [`Step::row`] has the
//! cells.

use crate::api::{Behaviour, RecordedRequests};

/// The steps, in their order; the names of Prepare's and Unprepare's are those of the design of
/// the host-managed mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    ReadClaim,
    DecodeConfig,
    OneResult,
    AllocationMode,
    ConfigState,
    ConflictAndStarted,
    DomainLookup,
    Clique,
    CdiSpec,
    CompletedRecord,
    UnprepareReadRecord,
    UnprepareRemoveSpec,
    UnprepareRemoveRecord,
    StartOpen,
    StartBootId,
    StartAlign,
    Reconcile,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Error,
    Delay,
    Kill,
    NoSpace,
    Conflict,
    TooManyRequests,
    ServerError,
    TimeOut,
}

/// In the order of [`Column::ALL`].
pub(crate) type Row = [Cell; 8];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    Fault(Fault),
    /// Why it cannot occur.
    Never(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Of the plugin's system calls.
    Calls {
        names: &'static str,
        on: On,
        how: &'static str,
    },
    /// Of the API server.
    Api(RecordedRequests, Behaviour),
    /// The plugin is killed while the API server holds the answer back.
    KilledAsking(RecordedRequests),
    /// Of NVML, from the plugin's start on.
    Driver(&'static str),
    /// The same, and the plugin is killed while Prepare waits.
    KilledWaitingFor(&'static str),
    /// Another process has the checkpoint's lock, as a plugin of the Go driver may for long.
    Locked,
}

/// Which files a system call is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum On {
    /// The plugin's directory itself, and what is named relative to it.
    Data,
    /// Files being written there, before they get their name.
    DataTemporaries,
    Cdi,
    CdiTemporaries,
    /// Files of this name or path, as the plugin spells it.
    Named(&'static str),
}

/// What the first call of kubelet comes to while the fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Succeeds,
    Fails,
    /// The plugin with it.
    Dies,
}

impl Step {
    pub(crate) const ALL: [Self; 17] = [
        Self::ReadClaim,
        Self::DecodeConfig,
        Self::OneResult,
        Self::AllocationMode,
        Self::ConfigState,
        Self::ConflictAndStarted,
        Self::DomainLookup,
        Self::Clique,
        Self::CdiSpec,
        Self::CompletedRecord,
        Self::UnprepareReadRecord,
        Self::UnprepareRemoveSpec,
        Self::UnprepareRemoveRecord,
        Self::StartOpen,
        Self::StartBootId,
        Self::StartAlign,
        Self::Reconcile,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadClaim => "Prepare: read the claim",
            Self::DecodeConfig => "Prepare: decode the opaque config",
            Self::OneResult => "Prepare: exactly one result",
            Self::AllocationMode => "Prepare: allocation mode",
            Self::ConfigState => "Prepare: config state",
            Self::ConflictAndStarted => "Prepare: conflict check, Started record",
            Self::DomainLookup => "Prepare: ComputeDomain lookup",
            Self::Clique => "Prepare: clique",
            Self::CdiSpec => "Prepare: CDI spec",
            Self::CompletedRecord => "Prepare: Completed record",
            Self::UnprepareReadRecord => "Unprepare: read the record",
            Self::UnprepareRemoveSpec => "Unprepare: remove the spec",
            Self::UnprepareRemoveRecord => "Unprepare: remove the record",
            Self::StartOpen => "start: open the checkpoint",
            Self::StartBootId => "start: boot id",
            Self::StartAlign => "start: align the specs",
            Self::Reconcile => "reconcile: a stale record",
        }
    }
}

impl Column {
    pub(crate) const ALL: [Self; 8] = [
        Self::Error,
        Self::Delay,
        Self::Kill,
        Self::NoSpace,
        Self::Conflict,
        Self::TooManyRequests,
        Self::ServerError,
        Self::TimeOut,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Delay => "delay",
            Self::Kill => "kill -9",
            Self::NoSpace => "ENOSPC",
            Self::Conflict => "API 409",
            Self::TooManyRequests => "API 429",
            Self::ServerError => "API 500",
            Self::TimeOut => "time-out",
        }
    }

    pub(crate) fn first(self) -> First {
        match self {
            Self::Delay => First::Succeeds,
            Self::Kill => First::Dies,
            _ => First::Fails,
        }
    }
}
