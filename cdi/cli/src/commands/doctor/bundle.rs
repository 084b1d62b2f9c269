//! The archive for a bug report. It contains only what is listed here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use host_doctor::Host;
use host_doctor::facts::{ClaimFacts, Facts, SpecFileFacts};
use imex_cdi::{DRIVER_PARAMS, PROC_DEVICES};
use serde_json::Value;
use tar::{Builder, Header};

use super::report::DoctorReport;
use crate::outcome::{Failure, Outcome};
use crate::output::{Report as _, write_json};
use crate::terminal::Style;

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

/// A file of the archive: its name and its content.
type Entry = (String, Vec<u8>);

// === impl Bundle ===

impl Bundle {
    /// Creates the file before anything is printed, so that an existing file fails early.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let path = path.to_owned();
        let mut options = OpenOptions::new();
        let created = options.write(true).create_new(true).mode(0o600).open(&path);
        let file = created.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AlreadyExists => "choose another name: the file exists",
                _ => "choose an existing, writable directory",
            };
            let what = format!("cannot create the bundle {}", path.display());
            Failure::caused_by(Outcome::Io, what, &error).hint(hint)
        })?;
        Ok(Self { path, file })
    }

    /// Writes the archive and returns the names of its files.
    pub(super) fn write(
        self,
        report: &DoctorReport,
        host: &Host,
        facts: &Facts,
    ) -> Result<Vec<String>, Failure> {
        let written = entries(report, host, facts).and_then(|it| archive(it, self.file));
        written.map_err(|error| {
            let what = format!("cannot write the bundle {}", self.path.display());
            Failure::caused_by(Outcome::Io, what, &error)
                .hint("free disk space, delete the incomplete bundle and retry")
        })
    }
}

fn archive(entries: Vec<Entry>, file: File) -> io::Result<Vec<String>> {
    let names: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
    let manifest = names.join("\n") + "\n";
    let manifest = ("manifest.txt".to_owned(), manifest.into_bytes());
    let mut archive = Builder::new(file);
    for (name, bytes) in [manifest].into_iter().chain(entries) {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        let name = format!("cdi-gen-doctor/{name}");
        archive.append_data(&mut header, name, bytes.as_slice())?;
    }
    archive.into_inner()?.sync_all()?;
    Ok(names)
}

fn entries(report: &DoctorReport, host: &Host, facts: &Facts) -> io::Result<Vec<Entry>> {
    let (mut text, mut json) = (Vec::new(), Vec::new());
    let report = report.redacted();
    report.write_text(Style::plain(), &mut text)?;
    write_json(&report, &mut json)?;
    let claims: String = facts.claims.iter().map(ClaimFacts::table).collect();
    let mut entries = vec![
        ("report.txt".to_owned(), text),
        ("report.json".to_owned(), json),
        ("claims.txt".to_owned(), claims.into_bytes()),
    ];
    entries.extend(
        KERNEL_FILES
            .iter()
            .filter_map(|path| Some((format!("host{path}"), host.read(path).ok()??))),
    );
    let specs = facts.specs.files.iter();
    entries.extend(
        specs.filter_map(|file| Some((format!("host{}", file.path), without_values(file)?))),
    );
    Ok(entries)
}

/// A valid spec as JSON, without values that may be secret; `None` for an invalid one.
fn without_values(file: &SpecFileFacts) -> Option<Vec<u8>> {
    let spec = file.spec.as_ref().ok()?;
    let mut document: Value = serde_json::from_slice(&spec.to_json()).ok()?;
    redact(&mut document);
    serde_json::to_vec_pretty(&document).ok()
}

/// Environment variables and mount options, such as `password=`, keep their names; annotations and
/// hook arguments may hold anything, so they are left out.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_may_be_secret_are_left_out_of_a_spec() {
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
