//! The minimum that any plugin must do.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use futures_util::future::try_join_all;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::core::Request;
use kube::core::params::GetParams;
use kube::{Client, Resource as _};
use tempfile::TempDir;

use super::Driver;
use crate::disk::RawFile;
use crate::dra_proto as proto;

/// Reads claims and replaces files without decisions.
pub(super) struct Floor {
    client: Client,
    checkpoint: RawFile,
    spec: RawFile,
    /// Directories beside the plugin's files, on the same file systems.
    _directories: [TempDir; 2],
}

/// The plugin's current files, which the floor writes.
pub(super) struct Files {
    pub(super) checkpoint: Vec<u8>,
    spec: Vec<u8>,
}

// === impl Floor ===

impl Floor {
    pub(super) fn new(client: Client, driver: Driver) -> anyhow::Result<Self> {
        let beside = |path: &Path| tempfile::Builder::new().prefix("bench-").tempdir_in(path);
        let data = driver.data();
        let on_disk = beside(data.parent().context("the data directory has a parent")?)?;
        let in_memory = beside(Path::new("/run"))?;
        Ok(Self {
            client,
            checkpoint: RawFile::in_directory(on_disk.path())?,
            spec: RawFile::in_directory(in_memory.path())?,
            _directories: [on_disk, in_memory],
        })
    }

    pub(super) async fn get(&self, claims: &[proto::Claim]) -> anyhow::Result<()> {
        try_join_all(claims.iter().map(|claim| self.get_one(claim))).await?;
        Ok(())
    }

    async fn get_one(&self, claim: &proto::Claim) -> anyhow::Result<()> {
        let path = ResourceClaim::url_path(&(), Some(&claim.namespace));
        let request = Request::new(path).get(&claim.name, &GetParams::default())?;
        let text = self.client.request_text(request).await?;
        anyhow::ensure!(text.contains(&claim.uid), "another claim has the name");
        Ok(())
    }

    pub(super) fn write_checkpoint(&self, files: &Files) -> anyhow::Result<()> {
        Ok(self.checkpoint.replace("checkpoint", &files.checkpoint)?)
    }

    pub(super) fn write_spec(&self, files: &Files) -> anyhow::Result<()> {
        Ok(self.spec.replace("spec", &files.spec)?)
    }
}

// === impl Files ===

impl Files {
    pub(super) fn read(driver: Driver, held: &proto::Claim) -> anyhow::Result<Self> {
        let read = |path: PathBuf| {
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        Ok(Self {
            checkpoint: read(driver.data().join("checkpoint.json"))?,
            spec: read(driver.spec(&held.uid))?,
        })
    }
}
