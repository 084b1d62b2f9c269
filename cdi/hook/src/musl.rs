//! musl's loader has a list of folders instead of a cache.

use std::path::Path;

use crate::error::HookError;
use crate::root::Root;

/// musl's folders while its list does not exist.
const DEFAULT: [&str; 3] = ["/lib", "/usr/local/lib", "/usr/lib"];
const MAX_LIST: u64 = 1 << 20;

/// Adds folders to the list of an image with musl's loader.
pub(crate) fn add_folders(root: &Root, folders: &[String]) -> Result<(), HookError> {
    let arch = std::env::consts::ARCH;
    let loader = format!("/lib/ld-musl-{arch}.so.1");
    let loader = Path::new(&loader);
    if !root
        .has_file(loader)
        .map_err(HookError::at("open", loader))?
    {
        return Ok(());
    }
    let list = format!("/etc/ld-musl-{arch}.path");
    let list = Path::new(&list);
    let existing = root
        .read(list, MAX_LIST)
        .map_err(HookError::at("read", list))?;
    let text = existing.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let Some(text) = extended(text.as_deref(), folders) else {
        return Ok(());
    };
    let written = root.replace_file(list, &text, 0o644);
    written.map_err(HookError::at("write", list))
}

/// The list with the folders, or `None` if it has them.
fn extended(list: Option<&str>, folders: &[String]) -> Option<String> {
    let Some(list) = list else {
        let defaults = DEFAULT.map(str::to_owned);
        let new = folders.iter().filter(|it| !defaults.contains(it));
        let all: Vec<String> = new.chain(&defaults).cloned().collect();
        return Some(all.join("\n") + "\n");
    };
    let mut all: Vec<&str> = list
        .split([':', '\n'])
        .filter(|it| !it.is_empty())
        .collect();
    let before = all.len();
    for folder in folders {
        if !all.contains(&folder.as_str()) {
            all.push(folder);
        }
    }
    (all.len() > before).then(|| all.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_list_begins_with_the_folders_and_keeps_the_defaults() {
        let folders = ["/driver".to_owned(), "/usr/lib".to_owned()];
        let list = extended(None, &folders).unwrap();
        assert_eq!(list, "/driver\n/lib\n/usr/local/lib\n/usr/lib\n");
    }

    #[test]
    fn an_existing_list_keeps_its_order_and_is_written_once() {
        let folders = ["/driver".to_owned(), "/b".to_owned()];
        let list = extended(Some("/a:/b"), &folders).unwrap();
        assert_eq!(list, "/a\n/b\n/driver\n");
        assert_eq!(extended(Some(&list), &folders), None);
    }
}
