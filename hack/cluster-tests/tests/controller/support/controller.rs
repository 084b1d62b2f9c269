//! The controller as a process that the test kills, pauses and queries.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use cluster_tests::{admin_kubeconfig, program_path, state_directory, until};

use super::{Fixture, lease};

/// The settings of a controller.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// Name of its pod; empty: `controller`.
    pub(crate) pod: &'static str,
    /// Whether it needs the test's lease.
    pub(crate) elected: bool,
    /// Its kubeconfig; none: the admin's.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Additional namespaces of the driver.
    pub(crate) additional_namespaces: String,
    /// The number of channels of a node, if each domain gets its own.
    pub(crate) channels: Option<u32>,
}

/// A controller of a test. Clones share the process; dropping the last one kills it.
#[derive(Clone)]
pub(crate) struct Controller(Arc<Inner>);

struct Inner {
    pod: &'static str,
    command: Vec<String>,
    port: u16,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Fixture {
    /// Starts the only controller and waits until it is ready.
    pub(crate) async fn start(&self) -> Result<Controller> {
        self.start_with(Setup::default()).await
    }

    /// Starts a controller and waits until it is ready.
    pub(crate) async fn start_with(&self, setup: Setup) -> Result<Controller> {
        let controller = Controller::new(self, setup)?;
        self.keep(&controller);
        controller.start()?;
        controller.until_ready().await;
        Ok(controller)
    }
}

impl Controller {
    fn new(on: &Fixture, setup: Setup) -> Result<Self> {
        static PORT: AtomicU16 = AtomicU16::new(18_000);
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let state = state_directory()?;
        let pod = if setup.pod.is_empty() {
            "controller"
        } else {
            setup.pod
        };
        let config = setup.kubeconfig.map_or_else(admin_kubeconfig, Ok)?;
        let program = std::env::var("CONTROLLER_PROGRAM")
            .or_else(|_| program_path("compute-domain-controller"))?;
        let mut command = vec![
            program,
            "--feature-gates=HostManagedIMEX=true".to_owned(),
            "-v=4".to_owned(),
            format!("--pod-name={pod}"),
            format!("--kubeconfig={}", config.display()),
            format!("--http-endpoint=127.0.0.1:{port}"),
        ];
        if let Some(count) = setup.channels {
            command.push("--imex-isolation=channel".to_owned());
            command.push(format!("--imex-channel-count={count}"));
        }
        if setup.elected {
            command.extend(lease::flags(&on.namespace));
        }
        // In the environment, as in the chart.
        let environment = [
            format!("NAMESPACE={}", on.namespace),
            format!("ADDITIONAL_NAMESPACES={}", setup.additional_namespaces),
        ];
        let prefix = ["setpriv", "--pdeathsig", "KILL", "env", "-i"];
        let prefix = prefix.map(str::to_owned);
        Ok(Self(Arc::new(Inner {
            pod,
            command: [&prefix[..], &environment, &command].concat(),
            port,
            log: state.join(format!("log/{}-{pod}.log", on.namespace)),
            child: Mutex::default(),
        })))
    }

    /// Starts the process without waiting.
    pub(crate) fn start(&self) -> Result<()> {
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.0.log)?;
        let [program, args @ ..] = &*self.0.command else {
            bail!("no command");
        };
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{:?} does not start", self.0.command))?;
        *self.child() = Some(child);
        Ok(())
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Kills it and starts it again.
    pub(crate) fn restart(&self) -> Result<()> {
        self.kill();
        self.start()
    }

    /// Stops it with SIGSTOP, as if its node hung.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal("STOP")
    }

    /// Continues it after [`Controller::pause`].
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal("CONT")
    }

    /// Sends SIGTERM. Returns its exit status, and how long that took.
    pub(crate) async fn terminate(&self) -> Result<(ExitStatus, Duration)> {
        let started = Instant::now();
        self.signal("TERM")?;
        let status = until("the controller has ended", async || {
            let status = self.child().as_mut().context("no process")?.try_wait()?;
            status.context("it runs")
        })
        .await;
        Ok((status, started.elapsed()))
    }

    /// The process's id. Fails if the process has ended.
    pub(crate) fn pid(&self) -> Result<u32> {
        let mut child = self.child();
        let child = child.as_mut().context("it was killed")?;
        if let Some(status) = child.try_wait()? {
            bail!(
                "it has ended: {status}, signal {:?}; {:?}",
                status.signal(),
                self.last_lines(3)
            );
        }
        Ok(child.id())
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.pid()?.to_string();
        let status = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(pid)
            .status()?;
        ensure!(status.success(), "kill -{signal} failed");
        Ok(())
    }

    /// Waits until `/readyz` reports ready.
    pub(crate) async fn until_ready(&self) {
        until(&format!("{} is ready", self.0.pod), async || self.ready()).await;
    }

    /// Fails with the response of `/readyz` if it is not ready.
    pub(crate) fn ready(&self) -> Result<()> {
        self.pid()?;
        let (status, body) = self.get("/readyz")?;
        ensure!(
            status == 200,
            "{} is not ready: {status} {body}",
            self.0.pod
        );
        Ok(())
    }

    /// The value of a series, written as in `/metrics`: `name{label="value"}`.
    pub(crate) fn metric(&self, series: &str) -> Result<u64> {
        let (_, body) = self.get("/metrics")?;
        let mut values = body
            .lines()
            .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = values
            .next()
            .with_context(|| format!("no {series} in /metrics"))?;
        Ok(value.parse()?)
    }

    /// Status code and body of a response.
    fn get(&self, path: &str) -> Result<(u16, String)> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.0.port));
        let limit = Duration::from_secs(2);
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.split(' ').nth(1).context("no status code")?;
        Ok((status.parse()?, body.to_owned()))
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.0.log).unwrap_or_default()).into_owned()
    }

    /// The lines of its log with `word` in them. Restarts append to the same log.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(word));
        lines.map(str::to_owned).collect()
    }

    fn last_lines(&self, count: usize) -> Vec<String> {
        let log = self.log();
        let lines: Vec<_> = log.lines().map(str::to_owned).collect();
        lines[lines.len().saturating_sub(count)..].to_vec()
    }

    pub(super) fn print_log(&self) {
        for line in self.last_lines(60) {
            eprintln!("{}: {line}", self.0.pod);
        }
        eprintln!(
            "{}: the complete log is in {}",
            self.0.pod,
            self.0.log.display()
        );
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.0.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(child) = self.child.get_mut().ok().and_then(Option::as_mut) {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
