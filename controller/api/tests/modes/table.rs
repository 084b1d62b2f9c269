//! The table of modes.

/// The options that a user sets, and their result.
pub(crate) struct Row {
    /// `NAME=VALUE,...`, as `--feature-gates` has it.
    pub(crate) gates: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) isolation: &'static str,
    pub(crate) sharing: &'static str,
    pub(crate) slots: &'static str,
    pub(crate) channel_count: &'static str,
    /// Always with the label of nodes, which group claims need. Only the controller and the chart have this option.
    pub(crate) group_claims: &'static str,
    pub(crate) without_clique: &'static str,
    pub(crate) degraded_fabric: &'static str,
    /// Mode, isolation, sharing, number of channels, group claims, and placement on nodes without a clique and with
    /// a degraded fabric; or the error's code.
    pub(crate) result: &'static str,
    /// Further log lines at start: forced gates, then warnings.
    pub(crate) logged: &'static [&'static str],
}

const GATE: &str = "HostManagedIMEX=true";
const ALIAS: &str = "HostManagedIMEXDaemon=true";
const OFF: &str = "HostManagedIMEX=false";
/// Every gate of the Go driver with its default, except the one that must be on.
const EVERY_GATE_OF_GO: &str = "AllAlpha=false,AllBeta=false,ComputeDomainCliques=true,\
    ConsumableShares=false,ContextualLogging=true,CrashOnNVLinkFabricErrors=true,\
    DRAListTypeAttributes=false,DeviceMetadata=false,DynamicMIG=false,\
    FabricManagerPartitioning=false,HostManagedIMEXDaemon=true,IMEXDaemonsWithDNSNames=true,\
    LoggingAlphaOptions=false,LoggingBetaOptions=true,MPSSupport=false,\
    NVMLDeviceHealthCheck=false,PassthroughSupport=false,TimeSlicingSettings=false";

const DNS: &str = "IMEXDaemonsWithDNSNames=false";
const CLIQUES: &str = "ComputeDomainCliques=false";
const WARNING: &str = "imex.isolation=\"domain\" is treated as \"none\": in host-managed mode, ComputeDomains are not isolated from each other";

const HOST: &str = "hostManaged none one 2048 publish publish";
const CHANNEL: &str = "hostManaged channel many (64 slots) 2048 taint publish";
const DRIVER: &str = "driverManaged channel many (64 slots) 2048 publish publish";
const EXCLUDES_GATE: &str = "imex-mode-excludes-gate";
const WITHOUT_ISOLATION: &str = "driver-managed-without-isolation";
const NEEDS_CLIQUES: &str = "driver-managed-needs-cliques";
const NEEDS_GATE: &str = "imex-mode-needs-gate";
const CONTRADICTION: &str = "contradicting-feature-gates";
const INCOMPATIBLE: &str = "incompatible-feature-gates";

const fn row(
    gates: &'static str,
    mode: &'static str,
    isolation: &'static str,
    result: &'static str,
    logged: &'static [&'static str],
) -> Row {
    Row {
        gates,
        mode,
        isolation,
        sharing: "",
        slots: "",
        channel_count: "",
        group_claims: "",
        without_clique: "",
        degraded_fabric: "",
        result,
        logged,
    }
}

/// Of the host-managed mode.
const fn shared(
    isolation: &'static str,
    [sharing, slots, channel_count]: [&'static str; 3],
    result: &'static str,
) -> Row {
    Row {
        sharing,
        slots,
        channel_count,
        ..row(GATE, "", isolation, result, &[DNS, CLIQUES])
    }
}

const fn shared_wrongly(options: [&'static str; 3], result: &'static str) -> Row {
    Row {
        logged: &[],
        ..shared("channel", options, result)
    }
}

const fn grouped(
    isolation: &'static str,
    group_claims: &'static str,
    channel_count: &'static str,
    result: &'static str,
) -> Row {
    Row {
        group_claims,
        ..shared(isolation, ["", "", channel_count], result)
    }
}

/// Of the host-managed mode, without isolation.
const fn placed(
    without_clique: &'static str,
    degraded_fabric: &'static str,
    result: &'static str,
) -> Row {
    Row {
        without_clique,
        degraded_fabric,
        ..row(GATE, "", "", result, &[DNS, CLIQUES])
    }
}

const fn placed_wrongly(
    without_clique: &'static str,
    degraded_fabric: &'static str,
    result: &'static str,
) -> Row {
    Row {
        logged: &[],
        ..placed(without_clique, degraded_fabric, result)
    }
}

/// Of the driver-managed mode: sharing, slots, number of channels; group claims; placements.
const fn driver(
    [sharing, slots, channel_count]: [&'static str; 3],
    group_claims: &'static str,
    [without_clique, degraded_fabric]: [&'static str; 2],
    result: &'static str,
) -> Row {
    Row {
        sharing,
        slots,
        channel_count,
        group_claims,
        without_clique,
        degraded_fabric,
        ..row("", "", "", result, &[])
    }
}

#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    //  gates, mode, isolation, result, logged
    row(GATE, "", "", HOST, &[DNS, CLIQUES]),
    row(GATE, "hostManaged", "", HOST, &[DNS, CLIQUES]),
    row(GATE, "", "none", HOST, &[DNS, CLIQUES]),
    row(GATE, "", "domain", HOST, &[DNS, CLIQUES, WARNING]),
    row(GATE, "hostManaged", "domain", HOST, &[DNS, CLIQUES, WARNING]),
    row(GATE, "", "channel", CHANNEL, &[DNS, CLIQUES]),
    row(GATE, "hostManaged", "channel", CHANNEL, &[DNS, CLIQUES]),
    row(GATE, "", "foo", "unknown-imex-isolation", &[]),
    row(GATE, "", "Domain", "unknown-imex-isolation", &[]),
    row(GATE, "driverManaged", "", EXCLUDES_GATE, &[]),
    row(GATE, "driverManaged", "domain", EXCLUDES_GATE, &[]),
    row(GATE, "driverManaged", "foo", EXCLUDES_GATE, &[]),
    row(GATE, "foo", "channel", "unknown-imex-mode", &[]),
    row(GATE, "HostManaged", "", "unknown-imex-mode", &[]),

    placed("publish", "publish", HOST),
    placed("taint", "", "hostManaged none one 2048 taint publish"),
    placed("", "taint", "hostManaged none one 2048 publish taint"),
    placed("taint", "taint", "hostManaged none one 2048 taint taint"),
    placed_wrongly("Taint", "", "unknown-imex-without-clique"),
    placed_wrongly("", "withdraw", "unknown-imex-degraded-fabric"),
    Row { without_clique: "publish", ..shared("channel", ["", "", ""], "hostManaged channel many (64 slots) 2048 publish publish") },
    Row { degraded_fabric: "taint", ..shared("channel", ["", "", ""], "hostManaged channel many (64 slots) 2048 taint taint") },

    // Isolation by channel shares the nodes' devices by default.
    shared("none", ["one", "", ""], HOST),
    shared("", ["many", "", ""], "hostManaged none many (64 slots) 2048 publish publish"),
    shared("none", ["many", "4", ""], "hostManaged none many (4 slots) 2048 publish publish"),
    shared("channel", ["", "", ""], CHANNEL),
    shared("channel", ["many", "8", "256"], "hostManaged channel many (8 slots) 256 taint publish"),
    shared("channel", ["one", "8", ""], "hostManaged channel one 2048 taint publish"),
    Row { logged: &[DNS, CLIQUES, WARNING], ..shared("domain", ["many", "", ""], "hostManaged none many (64 slots) 2048 publish publish") },
    shared_wrongly(["all", "", ""], "unknown-imex-sharing"),
    shared_wrongly(["many", "x", ""], "bad-imex-slots"),
    shared_wrongly(["many", "0", ""], "bad-imex-slots"),
    shared_wrongly(["", "", "1"], "bad-imex-channel-count"),
    shared_wrongly(["", "", "1e3"], "bad-imex-channel-count"),

    // Claims of groups have their own channels.
    grouped("", "true", "", "hostManaged none one 2048 groups publish publish"),
    grouped("none", "True", "64", "hostManaged none one 64 groups publish publish"),
    grouped("channel", "1", "129", "hostManaged channel many (64 slots) 129 groups taint publish"),
    grouped("channel", "false", "128", "hostManaged channel many (64 slots) 128 taint publish"),
    Row { logged: &[], ..grouped("channel", "true", "128", "no-imex-channels-for-domains") },
    Row { logged: &[], ..grouped("", "yes", "", "bad-imex-group-claims") },

    // Without the gate. Its default is off, and the mode is checked before the isolation.
    row("", "", "", DRIVER, &[]),
    row(OFF, "", "", DRIVER, &[]),
    row("", "", "domain", DRIVER, &[]),
    row(OFF, "", "channel", DRIVER, &[]),
    row("", "driverManaged", "", DRIVER, &[]),
    row("", "driverManaged", "domain", DRIVER, &[]),
    row(OFF, "driverManaged", "channel", DRIVER, &[]),
    row("", "", "none", WITHOUT_ISOLATION, &[]),
    row("", "driverManaged", "none", WITHOUT_ISOLATION, &[]),
    row("", "driverManaged", "foo", "unknown-imex-isolation", &[]),
    row("", "hostManaged", "", NEEDS_GATE, &[]),
    row(OFF, "hostManaged", "channel", NEEDS_GATE, &[]),
    row("", "foo", "", "unknown-imex-mode", &[]),
    row("", "DriverManaged", "", "unknown-imex-mode", &[]),

    // The driver's daemons do with the other options as those of hosts do.
    driver(["one", "", ""], "", ["", ""], "driverManaged channel one 2048 publish publish"),
    driver(["many", "8", "256"], "", ["", ""], "driverManaged channel many (8 slots) 256 publish publish"),
    driver(["", "", ""], "true", ["", ""], "driverManaged channel many (64 slots) 2048 groups publish publish"),
    driver(["", "", "128"], "true", ["", ""], "no-imex-channels-for-domains"),
    driver(["", "", ""], "", ["taint", "taint"], "driverManaged channel many (64 slots) 2048 taint taint"),
    driver(["", "", ""], "", ["Taint", ""], "unknown-imex-without-clique"),

    // Daemons get their peers from cliques.
    row("ComputeDomainCliques=false", "", "", NEEDS_CLIQUES, &[]),
    row("ComputeDomainCliques=0,IMEXDaemonsWithDNSNames=false", "driverManaged", "", NEEDS_CLIQUES, &[]),
    row("AllBeta=false", "", "", NEEDS_CLIQUES, &[]),
    row("IMEXDaemonsWithDNSNames=false", "", "", INCOMPATIBLE, &[]),
    row("AllBeta=false,ComputeDomainCliques=true", "", "", INCOMPATIBLE, &[]),
    row("AllBeta=false,ComputeDomainCliques=true,IMEXDaemonsWithDNSNames=true", "", "", DRIVER, &[]),

    // The gate has two names.
    row(ALIAS, "", "", HOST, &[DNS, CLIQUES]),
    row(ALIAS, "hostManaged", "none", HOST, &[DNS, CLIQUES]),
    row("HostManagedIMEXDaemon=false", "", "", DRIVER, &[]),
    row("HostManagedIMEXDaemon=false", "hostManaged", "", NEEDS_GATE, &[]),
    row("HostManagedIMEX=true,HostManagedIMEXDaemon=true", "", "", HOST, &[DNS, CLIQUES]),
    row("HostManagedIMEX=false,HostManagedIMEXDaemon=0", "", "", DRIVER, &[]),
    row("HostManagedIMEX=true,HostManagedIMEXDaemon=false", "", "", CONTRADICTION, &[]),
    row("HostManagedIMEXDaemon=true,HostManagedIMEX=false", "foo", "foo", CONTRADICTION, &[]),

    // Its value is one of Go's booleans, and the last of several is used.
    row("HostManagedIMEX=1", "", "", HOST, &[DNS, CLIQUES]),
    row("HostManagedIMEXDaemon=T", "", "", HOST, &[DNS, CLIQUES]),
    row("HostManagedIMEX=F", "", "", DRIVER, &[]),
    row("HostManagedIMEX=yes", "", "", "bad-feature-gate-value", &[]),
    row("HostManagedIMEX=true,MPSSupport=on", "", "", "bad-feature-gate-value", &[]),
    row("HostManagedIMEX=false,HostManagedIMEX=true", "", "", HOST, &[DNS, CLIQUES]),
    row("HostManagedIMEX=true,HostManagedIMEX=false", "", "", DRIVER, &[]),

    // Every gate of the Go driver is known, and no other.
    row(EVERY_GATE_OF_GO, "", "", HOST, &[DNS, CLIQUES]),
    row("Bogus=true", "foo", "foo", "unknown-feature-gate", &[]),
    row("HostManagedIMEX=true,hostManagedIMEX=true", "", "", "unknown-feature-gate", &[]),

    // Gates of the driver-managed mode are forced off before the gates are checked against each
    // other; one that is off already is not mentioned.
    row("HostManagedIMEX=true,ComputeDomainCliques=true", "", "", HOST, &[DNS, CLIQUES]),
    row("HostManagedIMEX=true,IMEXDaemonsWithDNSNames=false", "", "", HOST, &[CLIQUES]),
    row("HostManagedIMEX=true,ComputeDomainCliques=false", "", "", HOST, &[DNS]),
    row("HostManagedIMEX=true,IMEXDaemonsWithDNSNames=false,ComputeDomainCliques=0", "", "", HOST, &[]),
    row("HostManagedIMEX=true,AllBeta=false", "", "", HOST, &[]),

    // Gates that cannot be on together, whether set explicitly or by a group. The mode is checked first.
    row("HostManagedIMEX=true,MPSSupport=true", "", "", HOST, &[DNS, CLIQUES]),
    row("HostManagedIMEX=true,DynamicMIG=true,MPSSupport=true", "", "", INCOMPATIBLE, &[]),
    row("HostManagedIMEX=true,DynamicMIG=true,PassthroughSupport=true", "", "", INCOMPATIBLE, &[]),
    row("HostManagedIMEX=true,DynamicMIG=true,NVMLDeviceHealthCheck=1", "", "", INCOMPATIBLE, &[]),
    row("HostManagedIMEX=true,PassthroughSupport=true,NVMLDeviceHealthCheck=true", "", "", INCOMPATIBLE, &[]),
    row("HostManagedIMEX=true,DeviceMetadata=true", "", "", INCOMPATIBLE, &[]),
    row("HostManagedIMEX=true,DeviceMetadata=true,PassthroughSupport=true", "", "", HOST, &[DNS, CLIQUES]),
    row("DynamicMIG=true,MPSSupport=true", "", "", INCOMPATIBLE, &[]),
    row("HostManagedIMEX=true,DynamicMIG=true,MPSSupport=true", "", "channel", INCOMPATIBLE, &[]),

    // AllAlpha turns on all unset gates, including that of this mode.
    row("AllAlpha=true", "", "", INCOMPATIBLE, &[]),
    row("AllAlpha=true,HostManagedIMEX=false", "", "", INCOMPATIBLE, &[]),
    row("AllAlpha=true,HostManagedIMEX=false,DynamicMIG=false,NVMLDeviceHealthCheck=false", "", "", DRIVER, &[]),
    row("AllAlpha=true,HostManagedIMEXDaemon=false", "hostManaged", "", NEEDS_GATE, &[]),
    row("AllAlpha=true,DynamicMIG=false", "", "", INCOMPATIBLE, &[]),
    row("AllAlpha=true,DynamicMIG=false,NVMLDeviceHealthCheck=false", "", "", HOST, &[DNS, CLIQUES]),
    row("AllAlpha=true,DynamicMIG=false,NVMLDeviceHealthCheck=false,PassthroughSupport=false", "", "", INCOMPATIBLE, &[]),
];
