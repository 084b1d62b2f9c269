//! `docs/reference/cdi-gen-json.md` describes the documents that `--json` prints.

use super::host::Host;
use super::schema::{Found, assert_documented, collect};

#[test]
fn of_doctor() {
    let mut found = Found::new();
    for (host, code) in [(Host::healthy(), 0), (Host::system(), 0)] {
        collect(&host.json("doctor --json", code), &[], &mut found);
    }
    assert_documented("cdi-gen/doctor/v1", &found);
}
