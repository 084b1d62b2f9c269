//! Prints the results of the matrix.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::{Debug, Write as _};
use std::time::Duration;

use crate::matrix::{Cell, Column, Step};

/// The recovery time of each cell after its fault; `None`: failed.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<(&'static str, &'static str), Option<Duration>>);

impl Table {
    pub(crate) fn set(&mut self, step: Step, column: Column, took: Option<Duration>) {
        self.0.insert((step.name(), column.name()), took);
    }

    fn entry(&self, step: Step, column: Column) -> String {
        match self.0.get(&(step.name(), column.name())) {
            Some(Some(took)) => format!("{:.1} s", took.as_secs_f64()),
            Some(None) => "FAILED".to_owned(),
            None => "not run".to_owned(),
        }
    }
}

impl fmt::Display for Table {
    /// The table, followed by the reasons for cells without a fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons: Vec<&str> = Vec::new();
        write!(f, "| {:39} |", "recovered after the end of the fault in")?;
        for column in Column::ALL {
            write!(f, " {:>8} |", column.name())?;
        }
        writeln!(f, "\n|{}", "---|".repeat(1 + Column::ALL.len()))?;
        for step in Step::ALL {
            write!(f, "| {:39} |", step.name())?;
            for (column, cell) in Column::ALL.into_iter().zip(step.row()) {
                let entry = match cell {
                    Cell::Fault(_) => self.entry(step, column),
                    Cell::Never(reason) => {
                        let known = reasons.iter().position(|it| *it == reason);
                        let number = known.unwrap_or_else(|| {
                            reasons.push(reason);
                            reasons.len() - 1
                        });
                        format!("- ({})", number + 1)
                    }
                };
                write!(f, " {entry:>8} |")?;
            }
            writeln!(f)?;
        }
        for (number, reason) in reasons.iter().enumerate() {
            writeln!(f, "({}) {reason}", number + 1)?;
        }
        Ok(())
    }
}

/// The first lines in which `end` differs from `expected`.
pub(crate) fn differences(end: &impl Debug, expected: &impl Debug) -> String {
    let (end, expected) = (format!("{end:#?}"), format!("{expected:#?}"));
    let (mut ends, mut text) = (end.lines(), String::new());
    for expected in expected.lines() {
        let end = ends.next().unwrap_or("nothing");
        if end != expected {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} instead of {}", end.trim(), expected.trim());
        }
    }
    text.lines().take(10).collect::<Vec<_>>().join("\n")
}
