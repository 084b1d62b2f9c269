//! Gates, `imex.mode` and `imex.isolation`: the options, both programs and the chart give the same
//! answer, in every row of one table.
//!
//! The second test runs the real programs and helm, which must be built. `hack/test.sh` does that; by
//! hand:
//!
//! ```sh
//! cargo build -p compute-domain-controller -p compute-domain-plugin
//! HELM=$(hack/cluster/build.sh)/bin/helm cargo test -p compute-domain-api --test modes -- --ignored
//! ```

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

mod chart;
mod program;
mod table;

use compute_domain_api::{ImexOptions, Settings};

use crate::chart::Chart;
use crate::program::Program;
use crate::table::{Row, TABLE};

/// The result of one of them for a row, in the format of the table.
#[derive(Debug, PartialEq)]
struct Answer {
    /// Mode and isolation, or the error's code.
    result: String,
    /// Forced gates and warnings.
    logged: Vec<String>,
}

impl Row {
    fn options(&self) -> ImexOptions<'static> {
        ImexOptions {
            feature_gates: self.gates,
            mode: self.mode,
            isolation: self.isolation,
            sharing: self.sharing,
            slots: self.slots,
            channel_count: self.channel_count,
            group_claims: self.group_claims,
            host_socket_path: "",
            without_clique: self.without_clique,
            degraded_fabric: self.degraded_fabric,
        }
    }

    fn answer(&self) -> Answer {
        Answer {
            result: self.result.to_owned(),
            logged: self.logged.iter().copied().map(str::to_owned).collect(),
        }
    }
}

impl Answer {
    fn accepted(settings: &Settings) -> Self {
        let forced = settings.forced.iter();
        let warnings = settings.warnings.iter();
        Self {
            result: format!(
                "{} {} {} {}{} {} {}",
                settings.mode,
                settings.isolation,
                settings.sharing,
                settings.channel_count,
                if settings.group_claims { " groups" } else { "" },
                settings.without_clique,
                settings.degraded_fabric
            ),
            logged: forced
                .map(|forced| format!("{}={}", forced.gate, forced.value))
                .chain(warnings.map(ToString::to_string))
                .collect(),
        }
    }

    fn refused(code: &str) -> Self {
        Self {
            result: code.to_owned(),
            logged: Vec::new(),
        }
    }
}

/// Fails with all differences, because several rows show a cause best.
fn assert_same(differences: &[String]) {
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// How `who` differs from the row, if it does.
fn difference(row: &Row, who: &str, answer: &Answer) -> Option<String> {
    (*answer != row.answer()).then(|| {
        let Row {
            gates,
            mode,
            isolation,
            sharing,
            slots,
            channel_count,
            group_claims,
            without_clique,
            degraded_fabric,
            ..
        } = row;
        let wanted = row.answer();
        format!("{gates:?} {mode:?} {isolation:?} {sharing:?} {slots:?} {channel_count:?} {group_claims:?} {without_clique:?} {degraded_fabric:?}: {who}: {answer:?}, not {wanted:?}")
    })
}

// req: MODE-1, MODE-2, MODE-7, MODE-8, MODE-11, MODE-12, MODE-14, MODE-15
#[test]
fn the_options_resolve_as_in_the_table() {
    let mut differences = Vec::new();
    for row in TABLE {
        let answer = match row.options().resolve() {
            Ok(settings) => Answer::accepted(&settings),
            Err(err) => Answer::refused(err.code()),
        };
        differences.extend(difference(row, "options", &answer));
    }
    assert_same(&differences);
}

// req: MODE-3, MODE-4
#[test]
#[ignore = "needs both programs and helm: see above"]
fn both_programs_and_the_chart_give_the_answers_of_the_table() {
    let programs = [
        Program::new("compute-domain-controller"),
        Program::new("compute-domain-kubelet-plugin"),
    ];
    let chart = Chart::new();
    let mut differences = Vec::new();
    for row in TABLE {
        for program in &programs {
            let answer = program.answer(row);
            differences.extend(difference(row, program.name(), &answer));
        }
        for (who, answer) in chart.answers(row) {
            differences.extend(difference(row, &who, &answer));
        }
        // Mode, isolation, sharing, and more.
        if row.result.contains(' ') {
            let notes = chart.notes(row);
            if !row.result.starts_with(&format!("{notes} ")) {
                let result = row.result;
                differences.push(format!("{result:?}: the notes are {notes:?}"));
            }
            let is_ours = row.result.starts_with("driverManaged ");
            if chart.starts_daemons(row) != is_ours {
                let (gates, mode) = (row.gates, row.mode);
                differences.push(format!(
                    "{gates:?} {mode:?}: the daemons do not match the mode"
                ));
            }
        }
    }
    assert_same(&differences);
}
