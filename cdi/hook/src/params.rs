//! The driver's parameters as the container sees them: with `ModifyDeviceFiles: 0`, the driver's libraries do not
//! create device nodes.

use std::io::Write as _;
use std::path::Path;
use std::{fs::File, io};

use nix::fcntl::{OFlag, openat};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;

use crate::error::HookError;
use crate::root::{Root, fd_path};

const FOLDER: &str = "/proc/driver/nvidia";
const PARAMS: &str = "/proc/driver/nvidia/params";
const MAX_PARAMS: u64 = 64 << 10;
const NONE: Option<&str> = None;
const FLAGS: MsFlags = MsFlags::MS_NOSUID
    .union(MsFlags::MS_NODEV)
    .union(MsFlags::MS_NOEXEC);

/// Mounts changed parameters over the container's, unless they say so already or there are none.
pub(crate) fn deny_device_files(root: &Root) -> Result<(), HookError> {
    let path = Path::new(PARAMS);
    let params = root
        .read(path, MAX_PARAMS)
        .map_err(HookError::at("read", path))?;
    let changed = params.and_then(|bytes| changed(&String::from_utf8_lossy(&bytes)));
    let Some(changed) = changed else {
        return Ok(());
    };
    replace(root, &changed).map_err(HookError::at("mount changed parameters over", path))
}

/// The parameters with `ModifyDeviceFiles: 0`, if they have 1.
fn changed(params: &str) -> Option<String> {
    let is_allowed = params.lines().any(|line| line == "ModifyDeviceFiles: 1");
    is_allowed.then(|| {
        let lines = params.lines().map(|line| match line {
            "ModifyDeviceFiles: 1" => "ModifyDeviceFiles: 0",
            other => other,
        });
        lines.flat_map(|line| [line, "\n"]).collect()
    })
}

/// Bind-mounts a file over the parameters. The file is on a tmpfs that is mounted, without effect on the image, over
/// the parameters' folder until then.
fn replace(root: &Root, text: &str) -> io::Result<()> {
    let params = root.file(Path::new(PARAMS))?;
    let folder = root.dir(Path::new(FOLDER))?;
    let options = Some("size=64k,mode=755");
    mount(
        Some("tmpfs"),
        &fd_path(&folder),
        Some("tmpfs"),
        FLAGS,
        options,
    )?;
    // `folder` is the directory below the mount.
    let scratch = root.dir(Path::new(FOLDER))?;
    let bound = write(&scratch, text).and_then(|copy| {
        let target = fd_path(&params);
        Ok(mount(
            Some(&fd_path(&copy)),
            &target,
            NONE,
            MsFlags::MS_BIND,
            NONE,
        )?)
    });
    umount2(&fd_path(&scratch), MntFlags::MNT_DETACH)?;
    bound?;
    // `params` is the file below the mount. A bind mount takes flags only when it is mounted again.
    let top = root.file(Path::new(PARAMS))?;
    let mounted = fd_path(&top);
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | FLAGS;
    mount(NONE, &mounted, NONE, read_only, NONE)?;
    Ok(mount(NONE, &mounted, NONE, MsFlags::MS_PRIVATE, NONE)?)
}

fn write(folder: &std::os::fd::OwnedFd, text: &str) -> io::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IRGRP | Mode::S_IROTH;
    let mut copy = File::from(openat(folder, "params", flags, mode)?);
    copy.write_all(text.as_bytes())?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parameter_itself_is_changed() {
        let params = "A: 1\nModifyDeviceFiles: 1\nDeviceFileMode: 438\n";
        let expected = "A: 1\nModifyDeviceFiles: 0\nDeviceFileMode: 438\n";
        assert_eq!(changed(params).as_deref(), Some(expected));
        for kept in [
            "",
            "ModifyDeviceFiles: 0\n",
            "ModifyDeviceFiles: 11",
            " ModifyDeviceFiles: 1",
        ] {
            assert_eq!(changed(kept), None, "{kept}");
        }
    }
}
