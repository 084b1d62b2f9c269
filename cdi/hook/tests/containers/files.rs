//! What the hook leaves in ordinary images.

use std::fs;

use crate::container::{Container, SONAME, assert_succeeds, is_root, stderr, stdout};

const CACHE: &str = "/etc/ld.so.cache";
const PARAMS: &str = "/proc/driver/nvidia/params";

#[test]
fn one_start_makes_links_cache_and_parameters() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.library("/driver/lib/libcuda.so.575.57.08");
    container.write(PARAMS, "A: 1\nModifyDeviceFiles: 1\n");
    container.write("/usr/local/cuda-13/compat/libcuda.so.580.1", "no ELF file");
    container.link("/usr/local/cuda", "cuda-13");
    let output = container.script(
        "$hook container --link libcuda.so.1::/driver/lib/libcuda.so --folder /driver/lib \
         --host-driver-version 575.57.08 <state.json
         cat rootfs/proc/driver/nvidia/params
         grep 'nvidia' /proc/self/mountinfo
         ldconfig -r rootfs -p",
    );
    assert_succeeds(&output);
    let printed = stdout(&output);
    assert!(
        printed.starts_with("A: 1\nModifyDeviceFiles: 0\n"),
        "{printed}"
    );
    let mounts: Vec<&str> = printed
        .lines()
        .filter(|it| it.contains(" - tmpfs"))
        .collect();
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    assert!(mounts[0].contains(" ro,nosuid,nodev,noexec"), "{mounts:?}");
    assert!(
        printed.contains(&format!("=> /driver/lib/{SONAME}")),
        "{printed}"
    );
    let link = fs::read_link(container.at("/driver/lib/libcuda.so")).unwrap();
    assert_eq!(link.to_str(), Some("libcuda.so.1"));
    let config = "/etc/ld.so.conf.d/00-compat-nvidia-cdi-hook.conf";
    assert_eq!(
        container.read(config).unwrap(),
        "/usr/local/cuda-13/compat\n"
    );
    // The image is as it was below the mount.
    assert!(
        container
            .read(PARAMS)
            .unwrap()
            .ends_with("ModifyDeviceFiles: 1\n")
    );
}

#[test]
fn a_second_start_with_a_newer_driver_takes_the_compatibility_folder_away() {
    let container = Container::new();
    container.write("/usr/local/cuda/compat/libcuda.so.580.1", "");
    let config = "/etc/ld.so.conf.d/00-compat-nvidia-cdi-hook.conf";
    assert_succeeds(&container.hook("enable-cuda-compat --host-driver-version 570.1"));
    assert!(container.read(config).is_some());
    assert_succeeds(&container.hook("enable-cuda-compat --host-driver-version 590.1"));
    assert!(container.read(config).is_none());
}

#[test]
fn two_compatibility_libraries_are_none() {
    let container = Container::new();
    for version in ["580.1", "580.2"] {
        container.write(&format!("/usr/local/cuda/compat/libcuda.so.{version}"), "");
    }
    assert_succeeds(&container.hook("enable-cuda-compat --host-driver-version 570.1"));
    assert!(!container.root().join("etc").exists());
}

#[test]
fn a_musl_image_gets_a_list_of_folders_and_links_by_soname() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    let arch = std::env::consts::ARCH;
    container.write(&format!("/lib/ld-musl-{arch}.so.1"), "");
    container.library("/driver/lib/libcuda.so.575.57.08");
    assert_succeeds(&container.mounted("update-ldcache --folder /driver/lib"));
    let list = container
        .read(&format!("/etc/ld-musl-{arch}.path"))
        .unwrap();
    assert_eq!(list, "/driver/lib\n/lib\n/usr/local/lib\n/usr/lib\n");
    assert!(container.at("/driver/lib").join(SONAME).is_symlink());
}

#[test]
fn an_image_without_the_include_has_the_folder_in_its_cache() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.write("/etc/ld.so.conf", "/usr/local/lib\n");
    container.library("/driver/lib/libcuda.so.575.57.08");
    let script = "$hook update-ldcache --folder /driver/lib <state.json; ldconfig -r rootfs -p";
    let output = container.script(script);
    assert_succeeds(&output);
    assert!(
        stdout(&output).contains("=> /driver/lib/"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_system_folder_of_other_distributions_is_in_the_cache_without_the_include() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.write("/etc/ld.so.conf", "/opt/x\n");
    container.library("/usr/lib64/libcuda.so.575.57.08");
    let script = "$hook update-ldcache --folder /usr/lib64 <state.json; ldconfig -r rootfs -p";
    let output = container.script(script);
    assert_succeeds(&output);
    let printed = stdout(&output);
    assert!(printed.contains("=> /usr/lib64/"), "{printed}");
}

#[test]
fn on_a_read_only_root_existing_links_are_kept_and_other_files_are_an_error() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.link("/lib/libcuda.so", "libcuda.so.1");
    container.write("/etc/ld.so.conf", "include ld.so.conf.d/*.conf\n");
    let read_only = "mount -o remount,bind,ro rootfs;";
    let link = |path: &str| {
        let hook =
            format!("{read_only} $hook create-symlinks --link libcuda.so.1::{path} <state.json");
        container.script(&hook)
    };
    assert_succeeds(&link("/lib/libcuda.so"));
    let error = stderr(&link("/lib/other.so"));
    let expected = "nvidia-cdi-hook: cannot create the link /lib/other.so in the container: Read-only file system";
    assert!(error.starts_with(expected), "{error}");
    let cache = format!("{read_only} $hook update-ldcache --folder /driver <state.json");
    let error = stderr(&container.script(&cache));
    let expected = "cannot write /etc/ld.so.conf.d/00-nvcr-nvidia-cdi-hook.conf in the container";
    assert!(error.contains(expected), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn parameters_that_deny_device_files_or_do_not_exist_are_left_alone() {
    if !is_root() {
        return;
    }
    for params in [None, Some("ModifyDeviceFiles: 0\n")] {
        let container = Container::new();
        if let Some(params) = params {
            container.write(PARAMS, params);
        }
        let script = "$hook disable-device-node-modification <state.json
                      ! grep ' - tmpfs.*rootfs\\|rootfs/proc' /proc/self/mountinfo";
        assert_succeeds(&container.script(script));
    }
}

#[test]
fn the_profile_has_the_gpus_of_the_container() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.write("/dev/nvidia7", "no device");
    let script = "mknod rootfs/dev/nvidia0 c 1 3; mknod rootfs/dev/nvidia12 c 1 5; mknod rootfs/dev/nvidiactl c 1 7
                  $hook update-application-profile <state.json";
    assert_succeeds(&container.script(script));
    let path = "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf";
    let profile = container.read(path).unwrap();
    assert!(
        profile.contains(r#""EGLVisibleDGPUDevices",0x28]"#),
        "{profile}"
    );
    let read_only = "mount -o remount,bind,ro rootfs; $hook update-application-profile <state.json";
    assert_succeeds(&container.script(read_only));
}

#[test]
fn a_host_without_ldconfig_is_an_error_with_a_way_out() {
    let container = Container::new();
    let error = stderr(&container.hook("update-ldcache --ldconfig-path /missing/ldconfig"));
    let expected = "no ldconfig on the host: /missing/ldconfig: No such file or directory";
    assert!(
        error.contains(expected) && error.contains("--ldconfig-path"),
        "{error}"
    );
    assert!(container.read(CACHE).is_none());
}

#[test]
fn a_failure_of_ldconfig_has_its_message() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.write("/etc/ld.so.cache~/file", "");
    let error = stderr(&container.mounted("update-ldcache --folder /driver"));
    assert!(
        error.contains("ldconfig failed in the container: "),
        "{error}"
    );
    assert!(error.contains("/etc/ld.so.cache~"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn wrong_input_is_one_line_with_the_reason() {
    let container = Container::new();
    let error = stderr(&container.hook("update-ldcache --folders /a"));
    let expected =
        "nvidia-cdi-hook: unknown flag --folders of update-ldcache; run `nvidia-cdi-hook --help`";
    assert!(error.starts_with(expected), "{error}");
    fs::remove_dir(container.root()).unwrap();
    let error = stderr(&container.hook("create-symlinks"));
    assert!(
        error.contains("/rootfs: No such file or directory"),
        "{error}"
    );
    fs::write(container.path().join("state.json"), "{}").unwrap();
    let error = stderr(&container.hook("create-symlinks"));
    assert!(
        error.contains("standard input: missing field `bundle`"),
        "{error}"
    );
    fs::write(container.path().join("state.json"), vec![b' '; 2 << 20]).unwrap();
    let error = stderr(&container.hook("create-symlinks"));
    assert!(error.contains("it is longer than 1048576 bytes"), "{error}");
}

#[test]
fn hooks_of_other_versions_do_not_stop_the_container() {
    let output = Container::new().hook("apply-cuda-memory-limits --gpu-id GPU-1");
    assert!(output.status.success());
    let expected = "nvidia-cdi-hook: hook apply-cuda-memory-limits is not supported\n";
    assert_eq!(stderr(&output), expected);
}
