//! The types of the matrix: steps are rows, kinds of faults are columns. [`Step::row`] has the cells.

use crate::api::{Behaviour, RequestPattern};

/// The steps, in order. Those of Prepare and Unprepare have the names in the design of the
/// host-managed mode.
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

/// A kind of fault.
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

/// The cells of a step, in the order of [`Column::ALL`].
pub(crate) type Row = [Cell; 8];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    Fault(Fault),
    /// The fault cannot occur, with the reason.
    Never(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// System calls of the plugin fail.
    Calls {
        names: &'static str,
        on: On,
        how: &'static str,
    },
    /// Requests to the API server fail.
    Api(RequestPattern, Behaviour),
    /// The plugin is killed while the API server holds the answer back.
    KilledDuringRequest(RequestPattern),
    /// NVML fails, from the plugin's start on.
    Driver(&'static str),
    /// NVML fails, and the plugin is killed while Prepare waits.
    KilledWaitingFor(&'static str),
    /// Another process holds the checkpoint's lock, as the Go driver's plugin may for a long time.
    Locked,
}

/// The files of a system call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum On {
    /// The plugin's directory, and paths relative to it.
    Data,
    /// Temporary files in the plugin's directory, before their rename.
    DataTemporaries,
    Cdi,
    CdiTemporaries,
    /// Files with this name or path, exactly as the plugin passes it.
    Named(&'static str),
}

/// The result of kubelet's first call during the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstCallResult {
    Succeeds,
    Fails,
    /// The plugin dies during the call.
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

    pub(crate) fn first(self) -> FirstCallResult {
        match self {
            Self::Delay => FirstCallResult::Succeeds,
            Self::Kill => FirstCallResult::Dies,
            _ => FirstCallResult::Fails,
        }
    }
}
