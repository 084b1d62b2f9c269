//! A stand-in for `nvidia-imex-ctl`. See the library of this package.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use imex_mock::config::Config;
use imex_mock::endpoint::{self, Endpoint, Query};
use imex_mock::faults::Faults;
use imex_mock::program::driver_root;

/// The command-line arguments.
struct Args {
    target: Target,
    question: Query,
}

/// The daemon to query.
enum Target {
    /// The one with this configuration.
    Config(PathBuf),
    Endpoint(Endpoint),
}

fn main() -> ExitCode {
    let result = run();
    // The reader may have closed the pipe.
    let _ = match &result {
        Ok(answer) => writeln!(io::stdout(), "{}", answer.trim_end()),
        Err(error) => writeln!(io::stderr(), "{error}"),
    };
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run() -> Result<String, String> {
    let args = parse()?;
    let root = driver_root();
    if Faults::read(&root)?.ctl_hangs {
        hang();
    }
    if let Some(answer) = written_state(&root, &args) {
        return answer;
    }
    let endpoint = match args.target {
        Target::Endpoint(endpoint) => endpoint,
        Target::Config(path) => endpoint_of(&path)?,
    };
    endpoint::ask(&endpoint, args.question)
        .map_err(|err| format!("Failed to connect to {endpoint:?}: {err}"))
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// The answer in the root's file `imex-state`, if it exists, as for the script of this name: the state
/// (FAIL fails, HANG hangs), and the only socket that answers, if any.
fn written_state(root: &Path, args: &Args) -> Option<Result<String, String>> {
    let text = fs::read_to_string(root.join("imex-state")).ok()?;
    let mut lines = text.lines();
    let state = lines.next().unwrap_or("UNAVAILABLE");
    let listens = lines.next().filter(|line| !line.is_empty());
    let asked = match &args.target {
        Target::Endpoint(Endpoint::Socket(path)) => Some(path.as_path()),
        _ => None,
    };
    let is_other = asked.is_some() && listens.is_some() && asked != listens.map(Path::new);
    Some(match state {
        "HANG" => hang(),
        state if state == "FAIL" || is_other => Err("Failed to connect to the daemon".to_owned()),
        state => Ok(state.to_owned()),
    })
}

fn endpoint_of(path: &Path) -> Result<Endpoint, String> {
    let config = Config::read(path).map_err(|err| {
        format!(
            "Failed to read configuration file {}: {err}",
            path.display()
        )
    })?;
    if let Some(socket) = config.get("IMEX_CMD_UNIX_DOMAIN_PATH") {
        return Ok(Endpoint::Socket(socket.into()));
    }
    let ip = config
        .get("IMEX_CMD_BIND_INTERFACE_IP")
        .unwrap_or("127.0.0.1");
    let ip = ip
        .parse()
        .map_err(|_| format!("{ip:?} is not an IP address"))?;
    let port = config.number("IMEX_CMD_PORT", 50005)?;
    let port = u16::try_from(port).map_err(|_| "IMEX_CMD_PORT is not a port")?;
    Ok(Endpoint::Address(ip, port))
}

fn parse() -> Result<Args, String> {
    let mut target = Target::Config("/etc/nvidia-imex/config.cfg".into());
    let mut question = None;
    let mut args = std::env::args().skip(1);
    let socket = |path: &str| Target::Endpoint(Endpoint::Socket(path.into()));
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "-q" => question = Some(Query::State),
            "-N" => question = Some(Query::Domain),
            "-j" | "-H" => {}
            "-t" => drop(value()?),
            "-c" => target = Target::Config(value()?.into()),
            "-u" => target = socket(&value()?),
            "-i" => {
                let ip = value()?.parse().map_err(|_| "-i needs IP and port")?;
                let port = value()?.parse().map_err(|_| "-i needs IP and port")?;
                target = Target::Endpoint(Endpoint::Address(ip, port));
            }
            _ => match arg.split_once('=') {
                Some(("-u" | "--u", path)) => target = socket(path),
                _ => return Err(format!("unknown argument {arg}")),
            },
        }
    }
    let question = question.ok_or("the stand-in supports only -q and -N -j")?;
    Ok(Args { target, question })
}
