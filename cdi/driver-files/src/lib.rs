//! Finds which files of an installed NVIDIA driver a container needs.
//!
//! ```text
//!  DriverRoot ──┐
//!               ├── DriverFiles::find ──► files, links, library_dirs, problems
//!  version ─────┘                                     │
//!   of the kernel module,             RuntimePaths ───┴─ container_edits ──► ContainerEdits
//!   or find_version
//! ```
//!
//! [`DriverFiles::find`] is a function of the directory tree and the version: it reads neither `/proc` nor the
//! environment, and calls no library of the driver. Its result is plain data. What is wrong with the installation is
//! in [`DriverFiles::problems`], beside what is usable.
//!
//! # Modules
//!
//! Each uses only modules above it.
//!
//! | purpose | modules |
//! |---|---|
//! | results | `version`, `problem`, `files` |
//! | read a root | `tree` (paths inside a root), `ld_cache` (directories in `ld.so.cache`), `directories` |
//! | find files | `image_dirs` (directories in containers), `libraries`, `links`, `other_files`; `find`, `find_version` |
//! | CDI | `edits` |

#![forbid(unsafe_code)]

mod directories;
mod edits;
mod files;
mod find;
mod find_version;
mod image_dirs;
mod ld_cache;
mod libraries;
mod links;
mod other_files;
mod problem;
mod tree;
mod version;

pub use edits::RuntimePaths;
pub use files::{DriverFile, DriverFiles, FileKind, Link};
pub use find_version::{VersionNotFound, find_version};
pub use problem::Problem;
pub use version::{DriverVersion, InvalidDriverVersion};

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
