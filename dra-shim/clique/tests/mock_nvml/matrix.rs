//! One walk over everything that NVML can do, and what the crate said.
//!
//! The table is `what_it_says.md`. After an intended change, write it anew with
//! `BLESS=1 cargo test -p nvml-clique --test mock_nvml matrix` and read the diff.

mod calls;
mod host;
mod time;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use nvml_clique::Fabric;

use crate::support::MockDriver;

/// Each call that the probe may make, and what the library has to lack for it
/// to be made.
const CALLS: [(&str, &[&str]); 11] = [
    ("nvmlInitWithFlags", &[]),
    ("nvmlInit_v2", &["nvmlInitWithFlags"]),
    ("nvmlInit", &["nvmlInitWithFlags", "nvmlInit_v2"]),
    ("nvmlDeviceGetCount_v2", &[]),
    ("nvmlDeviceGetCount", &["nvmlDeviceGetCount_v2"]),
    ("nvmlDeviceGetHandleByIndex_v2", &[]),
    (
        "nvmlDeviceGetHandleByIndex",
        &["nvmlDeviceGetHandleByIndex_v2"],
    ),
    ("nvmlDeviceGetName", &[]),
    ("nvmlDeviceGetUUID", &[]),
    ("nvmlDeviceGetGpuFabricInfoV", &[]),
    (
        "nvmlDeviceGetGpuFabricInfo",
        &["nvmlDeviceGetGpuFabricInfoV"],
    ),
];

/// What has been said, in order.
struct Table {
    text: String,
    rows: usize,
}

// === impl Table ===

impl Table {
    fn section(&mut self, title: &str) {
        let _ = write!(
            self.text,
            "\n## {title}\n\n| NVML | code | reason |\n|---|---|---|\n"
        );
    }

    /// Paths below `root` are told without it.
    fn row(&mut self, what: &str, root: &Path, fabric: &Fabric) {
        let root = root.to_str().unwrap();
        let said = fabric.to_string().replace(root, "ROOT");
        self.words(what, fabric.code(), &said);
        if fabric.clique().is_none() {
            assert!(!fabric.hint().is_empty(), "{what}: {fabric}");
        }
    }

    fn words(&mut self, what: &str, code: &str, said: &str) {
        assert!(!said.contains('\n'), "{what}: {said}");
        let _ = writeln!(self.text, "| {what} | `{code}` | {said} |");
        self.rows += 1;
    }

    fn driver(&mut self, what: &str, driver: &MockDriver) {
        self.row(what, driver.root(), &driver.fabric());
    }
}

#[test]
fn what_the_crate_says_to_everything_that_nvml_does_is_what_is_written_down() {
    let mut table = Table {
        text: "# What nvml-clique says\n\nWritten by a test that walks all of it against the mock of NVML.\n".to_owned(),
        rows: 0,
    };
    host::files(&mut table);
    host::states(&mut table);
    host::health(&mut table);
    calls::versions(&mut table);
    calls::missing_symbols(&mut table);
    calls::misbehaviour(&mut table);
    time::delays_and_hangs(&mut table);
    time::coming_and_going(&mut table);
    calls::error_codes(&mut table);
    let _ = write!(table.text, "\n{} rows.\n", table.rows);
    println!("{}", table.text);
    compare(&table.text);
}

fn compare(said: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock_nvml/what_it_says.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(golden, said).unwrap();
        return;
    }
    let written = fs::read_to_string(golden).unwrap_or_default();
    let differs = said
        .lines()
        .zip(written.lines())
        .find(|(said, written)| said != written);
    assert_eq!(differs, None, "said, and written down in what_it_says.md");
    assert_eq!(said.len(), written.len(), "lines are missing or left over");
}
