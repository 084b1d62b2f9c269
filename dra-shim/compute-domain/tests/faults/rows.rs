//! The fault of each step and column, or why it cannot occur. A missing cell or row does not
//! compile.

use std::time::Duration;

use crate::api::{Behaviour, DOMAIN as DOMAIN_UID, RequestPattern};
use crate::driver_root::{FAILS, HANGS, SLOW};
use crate::matrix::{Cell, Fault, On, Row, Step};

const CLAIM_A: RequestPattern = RequestPattern {
    what: "get resourceclaims",
    name: "a",
};
const DOMAIN: RequestPattern = RequestPattern {
    what: "get computedomains",
    name: "train",
};
const SECOND: Duration = Duration::from_secs(1);
const CHECKPOINT: On = On::Named("checkpoint.json");
/// The first start creates it.
const LOCK: On = On::Named("pu.lock");
const BOOT_ID: On = On::Named("/proc/sys/kernel/random/boot_id");

const IN_MEMORY: Cell =
    Cell::Never("decided from the claim in memory: only the claim itself can be wrong");
const IN_BETWEEN: Cell = Cell::Never(
    "no durable write between the read of the claim and the next request: the kill is tested there",
);
const NO_REQUEST: Cell = Cell::Never("a local file: no request is made");
const NO_FILE: Cell = Cell::Never("no file is written");
const ONLY_READS: Cell = Cell::Never("a file is read, none is written");
const NOT_API: Cell = Cell::Never("NVML was read before: no request is made");

/// The row of a step that decides from the claim, in which `from` is first replaced by `to`.
const fn decides(from: &'static str, to: &'static str) -> Row {
    [
        api(CLAIM_A, Behaviour::Spoils(from, to)),
        IN_MEMORY,
        IN_BETWEEN,
        IN_MEMORY,
        IN_MEMORY,
        IN_MEMORY,
        IN_MEMORY,
        IN_MEMORY,
    ]
}

const fn api(requests: RequestPattern, behaviour: Behaviour) -> Cell {
    Cell::Fault(Fault::Api(requests, behaviour))
}

/// The row of a step with requests to the API server.
const fn requests(matching: RequestPattern, error: Cell, no_space: Cell) -> Row {
    [
        error,
        api(matching, Behaviour::Delays(SECOND)),
        Cell::Fault(Fault::KilledDuringRequest(matching)),
        no_space,
        api(matching, Behaviour::Status(409)),
        api(matching, Behaviour::Status(429)),
        api(matching, Behaviour::Status(500)),
        api(matching, Behaviour::NeverAnswers),
    ]
}

const fn calls(names: &'static str, on: On, how: &'static str) -> Cell {
    Cell::Fault(Fault::Calls { names, on, how })
}

/// The row of a local step.
const fn local(error: Cell, delay: Cell, kill: Cell, no_space: Cell, time_out: Cell) -> Row {
    [
        error, delay, kill, no_space, NO_REQUEST, NO_REQUEST, NO_REQUEST, time_out,
    ]
}

// strace counts calls per thread: the second write of the checkpoint's thread is the Completed
// record.
const RENAME: &str = "renameat,renameat2";
const STAT: &str = "newfstatat";

const READ_CLAIM: Row = requests(CLAIM_A, api(CLAIM_A, Behaviour::Resets), NO_FILE);

const CONFLICT_AND_STARTED: Row = local(
    calls("fsync", On::DataTemporaries, "error=EIO:when=1+"),
    calls("fsync", On::DataTemporaries, "delay_enter=1s:when=1"),
    calls(RENAME, On::Data, "signal=SIGKILL:when=1"),
    calls("write", On::DataTemporaries, "error=ENOSPC:when=1+"),
    Cell::Fault(Fault::Locked),
);

const DOMAIN_LOOKUP: Row = requests(DOMAIN, api(DOMAIN, Behaviour::Resets), NO_FILE);

const CLIQUE: Row = [
    Cell::Fault(Fault::Driver(FAILS)),
    Cell::Fault(Fault::Driver(SLOW)),
    Cell::Fault(Fault::KilledWaitingFor(FAILS)),
    NO_FILE,
    NOT_API,
    NOT_API,
    NOT_API,
    Cell::Fault(Fault::Driver(HANGS)),
];

const CDI_SPEC: Row = local(
    calls("fsync", On::CdiTemporaries, "error=EIO:when=1+"),
    calls("fsync", On::CdiTemporaries, "delay_enter=1s:when=1"),
    calls(RENAME, On::Cdi, "signal=SIGKILL:when=1"),
    calls("write", On::CdiTemporaries, "error=ENOSPC:when=1+"),
    calls("fsync", On::CdiTemporaries, "delay_enter=12s:when=1"),
);

const COMPLETED_RECORD: Row = local(
    calls("fsync", On::DataTemporaries, "error=EIO:when=2+"),
    calls("fsync", On::DataTemporaries, "delay_enter=1s:when=2"),
    calls(RENAME, On::Data, "signal=SIGKILL:when=2"),
    calls("write", On::DataTemporaries, "error=ENOSPC:when=2+"),
    calls("fsync", On::DataTemporaries, "delay_enter=12s:when=2"),
);

const UNPREPARE_READ_RECORD: Row = local(
    calls(STAT, On::Data, "error=EIO:when=1+"),
    calls(STAT, On::Data, "delay_enter=1s:when=1"),
    calls(STAT, On::Data, "signal=SIGKILL:when=1"),
    ONLY_READS,
    Cell::Fault(Fault::Locked),
);

const UNPREPARE_REMOVE_SPEC: Row = local(
    calls("unlinkat", On::Cdi, "error=EIO:when=1+"),
    calls("unlinkat", On::Cdi, "delay_enter=1s:when=1"),
    calls("unlinkat", On::Cdi, "signal=SIGKILL:when=1"),
    // Copy-on-write file systems need space to remove a file.
    calls("unlinkat", On::Cdi, "error=ENOSPC:when=1+"),
    calls("unlinkat", On::Cdi, "delay_enter=12s:when=1"),
);

const UNPREPARE_REMOVE_RECORD: Row = local(
    calls("fsync", On::DataTemporaries, "error=EIO:when=1+"),
    calls("fsync", On::DataTemporaries, "delay_enter=1s:when=1"),
    calls(RENAME, On::Data, "signal=SIGKILL:when=1"),
    calls("write", On::DataTemporaries, "error=ENOSPC:when=1+"),
    calls("fsync", On::DataTemporaries, "delay_enter=12s:when=1"),
);

const START_OPEN: Row = local(
    calls("openat", CHECKPOINT, "error=EIO:when=1+"),
    calls("openat", CHECKPOINT, "delay_enter=1s:when=1"),
    calls("openat", CHECKPOINT, "signal=SIGKILL:when=1"),
    calls("openat", LOCK, "error=ENOSPC:when=1+"),
    Cell::Fault(Fault::Locked),
);

const START_BOOT_ID: Row = local(
    calls("openat", BOOT_ID, "error=EIO:when=1+"),
    calls("openat", BOOT_ID, "delay_enter=1s:when=1"),
    calls("openat", BOOT_ID, "signal=SIGKILL:when=1"),
    ONLY_READS,
    calls("openat", BOOT_ID, "delay_enter=12s:when=1"),
);

const START_ALIGN: Row = local(
    calls(RENAME, On::Cdi, "error=EIO:when=1+"),
    calls(RENAME, On::Cdi, "delay_enter=1s:when=1"),
    calls(RENAME, On::Cdi, "signal=SIGKILL:when=1"),
    calls(RENAME, On::Cdi, "error=ENOSPC:when=1+"),
    calls(RENAME, On::Cdi, "delay_enter=12s:when=1"),
);

const RECONCILE: Row = requests(
    CLAIM_A,
    calls("unlinkat", On::Cdi, "error=EIO:when=1"),
    calls("write", On::DataTemporaries, "error=ENOSPC:when=1"),
);

impl Step {
    pub(crate) const fn row(self) -> Row {
        match self {
            Self::ReadClaim => READ_CLAIM,
            Self::DecodeConfig => decides("\"allocationMode\"", "\"unknown\":1,\"allocationMode\""),
            Self::OneResult => decides(
                "\"device\":\"channel-0\"}",
                "\"device\":\"channel-0\"},{\"request\":\"channel\",\"driver\":\"compute-domain.nvidia.com\",\"pool\":\"node-a\",\"device\":\"channel-1\"}",
            ),
            Self::AllocationMode => decides("\"Single\"", "\"foo\""),
            Self::ConfigState => decides(DOMAIN_UID, "no-uid"),
            Self::ConflictAndStarted => CONFLICT_AND_STARTED,
            Self::DomainLookup => DOMAIN_LOOKUP,
            Self::Clique => CLIQUE,
            Self::CdiSpec => CDI_SPEC,
            Self::CompletedRecord => COMPLETED_RECORD,
            Self::UnprepareReadRecord => UNPREPARE_READ_RECORD,
            Self::UnprepareRemoveSpec => UNPREPARE_REMOVE_SPEC,
            Self::UnprepareRemoveRecord => UNPREPARE_REMOVE_RECORD,
            Self::StartOpen => START_OPEN,
            Self::StartBootId => START_BOOT_ID,
            Self::StartAlign => START_ALIGN,
            Self::Reconcile => RECONCILE,
        }
    }
}
