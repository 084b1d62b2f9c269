//! The archive for a bug report. It has nothing but what is listed here.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use host_doctor::Host;
use host_doctor::facts::{Facts, SpecFileFacts};
use imex_cdi::{DRIVER_PARAMS, PROC_DEVICES};
use serde_json::Value;
use tar::{Builder, Header};

use super::report::DoctorReport;
use crate::outcome::{CommandError, Outcome};
use crate::output::{Report as _, write_json};
use crate::style::Style;

/// Files of the kernel without data of users.
const KERNEL_FILES: [&str; 4] = [
    PROC_DEVICES,
    DRIVER_PARAMS,
    "/proc/driver/nvidia/version",
    "/proc/sys/kernel/osrelease",
];

/// Replaces the value of an environment variable or mount option.
const REDACTED: &str = "(left out)";

/// A new archive, not yet written.
#[derive(Debug)]
pub(super) struct Bundle {
    path: PathBuf,
    file: File,
}

/// What an archive is made from.
pub(super) struct BundleContent<'a> {
    pub(super) report: &'a DoctorReport,
    pub(super) host: &'a Host,
    pub(super) facts: &'a Facts,
}

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error("cannot create the bundle {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot write the bundle {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// A file of the archive.
struct Entry {
    name: String,
    bytes: Vec<u8>,
}

// === impl Bundle ===

impl Bundle {
    /// Before anything is printed: a name that is taken is wrong usage.
    pub(super) fn create(path: &Path) -> Result<Self, BundleError> {
        let path = path.to_owned();
        let mut options = OpenOptions::new();
        let created = options.write(true).create_new(true).mode(0o600).open(&path);
        match created {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(BundleError::Create { path, source }),
        }
    }

    /// Returns the names of what is in it.
    pub(super) fn write(self, content: &BundleContent<'_>) -> Result<Vec<String>, BundleError> {
        let Self { path, file } = self;
        archive(content, file).map_err(|source| BundleError::Write { path, source })
    }
}

fn archive(content: &BundleContent<'_>, file: File) -> io::Result<Vec<String>> {
    let mut entries = entries(content)?;
    let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
    let manifest = names.join("\n") + "\n";
    entries.insert(
        0,
        Entry {
            name: "manifest.txt".to_owned(),
            bytes: manifest.into_bytes(),
        },
    );
    let mut archive = Builder::new(file);
    for Entry { name, bytes } in entries {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(
            &mut header,
            format!("cdi-gen-doctor/{name}"),
            bytes.as_slice(),
        )?;
    }
    archive.into_inner()?.sync_all()?;
    Ok(names)
}

fn entries(content: &BundleContent<'_>) -> io::Result<Vec<Entry>> {
    let (mut text, mut json) = (Vec::new(), Vec::new());
    let report = content.report.redacted();
    report.write_text(Style::plain(), &mut text)?;
    write_json(&report, &mut json)?;
    let mut entries = vec![
        Entry {
            name: "report.txt".to_owned(),
            bytes: text,
        },
        Entry {
            name: "report.json".to_owned(),
            bytes: json,
        },
        Entry {
            name: "claims.txt".to_owned(),
            bytes: content.facts.claims.table().into_bytes(),
        },
    ];
    entries.extend(KERNEL_FILES.iter().filter_map(|path| {
        Some(Entry {
            name: format!("host{path}"),
            bytes: content.host.files().read(path).ok()??,
        })
    }));
    let specs = content.facts.specs.files.iter();
    entries.extend(specs.filter_map(|file| {
        Some(Entry {
            name: format!("host{}", file.path),
            bytes: without_values(file)?,
        })
    }));
    Ok(entries)
}

/// A valid spec as JSON, without what may be secret in it; nothing of another.
fn without_values(file: &SpecFileFacts) -> Option<Vec<u8>> {
    let spec = file.spec.as_ref().ok()?;
    let mut document: Value = serde_json::from_slice(&spec.to_json()).ok()?;
    redact(&mut document);
    serde_json::to_vec_pretty(&document).ok()
}

/// Environment variables and mount options, such as `password=`, keep their
/// names; annotations and hooks' arguments are whatever a vendor puts there.
// req: DOCTOR-7
fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "env" => keep_names(member),
                    "options" => keep_options(member),
                    "annotations" | "args" => *member = REDACTED.into(),
                    _ => redact(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

fn keep_names(env: &mut Value) {
    for variable in env.as_array_mut().into_iter().flatten() {
        let text = variable.as_str().unwrap_or_default();
        let name = text.split_once('=').map_or("", |(name, _)| name);
        *variable = format!("{name}={REDACTED}").into();
    }
}

fn keep_options(options: &mut Value) {
    for option in options.as_array_mut().into_iter().flatten() {
        let name = option.as_str().and_then(|it| it.split_once('='));
        if let Some((name, _)) = name {
            *option = format!("{name}={REDACTED}").into();
        }
    }
}

// === impl BundleError ===

impl CommandError for BundleError {
    fn outcome(&self) -> Outcome {
        Outcome::Io
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Create { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                "nothing is overwritten: choose another name"
            }
            Self::Create { .. } => "choose a directory that is there and can be written",
            Self::Write { .. } => "look for space on its disk, and remove what is there of it",
        };
        Some(hint.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_that_may_be_secret_is_left_in_a_spec() {
        let mut document = json!({
            "annotations": {"a": "s3cret"},
            "devices": [{"name": "d", "containerEdits": {
                "env": ["TOKEN=s3cret", "s3cret"],
                "hooks": [{"path": "/bin/x", "args": ["s3cret"], "env": ["A=s3cret"]}],
                "mounts": [{"options": ["ro", "password=s3cret", "user=a,pass=s3cret"]}],
            }}],
        });
        redact(&mut document);
        let text = document.to_string();
        assert!(!text.contains("s3cret"), "{text}");
        for kept in ["TOKEN=", "/bin/x", r#""ro""#, "password=("] {
            assert!(text.contains(kept), "{text}");
        }
    }
}
