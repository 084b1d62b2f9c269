use std::os::unix::fs::{MetadataExt as _, symlink};

use tempfile::TempDir;

use super::*;

type Resolver = fn(BorrowedFd<'_>, &Path, OFlag) -> nix::Result<OwnedFd>;

const RESOLVERS: [Resolver; 2] = [resolve, walk::open];

/// A root, and a directory outside that it must not reach.
struct Host(TempDir);

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/file"), "host").unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn root(&self, resolver: Resolver) -> Root {
        Root::with_resolver(&self.path("root"), resolver).unwrap()
    }

    /// Creates a link in the root, and its parents.
    fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.path("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn assert_untouched(&self) {
        let names: Vec<_> = fs::read_dir(self.path("outside")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(
            fs::read_to_string(self.path("outside/file")).unwrap(),
            "host"
        );
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 2);
    }
}

/// A host for each way in which an image can point `a/b` outside.
fn hostile_hosts() -> Vec<Host> {
    let shapes: [fn(&Host); 7] = [
        |host| host.link("a/b", host.path("outside")),
        |host| host.link("a/b", "../../outside"),
        |host| host.link("a/b", "../../../../../../../../../tmp"),
        |host| {
            host.link("a/b", "/c");
            host.link("c", "d/../e");
            host.link("e", host.path("outside"));
            fs::create_dir(host.path("root/d")).unwrap();
        },
        |host| host.link("a", host.path("outside")),
        |host| host.link("a/b", "/proc/self/root/tmp"),
        |host| host.link("a/b", "/proc/self/fd/1"),
    ];
    let host = |shape: fn(&Host)| {
        let host = Host::new();
        shape(&host);
        host
    };
    shapes.into_iter().map(host).collect()
}

#[test]
fn nothing_is_created_outside_whatever_link_is_at_the_parent() {
    for resolver in RESOLVERS {
        for host in hostile_hosts() {
            let root = host.root(resolver);
            let file = Path::new("/a/b/c/file");
            // Links that lead nowhere inside the root are errors.
            let _ = root.replace_file(file, "changed", 0o644);
            let _ = root.create_file(file, "changed");
            let _ = root.link(Path::new("target"), file);
            let _ = root.remove_file(Path::new("/a/b/file"));
            host.assert_untouched();
        }
    }
}

#[test]
fn a_link_in_place_of_the_file_is_replaced_and_not_followed() {
    for resolver in RESOLVERS {
        let host = Host::new();
        host.link("etc/conf", host.path("outside/file"));
        host.link("lib/link", "../../outside/file");
        let root = host.root(resolver);
        root.replace_file(Path::new("/etc/conf"), "new", 0o644)
            .unwrap();
        root.link(Path::new("libcuda.so.1"), Path::new("/lib/link"))
            .unwrap();
        host.assert_untouched();
        assert_eq!(
            fs::read_to_string(host.path("root/etc/conf")).unwrap(),
            "new"
        );
        let link = fs::read_link(host.path("root/lib/link")).unwrap();
        assert_eq!(link, Path::new("libcuda.so.1"));
    }
}

#[test]
fn absolute_links_are_followed_inside_the_root() {
    for resolver in RESOLVERS {
        let host = Host::new();
        host.link("usr/local/cuda", "/etc/alternatives/cuda");
        host.link("etc/alternatives/cuda", "../../../../opt/cuda/.");
        fs::create_dir_all(host.path("root/opt/cuda/compat")).unwrap();
        fs::write(host.path("root/opt/cuda/compat/lib"), "x").unwrap();
        let root = host.root(resolver);
        let file = root.file(Path::new("/usr/local/cuda/compat/lib")).unwrap();
        let path = root.path_of(&file).unwrap();
        assert_eq!(path, Path::new("/opt/cuda/compat/lib"));
        root.make_dir(Path::new("usr/local/cuda/new/folder"))
            .unwrap();
        assert!(host.path("root/opt/cuda/new/folder").is_dir());
    }
}

#[test]
fn links_in_a_circle_and_links_to_nowhere_end() {
    for resolver in RESOLVERS {
        let host = Host::new();
        host.link("a", "b");
        host.link("b", "/a");
        host.link("nowhere", "missing/dir");
        let root = host.root(resolver);
        for path in ["/a/file", "/nowhere/file"] {
            let path = Path::new(path);
            assert!(root.replace_file(path, "", 0o644).is_err());
            assert!(root.read(path, 9).unwrap().is_none());
            assert!(root.list(path).unwrap().is_none());
        }
    }
}

#[test]
fn a_link_is_kept_if_it_is_right_and_replaces_a_file_if_not() {
    let host = Host::new();
    host.link("right", "target");
    fs::write(host.path("root/file"), "").unwrap();
    host.link("file.nvidia-cdi-hook", "left by a killed hook");
    fs::create_dir(host.path("root/directory")).unwrap();
    let root = host.root(resolve);
    let before = host.path("root/right").symlink_metadata().unwrap();
    for path in ["/right", "/file", "/new/path/link"] {
        root.link(Path::new("target"), Path::new(path)).unwrap();
        let link = host.path("root").join(&path[1..]);
        assert_eq!(fs::read_link(link).unwrap(), Path::new("target"));
    }
    let after = host.path("root/right").symlink_metadata().unwrap();
    assert_eq!(before.ino(), after.ino());
    root.link(Path::new("target"), Path::new("/directory"))
        .unwrap_err();
    let mut names: Vec<_> = fs::read_dir(host.path("root"))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["directory", "file", "new", "right"]);
}

#[test]
fn only_regular_files_up_to_the_limit_are_read() {
    let host = Host::new();
    let pipe = host.path("root/pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRUSR).unwrap();
    fs::write(host.path("root/file"), "four").unwrap();
    let root = host.root(resolve);
    assert!(root.read(Path::new("/pipe"), 9).is_err());
    assert!(root.read(Path::new("/"), 9).is_err());
    assert_eq!(root.read(Path::new("file"), 4).unwrap().unwrap(), b"four");
    assert!(root.read(Path::new("file"), 3).is_err());
    assert!(root.read(Path::new("file/below"), 3).unwrap().is_none());
    assert!(!root.has_file(Path::new("/pipe")).unwrap());
}

#[test]
fn parents_of_parents_are_not_left_at_the_root() {
    assert_eq!(inside(Path::new("/../a/./b/../c")), Path::new("a/c"));
    assert_eq!(inside(Path::new("/")), Path::new(""));
    let host = Host::new();
    let root = host.root(resolve);
    assert!(root.replace_file(Path::new("/.."), "", 0o644).is_err());
}
