//! What `ldconfig` sees of the host. A shell takes its place, which runs `/etc/ld.so.conf` as a script: the hook
//! passes that path as argument of `-f`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::container::{Container, assert_succeeds, host_library, is_root, stderr};

const SHELL: &str = "/bin/dash";

/// A container with a shell's libraries, or `None` where there is no such shell.
fn with_shell(script: &str) -> Option<Container> {
    if !is_root() || !Path::new(SHELL).exists() {
        return None;
    }
    let container = Container::new();
    let listed = Command::new("ldd").arg(SHELL).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for library in listed.split_whitespace().filter(|it| it.starts_with('/')) {
        fs::copy(library, container.at(library)).unwrap();
    }
    container.write("/etc/ld.so.conf", script);
    Some(container)
}

// req: GPU-10
#[test]
fn ldconfig_is_the_first_process_in_the_containers_root_and_sees_no_proc() {
    let Some(container) = with_shell(
        "set +f
         echo $$ /* >/seen
         echo /proc/* /sys/* /host/* >>/seen
         (echo x >/proc/self/exe) 2>>/seen
         set -- ; exit 0\n",
    ) else {
        return;
    };
    let script = format!(
        "mkdir rootfs/proc rootfs/sys rootfs/host
         mount -t proc proc rootfs/proc; mount -t sysfs sys rootfs/sys; mount --rbind /proc rootfs/host
         $hook update-ldcache --ldconfig-path {SHELL} <state.json"
    );
    assert_succeeds(&container.script(&script));
    let seen = container.read("/seen").unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    let mut top: Vec<String> = fs::read_dir(container.root())
        .unwrap()
        .map(|it| format!("/{}", it.unwrap().file_name().display()))
        .collect();
    top.sort();
    top.retain(|it| it != "/seen");
    assert_eq!(lines[0], format!("1 {}", top.join(" ")));
    assert_eq!(lines[1], "/proc/* /sys/* /host/*");
    assert!(lines[2].contains("/proc/self/exe"), "{seen}");
}

#[test]
fn a_program_whose_loader_the_image_lacks_is_an_error_that_says_so() {
    if !is_root() || !Path::new(SHELL).exists() {
        return;
    }
    let output = Container::new().mounted(&format!("update-ldcache --ldconfig-path {SHELL}"));
    let error = stderr(&output);
    assert!(error.contains("the image needs its loader"), "{error}");
}

/// Here because a mount above the root is shared; on hosts that run from their initramfs, always.
#[test]
fn where_the_root_cannot_be_exchanged_it_is_covered() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.library("/driver/lib/libcuda.so.575.57.08");
    let hook = PathBuf::from(crate::container::HOOK);
    let libraries = host_library();
    assert!(libraries.starts_with("/lib") || libraries.starts_with("/usr"));
    let script = format!(
        "mkdir -p host; mount --make-shared /; mount --bind host host
         mkdir -p host/usr host/proc host/hook host/bundle
         mount --rbind /usr host/usr; mount --rbind /proc host/proc
         for name in bin sbin lib lib64; do
             if [ -L /$name ]; then ln -s usr/$name host/$name
             elif [ -d /$name ]; then mkdir host/$name; mount --rbind /$name host/$name; fi
         done
         mount --bind {} host/hook; mount --rbind . host/bundle
         echo '{{\"bundle\": \"/bundle\"}}' >inner.json
         chroot host /hook/nvidia-cdi-hook update-ldcache --folder /driver/lib <inner.json",
        hook.parent().unwrap().display()
    );
    assert_succeeds(&container.script(&script));
    assert!(container.read("/etc/ld.so.conf").is_some());
    assert!(container.root().join("etc/ld.so.cache").exists());
}
