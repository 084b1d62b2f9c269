//! Groups of command-line options. A program embeds them in its own `Args` with clap's `flatten`.
//!
//! The environment variable in brackets is used if the flag is not given. Options of the Go driver keep
//! its names. An empty value means not set, because the chart renders an unset value as `""`.

// The doc comment of a group must be one paragraph: clap would use a longer one as the `long_about` of
// every program that only has an `about`.

use std::net::SocketAddr;
use std::path::Path;

use clap::Args;
use compute_domain_api::{ImexOptions, Settings};
use kube::Client;
use tracing::{info, warn};

use crate::client;
use crate::http::{HttpError, HttpServer, listen_addresses};
use crate::logs::{self, LogFormat};
use crate::readiness::ReadinessCondition;
use crate::start_error::StartError;

/// Verbosity and format of the log: `-v` or `--v` (`V`), see [`LogArgs::install`], and
/// `--logging-format` (`LOGGING_FORMAT`).
// req: MODE-10
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Verbosity on klog's scale: 0 for administrators, 4 details of every claim, 6 every request.
    #[arg(short = 'v', long = "v", env = "V", default_value = "0", value_name = "N", value_parser = parse_verbosity)]
    pub verbosity: u8,
    /// Format of the log on stderr: text or json.
    #[arg(long, env = "LOGGING_FORMAT", default_value = "text", value_parser = parse_format)]
    pub logging_format: LogFormat,
}

/// Access to the API server: `--kubeconfig` (`KUBECONFIG`). `--kube-api-qps` (`KUBE_API_QPS`) and
/// `--kube-api-burst` (`KUBE_API_BURST`) are ignored.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kubernetes client")]
pub struct KubeArgs {
    /// Path of a kubeconfig; empty means the pod's service account.
    #[arg(long, env = "KUBECONFIG", default_value = "")]
    pub kubeconfig: String,
    /// Ignored; accepted for compatibility with the Go driver. The API server limits requests itself.
    #[arg(long, env = "KUBE_API_QPS", default_value = "")]
    pub kube_api_qps: String,
    /// Ignored; accepted for compatibility with the Go driver. See --kube-api-qps.
    #[arg(long, env = "KUBE_API_BURST", default_value = "")]
    pub kube_api_burst: String,
}

/// How IMEX is run and shared: `--feature-gates` (`FEATURE_GATES`), `--imex-mode` (`IMEX_MODE`),
/// `--imex-isolation` (`IMEX_ISOLATION`), `--imex-sharing` (`IMEX_SHARING`), `--imex-slots`
/// (`IMEX_SLOTS`), `--imex-channel-count` (`IMEX_CHANNEL_COUNT`), `--imex-group-claims` (`IMEX_GROUP_CLAIMS`), `--imex-host-socket-path`
/// (`IMEX_HOST_SOCKET_PATH`), `--imex-without-clique` (`IMEX_WITHOUT_CLIQUE`) and `--imex-degraded-fabric` (`IMEX_DEGRADED_FABRIC`).
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "IMEX")]
pub struct ImexArgs {
    /// Feature gates: NAME=true,NAME=false.
    #[arg(long, env = "FEATURE_GATES", default_value = "")]
    pub feature_gates: String,
    /// Who runs the IMEX daemons: hostManaged or driverManaged; empty means that the feature gates decide.
    #[arg(long, env = "IMEX_MODE", default_value = "")]
    pub imex_mode: String,
    /// Isolation of workloads in one fabric: none, or channel, which gives each ComputeDomain its own
    /// channel; if empty: channel in driver-managed mode, otherwise none.
    #[arg(long, env = "IMEX_ISOLATION", default_value = "")]
    pub imex_isolation: String,
    /// How many claims can use a node's device at the same time: one, or many; if empty: many if
    /// isolation is channel, otherwise one.
    #[arg(long, env = "IMEX_SHARING", default_value = "")]
    pub imex_sharing: String,
    /// Maximum number of claims that share a node's device if sharing is many; empty means 64.
    #[arg(long, env = "IMEX_SLOTS", default_value = "")]
    pub imex_slots: String,
    /// Number of IMEX channels on each node, as set in the options of the node's NVIDIA driver; empty means
    /// 2048.
    #[arg(long, env = "IMEX_CHANNEL_COUNT", default_value = "")]
    pub imex_channel_count: String,
    /// Whether a group of pods in one NVLink clique can get a channel through one claim: true or false;
    /// empty means false.
    #[arg(long, env = "IMEX_GROUP_CLAIMS", default_value = "")]
    pub imex_group_claims: String,
    /// Control socket of the host's nvidia-imex, as a path on the host; empty means that the socket is not probed.
    #[arg(long, env = "IMEX_HOST_SOCKET_PATH", default_value = "")]
    pub imex_host_socket_path: String,
    /// What to do with the device of a node without a clique: publish, or taint, so that new pods go
    /// elsewhere; if empty: taint in host-managed mode with isolation channel, otherwise publish.
    #[arg(long, env = "IMEX_WITHOUT_CLIQUE", default_value = "")]
    pub imex_without_clique: String,
    /// What to do with the device of a node with a degraded fabric: publish, or taint, so that new pods go
    /// elsewhere; empty means publish.
    #[arg(long, env = "IMEX_DEGRADED_FABRIC", default_value = "")]
    pub imex_degraded_fabric: String,
}

/// The endpoint of health and metrics: `--http-endpoint` (`HTTP_ENDPOINT`) and `--metrics-path`
/// (`METRICS_PATH`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// Address of /livez, /readyz and the metrics: ":8080", "127.0.0.1:8080"; empty means no server.
    #[arg(long, env = "HTTP_ENDPOINT", default_value = "")]
    pub http_endpoint: String,
    /// Path of the metrics; empty means no metrics.
    #[arg(long, env = "METRICS_PATH", default_value = "/metrics")]
    pub metrics_path: String,
}

// === impl LogArgs ===

impl LogArgs {
    /// Logs to stderr, including panics. Call it once per process.
    ///
    /// klog's numbers mean these tracing levels and all more severe ones. `RUST_LOG` has no effect.
    ///
    /// | `-v` | the program | the libraries of kube, gRPC, HTTP and TLS |
    /// |---|---|---|
    /// | 0 to 3 | `INFO` | `WARN` |
    /// | 4, 5 | `DEBUG` | `WARN` |
    /// | 6, 7 | `TRACE`, with every request to the API server | `DEBUG` |
    /// | 8 and more | `TRACE` | `TRACE` |
    ///
    /// Up to 5, kube's client logs nothing: it would log every watch that breaks off.
    ///
    /// # Errors
    /// If logging is already installed.
    pub fn install(&self) -> Result<(), StartError> {
        logs::install(self.verbosity, self.logging_format).map_err(|err| {
            StartError::new(&err, "this is a bug: install logging once per process")
        })?;
        logs::install_panic_hook();
        Ok(())
    }
}

fn parse_verbosity(text: &str) -> Result<u8, std::num::ParseIntError> {
    if text.is_empty() { Ok(0) } else { text.parse() }
}

fn parse_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "" | "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be text or json"),
    }
}

// === impl KubeArgs ===

impl KubeArgs {
    /// Builds a client with a deadline for every request. Does not connect.
    ///
    /// Each request of the client and its clones sets the condition `api_server`. A response of any
    /// status (including 403, 404 and 409) makes it met, except 401 (rejected credentials) and 5xx (server
    /// failure). These make it unmet, and so does a request without a response, for example after a
    /// connection error or the deadline. Of a watch, only the start counts.
    ///
    /// Nothing else probes the API server. The condition keeps the result of the last request until the
    /// next one ends, even if that takes long.
    ///
    /// # Errors
    /// If there is neither a usable kubeconfig nor a service account.
    pub async fn client(&self, api_server: &ReadinessCondition) -> Result<Client, StartError> {
        Ok(client::build(Path::new(&self.kubeconfig), api_server).await?)
    }
}

// === impl ImexArgs ===

impl ImexArgs {
    /// Resolves and checks the options.
    ///
    /// # Errors
    /// One line with the problem and the value to set.
    pub fn resolve(&self) -> Result<Settings, StartError> {
        let options = ImexOptions {
            feature_gates: &self.feature_gates,
            mode: &self.imex_mode,
            isolation: &self.imex_isolation,
            sharing: &self.imex_sharing,
            slots: &self.imex_slots,
            channel_count: &self.imex_channel_count,
            group_claims: &self.imex_group_claims,
            host_socket_path: &self.imex_host_socket_path,
            without_clique: &self.imex_without_clique,
            degraded_fabric: &self.imex_degraded_fabric,
        };
        Ok(options.resolve()?)
    }
}

/// Logs the settings, every gate that the mode forces, and warnings. Call it right after
/// [`LogArgs::install`].
// req: MODE-3
pub fn log_settings(settings: &Settings) {
    info!(
        mode = %settings.mode,
        isolation = %settings.isolation,
        sharing = %settings.sharing,
        channel_count = settings.channel_count,
        group_claims = settings.group_claims,
        host_socket = settings.host_socket_path.as_ref().map(|path| path.display().to_string()),
        without_clique = %settings.without_clique,
        degraded_fabric = %settings.degraded_fabric,
        feature_gates = %settings.gates,
        "IMEX settings: {}", settings.isolation.meaning(),
    );
    for forced in &settings.forced {
        info!(gate = %forced.gate, value = forced.value, "feature gate forced: {}", forced.reason());
    }
    for warning in &settings.warnings {
        warn!("{warning}");
    }
}

// === impl HttpArgs ===

impl HttpArgs {
    /// Binds the endpoint; `None` if it is empty.
    ///
    /// # Errors
    /// If the endpoint or the metrics path is invalid, or the port is in use.
    pub async fn bind(&self) -> Result<Option<HttpServer>, StartError> {
        if self.http_endpoint.is_empty() {
            return Ok(None);
        }
        let start_error = |err: HttpError| StartError::new(&err, err.hint());
        let addresses: Vec<SocketAddr> =
            listen_addresses(&self.http_endpoint).map_err(start_error)?;
        HttpServer::bind(&addresses, &self.metrics_path)
            .await
            .map(Some)
            .map_err(start_error)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct All {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        kube: KubeArgs,
        #[command(flatten)]
        imex: ImexArgs,
        #[command(flatten)]
        http: HttpArgs,
    }

    // req: MODE-10
    #[test]
    fn the_flags_of_the_go_driver_are_accepted() {
        let args = All::parse_from([
            "x",
            "-v",
            "4",
            "--logging-format",
            "json",
            "--kube-api-qps=5",
            "--kube-api-burst=10",
            "--feature-gates",
            "HostManagedIMEX=true,",
            "--imex-mode=hostManaged",
            "--imex-isolation=domain",
            "--http-endpoint=:8081",
            "--metrics-path",
            "/m",
        ]);
        assert_eq!(args.log.verbosity, 4);
        assert_eq!(args.log.logging_format, LogFormat::Json);
        assert_eq!(args.http.http_endpoint, ":8081");
        assert_eq!(args.imex.resolve().unwrap().mode.to_string(), "hostManaged");
    }

    // req: MODE-10
    #[test]
    fn empty_values_mean_not_set() {
        let args = All::parse_from([
            "x",
            "--v=",
            "--logging-format=",
            "--kube-api-qps=",
            "--imex-mode=",
            "--imex-isolation=",
            "--imex-host-socket-path=",
            "--imex-without-clique=",
            "--imex-degraded-fabric=",
            "--http-endpoint=",
            "--feature-gates=HostManagedIMEX=true",
        ]);
        assert_eq!(args.log.verbosity, 0);
        assert_eq!(args.imex.resolve().unwrap().host_socket_path, None);
    }

    #[test]
    fn a_bad_option_is_one_line_with_a_hint() {
        let args = All::parse_from(["x", "--imex-mode=foo"]);
        let line = args.imex.resolve().unwrap_err().to_string();
        assert!(
            line.starts_with("unknown imex.mode \"foo\"; set "),
            "{line}"
        );
    }
}
