//! Where a container has a library: in the host's directory, if images search it, or else in a usual one.

/// Directories that programs in images do not search, and that only some hosts have: the store of `NixOS` and its
/// directory for the driver, and the prefix of Talos.
const PREFIXES: [&str; 3] = ["/nix/store/", "/run/opengl-driver/", "/usr/local/glibc/"];

/// The end of Bottlerocket's directory, in its own root and in that of its sysroot.
const SUFFIX: &str = "/usr/lib/nvidia/tesla";

/// A directory below a library directory that programs search by its name.
const NAMED_SUBDIR: &str = "/vdpau";

/// `e_machine` of the supported machines, and their usual directories.
const USUAL: [(u64, &str); 2] = [
    (62, "/usr/lib/x86_64-linux-gnu"),
    (183, "/usr/lib/aarch64-linux-gnu"),
];

/// The directory in a container for a library of `dir` (a path inside the driver root).
///
/// It is the same directory, so that paths in the driver's configuration files stay valid. Libraries in directories
/// that no image searches go to Debian's directory for the machine. CUDA images are built on Ubuntu or on Red Hat's
/// distribution. Programs that open a library by its whole path expect this one on Ubuntu; all others ask the loader,
/// which finds it in each image because the hook adds it to the loader's cache.
pub(crate) fn image_dir(dir: &str, machine: u64) -> String {
    let (base, subdir) = match dir.strip_suffix(NAMED_SUBDIR) {
        Some(base) => (base, NAMED_SUBDIR),
        None => (dir, ""),
    };
    let usual = USUAL.iter().find(|(number, _)| *number == machine);
    match usual {
        Some((_, usual)) if is_host_only(base) => format!("{usual}{subdir}"),
        _ => dir.to_owned(),
    }
}

fn is_host_only(dir: &str) -> bool {
    dir.ends_with(SUFFIX) || PREFIXES.iter().any(|prefix| dir.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_images_search_stays() {
        for dir in [
            "/usr/lib64",
            "/usr/lib",
            "/usr/lib/aarch64-linux-gnu/nvidia/current",
            "/opt/nvidia/lib/vdpau",
        ] {
            for (machine, _) in USUAL {
                assert_eq!(image_dir(dir, machine), dir);
            }
        }
    }

    #[test]
    fn directories_of_one_distribution_become_the_usual_one_of_the_machine() {
        for dir in [
            "/nix/store/abc-nvidia-x11-580.82.07/lib",
            "/run/opengl-driver/lib",
            "/usr/local/glibc/usr/lib",
            "/usr/lib/nvidia/tesla",
            "/aarch64-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia/tesla",
        ] {
            for (machine, usual) in USUAL {
                assert_eq!(image_dir(dir, machine), usual);
                let vdpau = image_dir(&format!("{dir}/vdpau"), machine);
                assert_eq!(vdpau, format!("{usual}/vdpau"));
            }
            assert_eq!(
                image_dir(dir, 21),
                dir,
                "a machine without a usual directory"
            );
        }
    }
}
