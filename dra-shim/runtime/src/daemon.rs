//! The `main` function of the programs.

use std::io::Write as _;
use std::process::{ExitCode, Termination};
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use tokio::runtime::{Builder, Runtime};

use crate::StartError;

/// tokio's default is one per CPU: more than a hundred on GPU hosts, too many for a few requests a minute.
const WORKER_THREADS: usize = 2;

/// tokio's default is 512, each with a stack and an allocator arena. The kubelet plugin needs the most: one
/// for each of the 32 Prepares and 32 Unprepares that `dra-kubelet` runs concurrently, and one for each of
/// its own tasks.
const BLOCKING_THREADS: usize = 80;

/// How long an idle blocking thread is kept: longer than a pause within a burst of work.
const BLOCKING_THREAD_IDLE: Duration = Duration::from_secs(2);

/// Parses the command line and calls `run`, on a tokio runtime that this function creates.
///
/// Returns the result of `run`, `()` or its own exit code, and 0 for `--help` and `--version`. For a bad
/// command line or a [`StartError`] of `run`, prints one line `Error: ...` to stderr and returns 1. A panic
/// in `run` ends the program with code 101; a panic in a spawned task ends only that task. Blocking tasks
/// that still run when `run` returns are abandoned, so their writes must survive a kill at any moment.
///
/// `--help` begins with the doc comment of the program's `Args`, or its `about`. Without one, clap shows
/// that of a flattened group. Declare the program's own options before the flattened groups: clap lists
/// options after a group under that group's heading.
///
/// ```standalone_crate
/// use std::process::ExitCode;
///
/// use clap::Parser;
/// use daemon_runtime::{LogArgs, StartError, daemon};
///
/// /// Watches nodes.
/// #[derive(Debug, Parser)]
/// struct Args {
///     /// Name of this pod.
///     #[arg(long, env = "POD_NAME", default_value = "")]
///     pod_name: String,
///     #[command(flatten)]
///     log: LogArgs,
/// }
///
/// async fn run(args: Args) -> Result<(), StartError> {
///     args.log.install()
/// }
///
/// fn main() -> ExitCode {
///     daemon::main(run)
/// }
/// ```
pub fn main<A, F, T>(run: impl FnOnce(A) -> F) -> ExitCode
where
    A: Parser,
    F: Future<Output = Result<T, StartError>>,
    T: Termination,
{
    let args = match A::try_parse() {
        Ok(args) => args,
        Err(err)
            if matches!(
                err.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            // A closed stdout (`--help | head`) is not a failure.
            let _ = err.print();
            return ExitCode::SUCCESS;
        }
        Err(err) => return fail(&usage_error(&err)),
    };
    crate::client::install_tls_provider();
    match runtime() {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(args));
            // Do not wait for blocking calls: one that hangs (NVML can) must not keep the process alive.
            runtime.shutdown_background();
            outcome.map_or_else(|err| fail(&err), Termination::report)
        }
        Err(err) => fail(&err),
    }
}

fn runtime() -> Result<Runtime, StartError> {
    Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_THREAD_IDLE)
        .enable_all()
        .build()
        .map_err(|err| StartError::new(&err, "raise the limits on threads and open files"))
}

/// The first paragraph of clap's message. The rest is the usage, which `--help` prints.
fn usage_error(err: &clap::Error) -> StartError {
    let text = err.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.trim().trim_start_matches("error: ");
    StartError::from_line(&format!("{first}; see --help"))
}

// req: MODE-9
fn fail(err: &StartError) -> ExitCode {
    // Nothing can be reported if stderr is closed.
    let _ = writeln!(std::io::stderr(), "Error: {err}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[arg(long)]
        node_name: String,
        #[arg(long)]
        port: Option<u16>,
    }

    fn line(args: &[&str]) -> String {
        usage_error(&Args::try_parse_from(args).unwrap_err()).to_string()
    }

    #[test]
    fn a_bad_command_line_is_one_line() {
        assert_eq!(
            line(&["x"]),
            "the following required arguments were not provided: --node-name <NODE_NAME>; see --help"
        );
        assert_eq!(
            line(&["x", "--node-name=a", "--bogus"]),
            "unexpected argument '--bogus' found; see --help"
        );
        assert_eq!(
            line(&["x", "--node-name=a", "--port=b"]),
            "invalid value 'b' for '--port <PORT>': invalid digit found in string; see --help"
        );
    }
}
