//! A stand-in for `nvidia-imex`. See the library of this package.

use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use imex_mock::config::Config;
use imex_mock::domain::Domain;
use imex_mock::endpoint::{self, Endpoint};
use imex_mock::faults::Faults;
use imex_mock::node_list::{Hosts, LocalAddresses, NodeList};
use imex_mock::program::{driver_root, log};
use imex_mock::tls::Transport;
use imex_mock::{dialer, server};
use nix::sys::signal::{SigSet, Signal};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(&format!("ERROR: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    // Before the first thread, which inherits the mask: only `wait_for_signals` gets signals.
    let signals = block_signals().map_err(|err| format!("cannot block signals: {err}"))?;
    let (root, path) = (driver_root(), config_path()?);
    let faults = Faults::read(&root)?;
    if faults.in_use {
        return Err("failed to open the IMEX session of the GPU driver: NV_ERR_IN_USE".to_owned());
    }
    let config =
        Config::read(&path).map_err(|err| format!("cannot read {}: {err}", path.display()))?;
    if config.get("DAEMONIZE") != Some("0") {
        return Err("the stand-in runs in the foreground only: set DAEMONIZE=0".to_owned());
    }
    let hosts = Hosts::from_env();
    let domain = Arc::new(join(&config, &hosts, faults.wrong_id)?);
    serve(&config, &domain, &root)?;
    for index in (0..domain.nodes.names().len()).filter(|index| *index != domain.own) {
        let (domain, hosts) = (Arc::clone(&domain), hosts.clone());
        thread::spawn(move || dialer::run(&domain, &hosts, index));
    }
    run_faults(&domain, &faults);
    wait_for_signals(&signals, &domain);
    Ok(())
}

fn block_signals() -> nix::Result<SigSet> {
    let signals: SigSet = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGHUP,
    ]
    .into_iter()
    .collect();
    signals.thread_block()?;
    Ok(signals)
}

fn config_path() -> Result<PathBuf, String> {
    let mut path = PathBuf::from("/etc/nvidia-imex/config.cfg");
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-c" => path = args.next().ok_or("-c needs a file")?.into(),
            "--nogpu" | "-nogpu" => {}
            _ => return Err(format!("the stand-in supports -c FILE, not {arg:?}")),
        }
    }
    Ok(path)
}

/// Reads the node list and finds this node in it.
fn join(config: &Config, hosts: &Hosts, wrong_id: bool) -> Result<Domain, String> {
    let path = config
        .get("IMEX_NODE_CONFIG_FILE")
        .unwrap_or("/etc/nvidia-imex/nodes_config.cfg");
    let nodes = NodeList::read(Path::new(path));
    let nodes =
        nodes.map_err(|err| format!("Failed to read node configuration file {path}: {err}"))?;
    let local = LocalAddresses::new(config.get("BIND_INTERFACE_IP"));
    let own = nodes
        .index_of(hosts, &local)
        .ok_or("no line of the node configuration file is an address of this node")?;
    let address = nodes.names().get(own).and_then(|name| hosts.resolve(name));
    let address = address.ok_or("the address of this node is no longer in the hosts file")?;
    let own = if wrong_id {
        (own + 1) % nodes.names().len()
    } else {
        own
    };
    log(&format!(
        "Identified this node as ID {own}, using {address}"
    ));
    let port = config.number("SERVER_PORT", 50000)?;
    let port = u16::try_from(port).map_err(|_| "SERVER_PORT is not a port")?;
    let transport = Transport::new(config)?;
    Ok(Domain::new(nodes, own, (address, port), transport))
}

fn serve(config: &Config, domain: &Arc<Domain>, root: &Path) -> Result<(), String> {
    let target = (domain.address, domain.port);
    let listener = TcpListener::bind(target)
        .map_err(|err| format!("cannot listen on {}:{}: {err}", target.0, target.1))?;
    let served = Arc::clone(domain);
    thread::spawn(move || server::run(&served, &listener));
    if config.get("IMEX_CMD_ENABLED") == Some("0") {
        return Ok(());
    }
    let socket = config.get("IMEX_CMD_UNIX_DOMAIN_PATH");
    let socket = socket.map(|path| Endpoint::Socket(path.into()));
    let port = u16::try_from(config.number("IMEX_CMD_PORT", 50005)?).unwrap_or(0);
    let ip: Option<IpAddr> = config
        .get("IMEX_CMD_BIND_INTERFACE_IP")
        .and_then(|ip| ip.parse().ok());
    let address = ip.map(|ip| Endpoint::Address(ip, port));
    for endpoint in socket.into_iter().chain(address) {
        endpoint::serve(&endpoint, domain, root)
            .map_err(|err| format!("cannot listen for commands on {endpoint:?}: {err}"))?;
    }
    Ok(())
}

/// Becomes ready after the delay, and exits early with the fault `CRASH_AFTER_MS`.
fn run_faults(domain: &Arc<Domain>, faults: &Faults) {
    let (ready, delay) = (Arc::clone(domain), faults.start_delay);
    thread::spawn(move || {
        thread::sleep(delay);
        ready.set_state("READY");
        log("READY");
    });
    if let Some(after) = faults.crash_after {
        thread::spawn(move || {
            thread::sleep(after);
            log("FATAL: fault CRASH_AFTER_MS");
            std::process::exit(1);
        });
    }
}

/// Handles signals until one ends the daemon.
fn wait_for_signals(signals: &SigSet, domain: &Domain) {
    loop {
        match signals.wait() {
            Ok(Signal::SIGUSR1) => log(&match domain.redial() {
                Some(Ok(())) => "SIGUSR1: all names are resolved again".to_owned(),
                Some(Err(err)) => format!(
                    "SIGUSR1: all names are resolved again, and certificates are not read: {err}"
                ),
                None => "SIGUSR1 ignored: less than 5 s after the last one".to_owned(),
            }),
            // EINTR.
            Ok(Signal::SIGHUP) | Err(_) => {}
            Ok(signal) => {
                log(&format!("{signal}: SHUTTING_DOWN"));
                domain.set_state("SHUTTING_DOWN");
                domain.end();
                // Time for the connections to notice.
                thread::sleep(2 * endpoint::TICK);
                return;
            }
        }
    }
}
