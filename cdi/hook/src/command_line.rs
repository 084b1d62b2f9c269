//! The command line: this program's `container`, and NVIDIA's sub-commands.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::compat::CompatStep;
use crate::error::HookError;
use crate::isolated;
use crate::ldconfig;
use crate::links::Link;
use crate::steps::{CacheStep, Steps};

pub(crate) const USAGE: &str = "\
Usage: nvidia-cdi-hook COMMAND [FLAGS] < OCI-STATE

A createContainer hook of containers with NVIDIA GPUs.

  container                         all of the following but the last two, in one process:
  create-symlinks                   --link TARGET::LINK ...
  enable-cuda-compat                --host-driver-version V  --host-cuda-version V
                                    --cuda-compat-container-root DIR
  update-ldcache                    --folder DIR ...  --ldconfig-path FILE  --ldconfig-timeout SECONDS (60)
  disable-device-node-modification
  update-application-profile
  chmod                             --path PATH ...  --mode MODE; does nothing

Each also has --container-spec FILE: where the state is read instead of standard input.
";

const COMPAT_FOLDER: &str = "/usr/local/cuda/compat";
/// Flags of NVIDIA's program before the sub-command.
const GLOBAL: [&str; 4] = ["--debug", "-d", "--quiet", "-debug"];

const STATE: &str = "container-spec";
const LINK: &str = "link";
const DRIVER: &str = "host-driver-version";
const CUDA: &str = "host-cuda-version";
const COMPAT: &str = "cuda-compat-container-root";
const FOLDER: &str = "folder";
const LDCONFIG: &str = "ldconfig-path";
const TIMEOUT: &str = "ldconfig-timeout";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Run(Steps),
    /// Become `ldconfig` in a root.
    Ldconfig {
        root: PathBuf,
        arguments: Vec<OsString>,
    },
    /// A hook of another version of NVIDIA's program. As there, the container starts without it.
    Unsupported(String),
    Help,
}

/// The flags that were passed: names without dashes, and values.
struct Flags(Vec<(&'static str, String)>);

// === impl Command ===

impl Command {
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, HookError> {
        let mut arguments = arguments.skip_while(|it| GLOBAL.iter().any(|flag| it == flag));
        let Some(command) = arguments.next() else {
            return Ok(Self::Help);
        };
        if command == isolated::COMMAND {
            let root = arguments.next().unwrap_or_default().into();
            let arguments = arguments.collect();
            return Ok(Self::Ldconfig { root, arguments });
        }
        let command = text(command)?;
        let Some(known) = flags_of(&command) else {
            let is_help = ["help", "--help", "-h"].contains(&command.as_str());
            return Ok(if is_help {
                Self::Help
            } else {
                Self::Unsupported(command)
            });
        };
        let rest: Result<Vec<String>, _> = arguments.map(text).collect();
        let flags = Flags::parse(&command, known, rest?)?;
        flags.steps(&command).map(Self::Run)
    }
}

/// The flags of a command, besides `--container-spec`.
fn flags_of(command: &str) -> Option<&'static [&'static str]> {
    Some(match command {
        "container" => &[LINK, DRIVER, CUDA, COMPAT, FOLDER, LDCONFIG, TIMEOUT],
        "create-symlinks" => &[LINK],
        "enable-cuda-compat" => &[DRIVER, CUDA, COMPAT],
        "update-ldcache" => &[FOLDER, LDCONFIG, TIMEOUT],
        "disable-device-node-modification" | "update-application-profile" => &[],
        "chmod" => &["path", "mode"],
        _ => return None,
    })
}

fn text(argument: OsString) -> Result<String, HookError> {
    argument.into_string().map_err(|argument| {
        HookError::Usage(format!("argument {} is not UTF-8", argument.display()))
    })
}

// === impl Flags ===

impl Flags {
    /// Parses `--name value` and `--name=value`. As in NVIDIA's program, one dash is enough.
    fn parse(
        command: &str,
        known: &'static [&'static str],
        arguments: Vec<String>,
    ) -> Result<Self, HookError> {
        let mut flags = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix('-') else {
                let reason = format!("unexpected argument {argument} of {command}");
                return Err(HookError::Usage(reason));
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let is_name = |it: &&&str| **it == name;
            let Some(known) = known.iter().chain(&[STATE]).find(is_name) else {
                let reason = format!("unknown flag --{name} of {command}");
                return Err(HookError::Usage(reason));
            };
            let Some(value) = value.or_else(|| arguments.next()) else {
                let reason = format!("flag --{name} of {command} has no value");
                return Err(HookError::Usage(reason));
            };
            flags.push((*known, value));
        }
        Ok(Self(flags))
    }

    fn steps(&self, command: &str) -> Result<Steps, HookError> {
        let is = |name: &str| command == name || command == "container";
        let links = self.all(LINK).map(Link::parse);
        Ok(Steps {
            state: self.last(STATE).filter(|file| *file != "-").map(Into::into),
            links: links.collect::<Result<_, _>>()?,
            compat: is("enable-cuda-compat").then(|| self.compat()).flatten(),
            cache: is("update-ldcache").then(|| self.cache()).transpose()?,
            denies_device_files: is("disable-device-node-modification"),
            writes_profile: command == "update-application-profile",
        })
    }

    /// Nothing can be decided without a version of the host.
    fn compat(&self) -> Option<CompatStep> {
        let host_driver = self.last(DRIVER).map(str::to_owned);
        let host_cuda = self.last(CUDA).map(str::to_owned);
        (host_driver.is_some() || host_cuda.is_some()).then(|| CompatStep {
            folder: self.last(COMPAT).unwrap_or(COMPAT_FOLDER).into(),
            host_driver,
            host_cuda,
        })
    }

    fn cache(&self) -> Result<CacheStep, HookError> {
        let timeout = match self.last(TIMEOUT) {
            None => ldconfig::DEFAULT_TIMEOUT,
            Some(text) => {
                let seconds: NonZeroU32 = text.parse().map_err(|_| {
                    HookError::Usage(format!("--{TIMEOUT} {text} is no number of seconds from 1"))
                })?;
                Duration::from_secs(u64::from(seconds.get()))
            }
        };
        Ok(CacheStep {
            folders: self.all(FOLDER).map(str::to_owned).collect(),
            ldconfig: Path::new(self.last(LDCONFIG).unwrap_or(ldconfig::DEFAULT)).into(),
            timeout,
        })
    }

    /// Values of a flag that can be repeated. As in NVIDIA's program, commas separate values, too.
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let flags = self.0.iter().filter(move |flag| flag.0 == name);
        flags.flat_map(|flag| flag.1.split(','))
    }

    /// The last value of a flag. An empty value is none.
    fn last(&self, name: &str) -> Option<&str> {
        let flag = self.0.iter().rfind(|flag| flag.0 == name)?;
        Some(flag.1.as_str()).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
#[path = "command_line_tests.rs"]
mod tests;
