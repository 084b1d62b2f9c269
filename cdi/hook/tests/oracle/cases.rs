//! Generated root file systems, and the hooks that run in them.

use std::fmt::Write as _;
use std::fs;

use crate::container::Container;
use crate::library;

/// A case. Its fields are what the hooks get as arguments, and what decides on differences.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) number: u64,
    pub(crate) image: Image,
    links: Vec<String>,
    pub(crate) folders: Vec<&'static str>,
    driver: &'static str,
    params: Option<u8>,
    read_only: bool,
}

/// Which distribution the image is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Image {
    Debian,
    RedHat,
    Alpine,
    /// musl's loader in an image that is not Alpine.
    OtherMusl,
    /// No `/etc`.
    Empty,
}

struct Layout<'a> {
    random: fastrand::Rng,
    container: &'a Container,
}

const FOLDERS: [&str; 6] = [
    "/driver/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/opt/linked/lib",
    "/usr/local/lib",
];

// === impl Case ===

impl Case {
    pub(crate) fn lay_out(number: u64, container: &Container) -> Self {
        let mut layout = Layout {
            random: fastrand::Rng::with_seed(number),
            container,
        };
        layout.inside();
        let image = layout.image();
        layout.config(image);
        let folders = layout.folders();
        let links = layout.links();
        layout.compat();
        let driver = layout.one(&[
            "535.104",
            "535.104",
            "570.211.01",
            "570.211.01",
            "575.57.08",
            "580.65.06",
            "bad",
            "",
        ]);
        let params = layout.one(&[None, Some(0), Some(1), Some(1)]);
        // The mount point.
        if params.is_some() {
            container.write("/proc/driver/nvidia/params", layout_params(params));
        }
        Self {
            number,
            image,
            links,
            folders,
            driver,
            params,
            read_only: layout.random.u8(..) < 12,
        }
    }

    /// Commands that mount what a host and a runtime mount.
    pub(crate) fn mounts(&self) -> String {
        let mut script = String::new();
        if self.params.is_some() {
            let text = layout_params(self.params).replace('\n', "\\n");
            let driver = "/proc/driver";
            write!(
                script,
                "mount -t tmpfs none {driver}; mkdir {driver}/nvidia; "
            )
            .unwrap();
            write!(script, "printf '{text}' >{driver}/nvidia/params; ").unwrap();
        }
        if self.read_only {
            script += "mount -o remount,bind,ro rootfs; ";
        }
        script
    }

    pub(crate) fn nvidia_hooks(&self) -> Vec<String> {
        vec![
            format!("create-symlinks {}", self.link_flags()),
            format!("enable-cuda-compat --host-driver-version={}", self.driver),
            format!("update-ldcache {}", self.folder_flags()),
            "disable-device-node-modification".to_owned(),
        ]
    }

    pub(crate) fn container_hook(&self) -> String {
        let (links, folders) = (self.link_flags(), self.folder_flags());
        format!(
            "container {links} {folders} --host-driver-version={}",
            self.driver
        )
    }

    fn link_flags(&self) -> String {
        let flags = self.links.iter().map(|link| format!(" --link {link}"));
        flags.collect()
    }

    fn folder_flags(&self) -> String {
        let flags = self
            .folders
            .iter()
            .map(|folder| format!(" --folder {folder}"));
        flags.collect()
    }
}

fn layout_params(params: Option<u8>) -> String {
    let value = params.unwrap_or_default();
    format!("ResmanDebugLevel: 1\nModifyDeviceFiles: {value}\nDeviceFileMode: 438\n")
}

// === impl Layout ===

impl Layout<'_> {
    fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())]
    }

    /// Mostly, links to the host lead to a directory of the same name inside.
    fn inside(&mut self) {
        if self.random.u8(..8) > 0 {
            let outside = self.container.outside();
            let file = outside.join("inside");
            self.container.write(file.to_str().unwrap(), "");
        }
    }

    fn image(&mut self) -> Image {
        let musl = format!("/lib/ld-musl-{}.so.1", std::env::consts::ARCH);
        let image = self.one(&[
            Image::Debian,
            Image::Debian,
            Image::RedHat,
            Image::RedHat,
            Image::Alpine,
            Image::OtherMusl,
            Image::Empty,
        ]);
        match image {
            Image::Debian => self.container.write("/etc/debian_version", "12.1\n"),
            Image::RedHat => self.container.write("/etc/redhat-release", "9\n"),
            Image::Alpine => {
                self.container.write("/etc/alpine-release", "3.22\n");
                self.container.write(&musl, "");
            }
            Image::OtherMusl => {
                self.container.write("/etc/os-release", "ID=void\n");
                self.container.write(&musl, "");
            }
            Image::Empty => {}
        }
        image
    }

    fn config(&mut self, image: Image) {
        if image == Image::Empty {
            return;
        }
        let main = match self.random.u8(..8) {
            0 => "",
            1 | 4 | 5 => "include ld.so.conf.d/*.conf\n",
            2 => "/usr/local/lib\n",
            3 => "# comment\n/driver/lib\ninclude /etc/ld.so.conf.d/*.conf\n",
            _ => "include /etc/ld.so.conf.d/*.conf\n",
        };
        match self.random.u8(..16) {
            0..2 => {}
            2 => self.container.link("/etc/ld.so.conf", "missing"),
            3 => {
                self.container
                    .link("/etc/ld.so.conf", "/opt/conf/ld.so.conf");
                self.container.write("/opt/conf/ld.so.conf", main);
            }
            _ => self.container.write("/etc/ld.so.conf", main),
        }
        match self.random.u8(..8) {
            0 | 4 => self
                .container
                .write("/etc/ld.so.conf.d/libc.conf", "/usr/local/lib\n"),
            1 | 5 => self.container.write(
                "/etc/ld.so.conf.d/000.conf",
                "/opt/linked/lib\n/usr/lib64\n",
            ),
            2 => {
                self.container
                    .link("/etc/ld.so.conf.d", self.container.outside());
            }
            3 => {
                self.container.link("/etc/ld.so.conf.d", "/opt/conf.d");
                fs::create_dir_all(self.container.at("/opt/conf.d/x").parent().unwrap()).unwrap();
            }
            _ => {}
        }
    }

    fn folders(&mut self) -> Vec<&'static str> {
        let count = self.random.usize(1..4);
        self.container.write("/opt/real/lib/file", "");
        let target = self.one(&["/opt/real", "real", "../../../opt/real", "../opt/chain"]);
        self.container.link("/opt/linked", target);
        self.container.link("/opt/chain", "/opt/./real");
        let folders: Vec<&str> = (0..count).map(|_| self.one(&FOLDERS)).collect();
        for folder in &folders {
            if self.random.u8(..4) > 0 {
                // A link of the image must not be followed on the host.
                let folder = folder.replace("linked", "real");
                let path = format!("{folder}/libcuda.so.575.57.08");
                if !self.container.root().join(&path[1..]).exists() {
                    self.container.library(&path);
                }
            }
        }
        folders
    }

    /// Links to create, at places where something may be.
    fn links(&mut self) -> Vec<String> {
        let outside = self.container.outside();
        let mut links = Vec::new();
        for at in 0..self.random.usize(1..5) {
            let folder = format!("/links/{at}");
            let path = format!("{folder}/libcuda.so");
            let target = self.one(&[
                "libcuda.so.1",
                "/usr/lib64/libcuda.so.1",
                "../x/../libcuda.so.1",
            ]);
            match self.random.u8(..16) {
                0 => self.container.link(&path, target),
                1 => self.container.link(&path, "libcuda.so.0"),
                2 => self.container.write(&path, "a file"),
                3 => self.container.link(&path, outside.join("file")),
                4 => self.container.link(&folder, &outside),
                5 => self.container.link(&folder, "../../../../../../../../tmp"),
                6 => self.container.link(&folder, "/opt/real"),
                7 if self.random.u8(..4) == 0 => self.container.link(&folder, "/proc/self/cwd"),
                8 if self.random.bool() => self.container.link(&folder, folder.clone()),
                9 if self.random.bool() => {
                    fs::create_dir_all(self.container.at(&path).join("x")).unwrap();
                }
                _ => {}
            }
            links.push(format!("{target}::{path}"));
        }
        links
    }

    fn compat(&mut self) {
        let version = self.one(&["575.57.08", "575.99.1", "590.44.01", "550.1"]);
        let path = format!("/usr/local/cuda-13/compat/libcuda.so.{version}");
        let note = self.one(&[
            r#"{"format":1,"CUDA version":"12.9","driver":[535,570,575],"device":[1,2]}"#,
            r#"{"format":1,"CUDA version":"13.1","driver":[535,550,580]}"#,
            r#"{"format":1,"CUDA version":"13.2"}"#,
            r#"{"format":1,"CUDA version":"13.2",}"#,
        ]);
        match self.random.u8(..8) {
            0 => return,
            1 => self.container.write(&path, "not ELF"),
            2 => {
                self.container.write(&path, "");
                self.container.write(&format!("{path}.1"), "");
            }
            _ => self.container.write(&path, library::with_note(note)),
        }
        self.container.link(
            "/usr/local/cuda-13/compat/libcuda.so.1",
            "libcuda.so.575.57.08",
        );
        self.container
            .link("/etc-alternatives/cuda", "../usr/local/./cuda-13");
        let target = match self.random.u8(..8) {
            0 => "cuda".to_owned(),
            1 => format!("{}/usr/local/cuda-13", self.container.outside().display()),
            2 => "../../../../etc-alternatives/cuda".to_owned(),
            3 => "/etc-alternatives/cuda".to_owned(),
            _ => "cuda-13".to_owned(),
        };
        self.container.link("/usr/local/cuda", target);
    }
}
