//! The table of figures, one column for each program.

use std::io::Write;
use std::time::Duration;

use super::block::Measured;
use super::objects::MANY;
use crate::rounds::percentile;
use crate::table::verdict;

/// The limit for the time from exec until the slices are published, in ms.
const START_MS: f64 = 300.0;
/// The limit of anonymous memory.
const MEMORY_MIB: f64 = 8.0;
/// The limit for the time from an XID until its taint is published, in ms.
const TAINT_MS: f64 = 300.0;
/// The limit of the CPU time with health checks, in percent of a core.
const CPU_PERCENT: f64 = 0.1;

struct Figure {
    what: String,
    value: f64,
    /// The limit.
    aim: Option<f64>,
}

pub(super) fn write(out: &mut impl Write, programs: &[Measured]) -> anyhow::Result<()> {
    let columns: Vec<Vec<Figure>> = programs.iter().map(figures).collect();
    let Some((ours, others)) = columns.split_first() else {
        return Ok(());
    };
    let each = |cell: &str| cell.repeat(others.len());
    writeln!(
        out,
        "| | ours | aim | |{}\n|---|--:|--:|---|{}",
        each(" other | other / ours |"),
        each("--:|--:|")
    )?;
    for (row, Figure { what, value, aim }) in ours.iter().enumerate() {
        let aim_text = aim.map(|aim| aim.to_string()).unwrap_or_default();
        let met = aim.map_or("", |aim| verdict(*value <= aim));
        write!(out, "| {what} | {value:.2} | {aim_text} | {met} |")?;
        for other in others.iter().filter_map(|other| other.get(row)) {
            let ratio = (*value > 0.0).then(|| format!("{:.2}", other.value / value));
            write!(out, " {:.2} | {} |", other.value, ratio.unwrap_or_default())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn figures(measured: &Measured) -> Vec<Figure> {
    let figure = |what: String, value: f64, aim: Option<f64>| Figure { what, value, aim };
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let mib = |kib: u64| kib as f64 / 1024.0;
    let start = |percent| ms(percentile(measured.starts.iter().copied(), percent));
    let pods = measured.pods as f64;
    let calls = measured.rows.iter().map(|row| {
        let what = format!("{}; {} prepared; median, ms", row.operation, row.prepared);
        figure(what, ms(row.rounds.wall(50)), None)
    });
    let taint = |percent| ms(percentile(measured.taints.iter().copied(), percent));
    let idle = measured.idle.as_secs();
    let mut all = vec![
        figure(
            format!("exec to slices, median of {}, ms", measured.starts.len()),
            start(50),
            Some(START_MS),
        ),
        figure("exec to slices, slowest, ms".to_owned(), start(100), None),
        figure(
            format!("API writes of {} restarts", measured.restarts),
            measured.restart_writes as f64,
            Some(0.0),
        ),
        figure(
            format!("API requests in {idle} idle seconds"),
            measured.idle_requests as f64,
            None,
        ),
        figure(
            "the same with health checks".to_owned(),
            measured.monitored_requests as f64,
            Some(0.0),
        ),
        figure(
            "CPU of plugin and children meanwhile, % of a core".to_owned(),
            100.0 * measured.monitored_cpu.as_secs_f64() / measured.idle.as_secs_f64(),
            Some(CPU_PERCENT),
        ),
        figure(
            format!(
                "XID to taint in the slice, median of {}, ms",
                measured.taints.len()
            ),
            taint(50),
            Some(TAINT_MS),
        ),
        figure(
            "XID to taint in the slice, slowest, ms".to_owned(),
            taint(100),
            None,
        ),
        figure(
            "API requests for a pod: Prepare and Unprepare".to_owned(),
            measured.pod_requests as f64 / pods,
            Some(1.0),
        ),
    ];
    all.extend(calls);
    all.extend([
        figure(
            format!("{MANY} Prepares in a row, mean, ms"),
            ms(measured.in_a_row) / pods,
            None,
        ),
        figure(
            "RssAnon, registered, MiB".to_owned(),
            mib(measured.registered_kib),
            Some(MEMORY_MIB),
        ),
        figure(
            format!("RssAnon, {MANY} prepared, MiB"),
            mib(measured.prepared_kib),
            Some(MEMORY_MIB),
        ),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(start_ms: u64) -> Measured {
        Measured {
            starts: vec![Duration::from_millis(start_ms)],
            ..Measured::default()
        }
    }

    fn table(programs: &[Measured]) -> String {
        let mut out = Vec::new();
        write(&mut out, programs).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn another_program_has_a_column_and_its_ratio_to_ours() {
        let alone = table(&[measured(200)]);
        assert!(
            alone.contains("| exec to slices, median of 1, ms | 200.00 | 300 | met |\n"),
            "{alone}"
        );
        let both = table(&[measured(400), measured(1000)]);
        assert!(
            both.contains("ms | 400.00 | 300 | missed | 1000.00 | 2.50 |\n"),
            "{both}"
        );
        assert!(
            both.contains("restarts | 0.00 | 0 | met | 0.00 |  |\n"),
            "{both}"
        );
    }
}
