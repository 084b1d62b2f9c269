//! Driver roots for tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nvidia_driver_files::{DriverFiles, DriverVersion};
use nvml_session::DriverRoot;

pub(crate) mod elf;

pub(crate) const VERSION: &str = "580.82.07";

/// A driver root in a temporary directory. Paths begin with `/`.
pub(crate) struct Root(tempfile::TempDir);

// === impl Root ===

impl Root {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.path().join(path.trim_start_matches('/'))
    }

    /// Writes a file, with its directories.
    pub(crate) fn put(&self, path: &str, content: &[u8]) -> &Self {
        let file = self.at(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    pub(crate) fn dir(&self, path: &str) -> &Self {
        fs::create_dir_all(self.at(path)).unwrap();
        self
    }

    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        let link = self.at(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, link).unwrap();
        self
    }

    /// Writes a library with a SONAME.
    pub(crate) fn library(&self, path: &str, soname: &str) -> &Self {
        self.put(path, &elf::library(elf::X86_64, Some(soname)))
    }

    /// Writes CUDA and NVML into `dir`, without links.
    pub(crate) fn driver(&self, dir: &str) -> &Self {
        for stem in ["libcuda", "libnvidia-ml"] {
            let path = format!("{dir}/{stem}.so.{VERSION}");
            self.library(&path, &format!("{stem}.so.1"));
        }
        self
    }

    pub(crate) fn find(&self) -> DriverFiles {
        DriverFiles::find(&DriverRoot::new(self.path()), &version())
    }
}

pub(crate) fn version() -> DriverVersion {
    VERSION.parse().unwrap()
}

/// A cache of the loader in glibc's new format.
pub(crate) fn ld_cache(paths: &[String]) -> Vec<u8> {
    let mut header = b"glibc-ld.so.cache1.1".to_vec();
    header.extend(u32::try_from(paths.len()).unwrap().to_le_bytes());
    header.resize(48, 0);
    let (mut entries, mut texts) = (Vec::new(), Vec::new());
    for path in paths {
        let at = 48 + 24 * paths.len() + texts.len();
        let name_at = at + path.rfind('/').unwrap() + 1;
        for number in [0x303, name_at, at, 0, 0, 0] {
            entries.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        texts.extend(path.bytes().chain([0]));
    }
    [header, entries, texts].concat()
}
