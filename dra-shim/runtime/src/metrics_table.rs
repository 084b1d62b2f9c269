//! Compares the metrics table in a program's README with the metrics that the program serves.

use std::collections::BTreeSet;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::readiness::Readiness;

/// Returns a line for each difference between a program's metrics and its README. The program serves
/// `registry` and the gauges of its conditions; the README has rows
/// `` | `NAME{LABEL,LABEL}` | meaning | ``. A family without a series is not served: create one before.
pub fn metrics_table_differences(mut registry: Registry, readme: &str) -> Vec<String> {
    let readiness = Readiness::default();
    readiness.add_condition("any", "not met");
    readiness.register_metrics(&mut registry);
    let mut text = String::new();
    if let Err(error) = encode(&mut text, &registry) {
        return vec![format!("the registry cannot be encoded: {error}")];
    }
    let (served, documented) = (served(&text), documented(readme));
    let lacking = served.difference(&documented);
    let lacking = lacking.map(|metric| format!("served, but not in the README: {metric}"));
    let stale = documented.difference(&served);
    let stale = stale.map(|metric| format!("in the README, but not served: {metric}"));
    lacking.chain(stale).collect()
}

/// `NAME{LABEL,LABEL}` of each metric, labels sorted.
fn served(text: &str) -> BTreeSet<String> {
    let histograms: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram"))
        .collect();
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series
        .filter_map(|line| {
            let (name, rest) = line.split_at(line.find(['{', ' '])?);
            let of_histogram = |it: &&&str| {
                let part = name.strip_prefix(**it);
                part.is_some_and(|part| ["_bucket", "_sum", "_count"].contains(&part))
            };
            let name = histograms.iter().find(of_histogram).unwrap_or(&name);
            let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let labels = labels.map_or("", |(labels, _)| labels).split("\",");
            let labels = labels.filter_map(|label| label.split_once('=').map(|(name, _)| name));
            Some(metric(name, labels.filter(|label| *label != "le")))
        })
        .collect()
}

fn documented(readme: &str) -> BTreeSet<String> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split_once('`').map(|(cell, _)| cell));
    let cells = cells.filter(|it| it.starts_with("imex_dra_") || it.starts_with("nvidia_dra_"));
    cells
        .map(|cell| match cell.split_once('{') {
            Some((name, labels)) => metric(name, labels.trim_end_matches('}').split(',')),
            None => cell.to_owned(),
        })
        .collect()
}

fn metric<'a>(name: &str, labels: impl Iterator<Item = &'a str>) -> String {
    let labels: Vec<&str> = labels.collect::<BTreeSet<_>>().into_iter().collect();
    match labels.as_slice() {
        [] => name.to_owned(),
        labels => format!("{name}{{{}}}", labels.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::histogram::Histogram;

    use super::*;

    fn mk_registry() -> Registry {
        let mut registry = Registry::default();
        let calls = Family::<[(&str, &str); 2], Counter>::default();
        calls
            .get_or_create(&[("method", "prepare"), ("end", "ok")])
            .inc();
        registry.register("imex_dra_calls", "Calls", calls);
        registry.register("imex_dra_seconds", "Time", Histogram::new([0.1, 1.0]));
        registry
    }

    const CONDITIONS: &str = "| `imex_dra_condition_met{condition}` | |\n";

    #[test]
    fn a_table_with_every_metric_has_no_differences() {
        let rows = "| `imex_dra_seconds` | |\n| `imex_dra_calls_total{end,method}` | calls |\n| `other` | |\n";
        let readme = format!("# Title\n\n| metric | |\n|---|---|\n{rows}{CONDITIONS}");
        assert_eq!(
            metrics_table_differences(mk_registry(), &readme),
            Vec::<String>::new()
        );
    }

    #[test]
    fn differing_names_and_labels_are_reported() {
        let rows = "| `imex_dra_calls_total{method}` | |\n| `nvidia_dra_gone` | |\n";
        assert_eq!(
            metrics_table_differences(mk_registry(), &format!("{rows}{CONDITIONS}")),
            [
                "served, but not in the README: imex_dra_calls_total{end,method}",
                "served, but not in the README: imex_dra_seconds",
                "in the README, but not served: imex_dra_calls_total{method}",
                "in the README, but not served: nvidia_dra_gone",
            ]
        );
    }
}
