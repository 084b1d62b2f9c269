use super::*;

fn parse(line: &str) -> Result<Command, String> {
    let words = line.split_whitespace().map(OsString::from);
    Command::parse(words).map_err(|error| error.to_string())
}

fn steps(line: &str) -> Steps {
    match parse(line).unwrap() {
        Command::Run(steps) => steps,
        other => panic!("{other:?}"),
    }
}

fn link(target: &str, path: &str) -> Link {
    Link {
        target: target.into(),
        path: path.into(),
    }
}

#[test]
fn container_has_every_step_but_the_profile() {
    let line =
        "container --link a::/b --link=c::/d --folder /e --folder /f --host-driver-version 575.1";
    let expected = Steps {
        state: None,
        links: vec![link("a", "/b"), link("c", "/d")],
        compat: Some(CompatStep {
            folder: COMPAT_FOLDER.into(),
            host_driver: Some("575.1".to_owned()),
            host_cuda: None,
        }),
        cache: Some(CacheStep {
            folders: vec!["/e".to_owned(), "/f".to_owned()],
            ldconfig: "/sbin/ldconfig".into(),
            timeout: Duration::from_secs(60),
        }),
        denies_device_files: true,
        writes_profile: false,
    };
    assert_eq!(steps(line), expected);
}

#[test]
fn nvidias_commands_have_one_step() {
    let links = steps("create-symlinks --link a::/b,c::/d -link e::/f");
    let expected = Steps {
        links: vec![link("a", "/b"), link("c", "/d"), link("e", "/f")],
        ..Steps::default()
    };
    assert_eq!(links, expected);
    let compat = steps(
        "--debug enable-cuda-compat --host-cuda-version 12.9 --cuda-compat-container-root /c",
    );
    assert_eq!(compat.compat.unwrap().folder, Path::new("/c"));
    assert_eq!(
        steps("enable-cuda-compat --host-driver-version="),
        Steps::default()
    );
    let line = "update-ldcache --ldconfig-path /l --ldconfig-timeout 5 --container-spec /s";
    let cache = steps(line).cache.unwrap();
    assert_eq!(cache.ldconfig, Path::new("/l"));
    assert_eq!(cache.timeout, Duration::from_secs(5));
    assert!(steps("disable-device-node-modification").denies_device_files);
    assert!(steps("update-application-profile").writes_profile);
    assert_eq!(steps("chmod --mode 755 --path /dev/dri"), Steps::default());
    assert_eq!(steps("update-ldcache --container-spec -").state, None);
}

#[test]
fn a_wrong_argument_is_named() {
    for (line, expected) in [
        (
            "update-ldcache --link a::b",
            "unknown flag --link of update-ldcache",
        ),
        (
            "container --ldconfig-timeout 0",
            "--ldconfig-timeout 0 is no number of seconds from 1",
        ),
        (
            "container --unknown=1",
            "unknown flag --unknown of container",
        ),
        (
            "create-symlinks --link",
            "flag --link of create-symlinks has no value",
        ),
        (
            "create-symlinks x",
            "unexpected argument x of create-symlinks",
        ),
        (
            "create-symlinks --link a::b::c",
            "--link a::b::c is not TARGET::LINK",
        ),
        (
            "create-symlinks --link a:b",
            "--link a:b is not TARGET::LINK",
        ),
        (
            "create-symlinks --link ::b",
            "--link ::b is not TARGET::LINK",
        ),
    ] {
        assert_eq!(parse(line).unwrap_err(), expected);
    }
}

#[test]
fn other_commands_are_unsupported_or_help() {
    let unsupported = Command::Unsupported("apply-cuda-memory-limits".to_owned());
    assert_eq!(
        parse("apply-cuda-memory-limits --gpu-id x").unwrap(),
        unsupported
    );
    for line in ["", "--help", "help", "--debug"] {
        assert_eq!(parse(line).unwrap(), Command::Help);
    }
}

#[test]
fn the_usage_has_every_flag() {
    for command in ["container", "chmod"] {
        for flag in flags_of(command).unwrap() {
            assert!(USAGE.contains(&format!("--{flag}")), "{flag}");
        }
    }
}
