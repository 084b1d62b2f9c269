//! The files of a driver as plain data.

use crate::problem::Problem;
use crate::version::DriverVersion;

/// What a container needs of an installed driver, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverFiles {
    /// The version that the files have.
    pub version: DriverVersion,
    /// The files, sorted by kind and container path. No two have the same container path.
    pub files: Vec<DriverFile>,
    /// Links to make in the container, sorted by path. None is at the path of a file.
    pub links: Vec<Link>,
    /// The container's directories with libraries, for the loader's cache: the directory of `libcuda` first.
    pub library_dirs: Vec<String>,
    /// What is wrong with the installation, sorted.
    pub problems: Vec<Problem>,
}

/// A file or socket of the driver root that a container gets at a path of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverFile {
    /// What the file is.
    pub kind: FileKind,
    /// The absolute path in the container.
    pub container_path: String,
    /// The absolute path inside the driver root, without links.
    pub host_path: String,
}

/// The kind of a file.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A library of the driver.
    Library,
    /// A library of an EGL platform, which has its own version.
    EglPlatform,
    /// A module of the X server.
    XorgModule,
    /// A program.
    Program,
    /// Firmware of the GPU's system processor.
    Firmware,
    /// A file by which the loaders of graphics and compute interfaces, or the X server, find the driver.
    Configuration,
    /// The socket of a daemon of the driver.
    Socket,
}

/// A symbolic link to make in the container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The absolute path of the link in the container.
    pub path: String,
    /// What the link contains: a path relative to the link's directory.
    pub target: String,
}

// === impl DriverFiles ===

impl DriverFiles {
    /// The container's directory with `libcuda`. `None` if the driver has no usable `libcuda`.
    pub fn libcuda_dir(&self) -> Option<&str> {
        let name = format!("/libcuda.so.{}", self.version);
        let mut libraries = self.of_kind(FileKind::Library);
        libraries.find_map(|file| file.container_path.strip_suffix(&name))
    }

    /// The files of a kind.
    pub fn of_kind(&self, kind: FileKind) -> impl Iterator<Item = &DriverFile> {
        self.files.iter().filter(move |file| file.kind == kind)
    }
}
