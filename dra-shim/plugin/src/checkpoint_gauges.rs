//! Metrics of the checkpoint file: size and modification time.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use dra_checkpoint::CHECKPOINT_FILE;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Path of the checkpoint.
#[derive(Debug)]
struct CheckpointFile(PathBuf);

/// Registers the metrics of the checkpoint in `directory`.
pub(crate) fn register(registry: &mut Registry, directory: &Path) {
    registry.register_collector(Box::new(CheckpointFile(directory.join(CHECKPOINT_FILE))));
}

// === impl CheckpointFile ===

impl Collector for CheckpointFile {
    /// Reads the file's metadata at each scrape. No file, no metrics: the first claim creates it.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(file) = fs::metadata(&self.0) else {
            return Ok(());
        };
        let mut gauge = |name: &str, help: &str, value: f64| {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)
        };
        let modified = file.modified().ok();
        let modified = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        gauge(
            "imex_dra_checkpoint_modified_timestamp_seconds",
            "Time of the last write of the checkpoint",
            modified.unwrap_or_default().as_secs_f64(),
        )?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a checkpoint is far below 2^52 bytes"
        )]
        let bytes = file.len() as f64;
        gauge(
            "imex_dra_checkpoint_size_bytes",
            "Size of the checkpoint",
            bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_the_checkpoint_appear_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut registry = Registry::default();
        register(&mut registry, dir.path());
        let scrape = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(!scrape().contains("imex_dra_checkpoint"));
        fs::write(dir.path().join(CHECKPOINT_FILE), "12345").unwrap();
        let text = scrape();
        assert!(
            text.contains("imex_dra_checkpoint_size_bytes 5.0\n"),
            "{text}"
        );
        assert!(
            text.contains("imex_dra_checkpoint_modified_timestamp_seconds 1"),
            "{text}"
        );
    }
}
