//! The chart, rendered with a row's values.

use std::path::Path;
use std::process::Command;

use compute_domain_api::ImexOptions;
use serde_json::Value;

use crate::Answer;
use crate::table::Row;

/// The beginning of the chart's line for each error.
const REFUSALS: [(&str, &str); 26] = [
    (
        "unknown-feature-gate",
        "unrecognized feature gate featureGates.",
    ),
    (
        "bad-feature-gate-value",
        "featureGates.HostManagedIMEX=yes is not a boolean: set it to true or false",
    ),
    (
        "bad-feature-gate-value",
        "featureGates.MPSSupport=on is not a boolean: set it to true or false",
    ),
    (
        "contradicting-feature-gates",
        "featureGates.HostManagedIMEX and featureGates.HostManagedIMEXDaemon contradict each other: they are two names of one gate, so set only HostManagedIMEX",
    ),
    (
        "incompatible-feature-gates",
        "featureGates.DynamicMIG and featureGates.",
    ),
    (
        "incompatible-feature-gates",
        "featureGates.PassthroughSupport and featureGates.NVMLDeviceHealthCheck exclude each other: set one of them to false",
    ),
    (
        "incompatible-feature-gates",
        "featureGates.DeviceMetadata needs featureGates.PassthroughSupport: set both to the same value",
    ),
    (
        "incompatible-feature-gates",
        "featureGates.ComputeDomainCliques needs featureGates.IMEXDaemonsWithDNSNames: set both to the same value",
    ),
    (
        "imex-mode-excludes-gate",
        "resources.computeDomains.imex.mode=driverManaged and featureGates.HostManagedIMEX=true contradict each other: remove one of the two",
    ),
    (
        "driver-managed-without-isolation",
        "resources.computeDomains.imex.isolation=none is not supported with driver-managed IMEX, because all ComputeDomains of a clique share one IMEX domain: leave it empty, or add --set featureGates.HostManagedIMEX=true if the hosts run nvidia-imex",
    ),
    (
        "driver-managed-needs-cliques",
        "driver-managed IMEX needs featureGates.ComputeDomainCliques, from which daemons get their peers: remove ComputeDomainCliques=false or AllBeta=false, or add --set featureGates.HostManagedIMEX=true if the hosts run nvidia-imex",
    ),
    (
        "imex-mode-needs-gate",
        "resources.computeDomains.imex.mode=hostManaged needs the feature gate HostManagedIMEX: add --set featureGates.HostManagedIMEX=true",
    ),
    (
        "unknown-imex-mode",
        "unknown resources.computeDomains.imex.mode \"foo\": leave it empty or set hostManaged or driverManaged",
    ),
    (
        "unknown-imex-mode",
        "unknown resources.computeDomains.imex.mode \"HostManaged\": leave it empty or set hostManaged or driverManaged",
    ),
    (
        "unknown-imex-mode",
        "unknown resources.computeDomains.imex.mode \"DriverManaged\": leave it empty or set hostManaged or driverManaged",
    ),
    (
        "unknown-imex-isolation",
        "unknown resources.computeDomains.imex.isolation \"foo\": leave it empty or set none or channel",
    ),
    (
        "unknown-imex-isolation",
        "unknown resources.computeDomains.imex.isolation \"Domain\": leave it empty or set none or channel",
    ),
    (
        "unknown-imex-sharing",
        "unknown resources.computeDomains.imex.sharing \"all\": leave it empty or set one or many",
    ),
    (
        "bad-imex-slots",
        "resources.computeDomains.imex.slots is \"x\": leave it empty or set a number from 1 to 1000000",
    ),
    (
        "bad-imex-slots",
        "resources.computeDomains.imex.slots is \"0\": leave it empty or set a number from 1 to 1000000",
    ),
    (
        "bad-imex-channel-count",
        "resources.computeDomains.imex.channelCount is \"1\": leave it empty or set a number from 2 to 1000000",
    ),
    (
        "bad-imex-channel-count",
        "resources.computeDomains.imex.channelCount is \"1e3\": leave it empty or set a number from 2 to 1000000",
    ),
    (
        "bad-imex-group-claims",
        "resources.computeDomains.imex.groupClaims=yes is not a boolean: set it to true or false",
    ),
    (
        "no-imex-channels-for-domains",
        "resources.computeDomains.imex.groupClaims takes 128 channels, which leaves none to ComputeDomains: set channelCount to more than 128",
    ),
    (
        "unknown-imex-without-clique",
        "unknown resources.computeDomains.imex.withoutClique \"Taint\": leave it empty or set publish or taint",
    ),
    (
        "unknown-imex-degraded-fabric",
        "unknown resources.computeDomains.imex.degradedFabric \"withdraw\": leave it empty or set publish or taint",
    ),
];

pub(crate) struct Chart {
    helm: String,
}

impl Chart {
    pub(crate) fn new() -> Self {
        let helm = std::env::var("HELM").expect("HELM is not set: see the top of main.rs");
        Self { helm }
    }

    /// The chart's error if it refuses the row; otherwise each program's result for the environment
    /// that the chart sets, which the program must not refuse.
    pub(crate) fn answers(&self, row: &Row) -> Vec<(String, Answer)> {
        let documents = match self.render(row) {
            Ok(documents) => documents,
            Err(line) => return vec![("chart".to_owned(), Answer::refused(&code_of(&line)))],
        };
        let programs = ["controller", "kubelet-plugin"].map(|name| {
            let is_it = |document: &&Value| {
                let kind = &document["kind"];
                (kind == "Deployment" || kind == "DaemonSet")
                    && document["metadata"]["name"] == format!("imex-dra-{name}")
            };
            let workload = documents.iter().find(is_it);
            let answer = answer_in_pods(workload.unwrap());
            (format!("{name} of the chart"), answer)
        });
        programs.into()
    }

    /// Whether the chart starts IMEX daemons.
    pub(crate) fn starts_daemons(&self, row: &Row) -> bool {
        let documents = self.render(row).unwrap();
        let is_it = |document: &Value| document["metadata"]["name"] == "imex-dra-imex-daemon";
        documents
            .iter()
            .any(|document| document["kind"] == "DaemonSet" && is_it(document))
    }

    /// Mode, isolation and sharing according to the notes that Helm prints after the installation.
    pub(crate) fn notes(&self, row: &Row) -> String {
        let release = ["install", "test", "--dry-run=client"];
        let text = self.helm(row, &release).unwrap();
        let (_, notes) = text.split_once("\nNOTES:\n").expect("there are notes");
        let isolates = notes.contains("Each ComputeDomain has its own channel");
        let isolation = if isolates { "channel" } else { "none" };
        let slots = notes.split_once("* Up to ").map(|(_, rest)| rest);
        let slots = slots.and_then(|rest| rest.split_once(" pods with a channel can share a node"));
        let one = notes.contains("* Each node runs one pod with a channel at a time");
        let sharing = match (slots, one) {
            (Some((slots, _)), false) => format!("many ({slots} slots)"),
            (None, true) => "one".to_owned(),
            _ => panic!("{notes}"),
        };
        let mode = match (
            notes.contains("You run nvidia-imex on the hosts."),
            notes.contains("The driver runs nvidia-imex on every node."),
        ) {
            (true, false) => "hostManaged",
            (false, true) => "driverManaged",
            _ => panic!("{notes}"),
        };
        format!("{mode} {isolation} {sharing}")
    }

    fn render(&self, row: &Row) -> Result<Vec<Value>, String> {
        let yaml = self.helm(row, &["template", "test", "--kube-version=1.34.0"])?;
        Ok(serde_saphyr::from_multiple(&yaml).unwrap())
    }

    fn helm(&self, row: &Row, command: &[&str]) -> Result<String, String> {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deployments/helm/imex-dra");
        let mut helm = Command::new(&self.helm);
        helm.args(command).arg(chart).arg("--namespace=imex-dra");
        let imex = "resources.computeDomains.imex";
        helm.arg(format!("--set={imex}.mode={}", row.mode));
        helm.arg(format!("--set={imex}.isolation={}", row.isolation));
        helm.arg(format!("--set={imex}.sharing={}", row.sharing));
        helm.arg(format!("--set={imex}.slots={}", row.slots));
        helm.arg(format!("--set={imex}.channelCount={}", row.channel_count));
        helm.arg(format!("--set={imex}.groupClaims={}", row.group_claims));
        helm.arg("--set=kubeletPlugin.containers.computeDomains.gpuCliqueLabelEnabled=true");
        helm.arg(format!("--set={imex}.withoutClique={}", row.without_clique));
        helm.arg(format!(
            "--set={imex}.degradedFabric={}",
            row.degraded_fabric
        ));
        for gate in row.gates.split_terminator(',') {
            helm.arg(format!("--set=featureGates.{gate}"));
        }
        let output = helm.output().unwrap();
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

/// The error code of a message of helm; the message, if it is none of the known errors. Before
/// the chart's line, helm prints its position in the templates.
fn code_of(message: &str) -> String {
    let line = message.split_once("/validation.yaml:").map(|(_, at)| at);
    let line = line
        .and_then(|at| at.split_once("): "))
        .map(|(_, line)| line);
    REFUSALS
        .iter()
        .find(|(_, words)| line.is_some_and(|line| line.starts_with(words)))
        .map_or(message, |(code, _)| code)
        .to_owned()
}

fn answer_in_pods(workload: &Value) -> Answer {
    let env = &workload["spec"]["template"]["spec"]["containers"][0]["env"];
    let value_of = |name: &str| {
        let variable = env.as_array().unwrap().iter().find(|v| v["name"] == name);
        variable.map_or("", |variable| variable["value"].as_str().unwrap())
    };
    let options = ImexOptions {
        feature_gates: value_of("FEATURE_GATES"),
        mode: value_of("IMEX_MODE"),
        isolation: value_of("IMEX_ISOLATION"),
        sharing: value_of("IMEX_SHARING"),
        slots: value_of("IMEX_SLOTS"),
        channel_count: value_of("IMEX_CHANNEL_COUNT"),
        group_claims: value_of("IMEX_GROUP_CLAIMS"),
        host_socket_path: value_of("IMEX_HOST_SOCKET_PATH"),
        without_clique: value_of("IMEX_WITHOUT_CLIQUE"),
        degraded_fabric: value_of("IMEX_DEGRADED_FABRIC"),
    };
    match options.resolve() {
        Ok(settings) => Answer::accepted(&settings),
        Err(err) => Answer::refused(&format!("renders {}", err.code())),
    }
}
