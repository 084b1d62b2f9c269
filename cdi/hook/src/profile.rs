//! The driver's application profile: which GPUs EGL and Vulkan see.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{SFlag, minor};

use crate::error::HookError;
use crate::root::{Entry, Root};

const PROFILE: &str = "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf";
const DEVICES: &str = "/dev";

/// Writes a profile with the GPUs whose device nodes the container has. Without GPUs, on a read-only root, and where
/// the file is a mount, there is none.
pub(crate) fn write(root: &Root) -> Result<(), HookError> {
    let devices = Path::new(DEVICES);
    let entries = root.list(devices).map_err(HookError::at("list", devices))?;
    let minors = entries.iter().flatten().filter_map(gpu_minor);
    // The driver's mask has 64 bits.
    let bits = minors
        .filter(|minor| *minor < 64)
        .map(|minor| 1_u64 << minor);
    let mask = bits.fold(0, |mask, bit| mask | bit);
    if mask == 0 {
        return Ok(());
    }
    let path = Path::new(PROFILE);
    match root.replace_file(path, &text(mask), 0o444) {
        Err(error) if is_unwritable(&error) => Ok(()),
        result => result.map_err(HookError::at("write", path)),
    }
}

fn is_unwritable(error: &std::io::Error) -> bool {
    let codes = [Errno::EROFS, Errno::EBUSY];
    codes
        .map(|it| Some(it as i32))
        .contains(&error.raw_os_error())
}

/// The minor number of a GPU's node: `nvidia0`, `nvidia1` and so on.
fn gpu_minor(entry: &Entry) -> Option<u64> {
    let is_device = SFlag::from_bits_truncate(entry.stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR;
    let number = entry.name.strip_prefix("nvidia")?;
    let is_gpu = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_device && is_gpu).then(|| minor(entry.stat.st_rdev))
}

fn text(mask: u64) -> String {
    format!(
        r#"{{"profiles":[{{"name":"_container_","settings":["EGLVisibleDGPUDevices",{mask:#x}]}}],"rules":[{{"pattern":[],"profile":"_container_"}}]}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_a_hexadecimal_number() {
        assert!(text(0b101).contains(r#"["EGLVisibleDGPUDevices",0x5]"#));
        let valid = text(1).replace("0x1", "1");
        serde_json::from_str::<serde_json::Value>(&valid).unwrap();
    }
}
