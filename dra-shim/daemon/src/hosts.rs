//! The pod's hosts file, which has the addresses of the names in the node list.
//!
//! kubelet mounts this file into the container, so it cannot be replaced by a rename. kubelet rewrites it whenever
//! it starts a container of the pod. Other lines are kept.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

const BEGIN: &str = "# Written by compute-domain-daemon: the members of this node's clique.";
const END: &str = "# End of the members.";

/// Prefix of every name in a node list, of any clique.
const NAME_PREFIX: &str = "compute-domain-daemon-";

/// A disk that needs more time is reported.
const LIMIT: Duration = Duration::from_secs(5);

/// Calls [`ensure`], then checks that the own name has the own address.
///
/// # Errors
/// The reason, as one sentence.
// req: DAEMON-8
pub(crate) async fn write(
    path: &Path,
    addresses: Vec<(IpAddr, String)>,
    (own, own_name): (IpAddr, String),
) -> Result<bool, String> {
    let (file, name) = (path.to_owned(), own_name.clone());
    let written = spawn_blocking(move || {
        let was_written = ensure(&file, &addresses)?;
        Ok::<_, io::Error>((was_written, resolve(&file, &name)?))
    });
    let path = path.display();
    let failed = |error: &dyn std::fmt::Display| format!("cannot write {path}: {error}");
    match timeout(LIMIT, written).await {
        Ok(Ok(Ok((was_written, Some(found))))) if found == own => Ok(was_written),
        Ok(Ok(Ok((_, found)))) => {
            let found = found.map_or_else(|| "no address".to_owned(), |it| format!("address {it}"));
            Err(format!("{path} has {found} for {own_name}; expected {own}"))
        }
        Ok(Ok(Err(error))) => Err(failed(&error)),
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => Err(failed(&format!("no response within {} s", LIMIT.as_secs()))),
    }
}

/// Writes these addresses into the file, and removes others of names of any node list. Returns whether it was
/// written.
///
/// Concurrent readers see other lines unchanged, but may see old and new addresses mixed.
// req: DAEMON-4
fn ensure(path: &Path, addresses: &[(IpAddr, String)]) -> io::Result<bool> {
    let current = fs::read_to_string(path)?;
    let wanted = render(&current, addresses);
    if current == wanted {
        return Ok(false);
    }
    // In place, without truncating it first: other lines come first.
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(wanted.as_bytes(), 0)?;
    file.set_len(wanted.len() as u64)?;
    Ok(true)
}

/// The address of a name in the file. As for resolvers, the first line with the name wins.
fn resolve(path: &Path, name: &str) -> io::Result<Option<IpAddr>> {
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        Some((address, words))
    });
    let found = lines.find(|(_, names)| names.clone().any(|it| it == name));
    Ok(found.map(|(address, _)| address))
}

fn render(current: &str, addresses: &[(IpAddr, String)]) -> String {
    let mut text = String::new();
    for line in current.lines().filter(|line| !is_ours(line)) {
        text.extend([line, "\n"]);
    }
    text.extend([BEGIN, "\n"]);
    for (address, name) in addresses {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{address}\t{name}");
    }
    text.extend([END, "\n"]);
    text
}

/// Also outside the markers: an interrupted write has no end marker.
fn is_ours(line: &str) -> bool {
    let mut names = line.split_whitespace().skip(1);
    line == BEGIN || line == END || names.any(|name| name.starts_with(NAME_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBELETS: &str =
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.2\tpod\n";

    fn mk_addresses(pairs: &[(&str, u32)]) -> Vec<(IpAddr, String)> {
        let name = |index| format!("{NAME_PREFIX}0123456789-{index:04}");
        let pairs = pairs.iter();
        pairs
            .map(|(address, index)| (address.parse().unwrap(), name(index)))
            .collect()
    }

    fn mk_file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        fs::write(&path, text).unwrap();
        (dir, path)
    }

    // req: DAEMON-4
    #[test]
    fn other_lines_are_kept_and_the_same_addresses_write_nothing() {
        let (_dir, path) = mk_file(KUBELETS);
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let before = inode(&path);
        let addresses = mk_addresses(&[("10.0.0.1", 0), ("10.0.0.2", 1)]);
        assert!(ensure(&path, &addresses).unwrap());
        assert!(!ensure(&path, &addresses).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(KUBELETS), "{text}");
        assert_eq!(text.lines().count(), 3 + 4);
        // A shorter list leaves no line of the longer one behind.
        assert!(ensure(&path, &addresses[..1]).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3 + 3);
        assert_eq!(inode(&path), before, "the file was replaced");
    }

    // req: DAEMON-4
    #[test]
    fn remains_of_an_interrupted_write_are_removed() {
        let addresses = mk_addresses(&[("10.0.0.1", 0)]);
        let whole = render(KUBELETS, &mk_addresses(&[("10.0.0.9", 0), ("10.0.0.8", 1)]));
        for cut in KUBELETS.len()..whole.len() {
            let text = render(&whole[..cut], &addresses);
            let names = text.matches(NAME_PREFIX).count();
            // A line that is cut within its name is not recognized as ours.
            assert!(names <= 2, "{cut}: {text}");
            assert!(text.contains("10.0.0.1\tcompute-domain-daemon-0123456789-0000"));
            assert_eq!(render(&text, &addresses), text, "{cut}");
        }
    }

    #[test]
    fn a_name_has_the_address_of_the_first_line_that_has_it() {
        let (_dir, path) = mk_file("x y\n# 10.0.0.9 a\n10.0.0.1 b a # c\n10.0.0.2 a c\n");
        let resolved = |name| resolve(&path, name).unwrap().map(|it| it.to_string());
        assert_eq!(resolved("a").as_deref(), Some("10.0.0.1"));
        assert_eq!(resolved("c").as_deref(), Some("10.0.0.2"));
        assert_eq!(resolved("d"), None);
    }

    // req: DAEMON-8
    #[tokio::test]
    async fn the_own_name_has_to_have_the_own_address() {
        let (dir, path) = mk_file(KUBELETS);
        let addresses = || mk_addresses(&[("10.0.0.1", 0), ("10.0.0.2", 1)]);
        let (own, name) = addresses().remove(1);
        assert_eq!(
            write(&path, addresses(), (own, name.clone())).await,
            Ok(true)
        );
        assert_eq!(
            write(&path, addresses(), (own, name.clone())).await,
            Ok(false)
        );
        for (name, reason) in [
            (addresses().remove(0).1, "has address 10.0.0.1 for"),
            ("x".to_owned(), "has no address for"),
        ] {
            let error = write(&path, addresses(), (own, name)).await.unwrap_err();
            assert!(
                error.contains(reason) && error.ends_with("; expected 10.0.0.2"),
                "{error}"
            );
        }
        let missing = dir.path().join("missing");
        let error = write(&missing, addresses(), (own, name)).await.unwrap_err();
        assert!(error.contains("missing: No such file"), "{error}");
        assert!(!missing.exists());
    }
}
