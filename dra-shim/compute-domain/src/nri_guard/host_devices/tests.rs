use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use imex_cdi::{MAX_SPEC_LEN, UnresolvedNames};
use nri_plugin::api::Mount;
use nri_plugin::testing::Options;
use serde_json::Value;

use super::super::Mode;
use super::super::tests::{Guarded, mk_container, mk_pod, of_claim, with_env};
use super::*;

/// A spec with one device `all` and these edits.
fn spec(kind: &str, edits: &str) -> String {
    format!(
        r#"{{"cdiVersion": "0.5.0", "kind": "{kind}", "devices": [{{"name": "all", "containerEdits": {edits}}}]}}"#
    )
}

/// A spec with a channel at an arbitrary path.
pub(super) fn with_channel(kind: &str) -> String {
    spec(
        kind,
        r#"{"deviceNodes": [{"path": "/dev/x", "type": "c", "major": 235, "minor": 1}]}"#,
    )
}

fn names(list: &[&str]) -> UnresolvedNames {
    let mut names = UnresolvedNames::default();
    for name in list {
        names.add(&name.parse().unwrap());
    }
    names
}

fn specs_of(dir: &Path) -> Specs {
    Specs::new(vec![dir.join("etc"), dir.join("run")])
}

/// How many nodes are found for the name, and why there may be more.
fn found_by(specs: &mut Specs, name: &str) -> (usize, Option<String>) {
    let names = names(&[name]);
    let found = read(specs, &names);
    let nodes = found.nodes(&name.parse().unwrap());
    let open = found.open(&names).map(str::to_owned);
    (nodes.map_or(0, |nodes| nodes.len()), open)
}

/// Like [`found_by`], for the specs in `dir`.
fn found(dir: &Path, name: &str) -> (usize, Option<String>) {
    found_by(&mut specs_of(dir), name)
}

fn directories() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("etc")).unwrap();
    fs::create_dir(dir.path().join("run")).unwrap();
    dir
}

#[test]
fn all_files_that_define_a_name_count_with_the_edits_for_all_devices() {
    let dir = directories();
    fs::write(
        dir.path().join("etc/a.json"),
        with_channel("example.com/fabric"),
    )
    .unwrap();
    assert_eq!(found(dir.path(), "example.com/fabric=all"), (1, None));
    // Overrides the first for a runtime with the usual directories.
    let two = r#"{"cdiVersion": "0.5.0", "kind": "example.com/fabric",
        "containerEdits": {"deviceNodes": [{"path": "/dev/y"}]},
        "devices": [{"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/z"}]}}]}"#;
    fs::write(dir.path().join("run/b.yaml"), two).unwrap();
    assert_eq!(found(dir.path(), "example.com/fabric=all"), (3, None));
    for nobodys in ["example.com/fabric=0", "example.com/other=all"] {
        assert_eq!(found(dir.path(), nobodys), (0, None));
    }
}

#[test]
fn a_file_that_is_no_spec_defines_no_name_and_an_unreadable_one_may_define_any() {
    let dir = directories();
    let file = dir.path().join("etc/odd.json");
    let nothing = (0, None);
    for text in [
        "",
        "{",
        r#"{"cdiVersion": "0.5.0", "kind": "a.com/b", "devices": []}"#,
        // Needs 0.5.0; runtimes refuse it because it declares an older version.
        r#"{"cdiVersion": "0.3.0", "kind": "a.com/b", "devices": [{"name": "c", "containerEdits":
            {"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/y"}]}}]}"#,
    ] {
        fs::write(&file, text).unwrap();
        assert_eq!(found(dir.path(), "a.com/b=c"), nothing, "{text}");
    }
    let may_define = |word: &str| {
        let (nodes, open) = found(dir.path(), "a.com/b=c");
        let open = open.unwrap();
        assert!(
            nodes == 0 && open.contains("odd.json") && open.contains(word),
            "{open}"
        );
    };
    fs::write(&file, with_channel("a.com/b").replace("0.5.0", "9.0.0")).unwrap();
    may_define("9.0.0");
    let long = usize::try_from(MAX_SPEC_LEN).unwrap() + 1;
    fs::write(&file, vec![b' '; long]).unwrap();
    may_define("1048577 bytes");
    fs::remove_file(&file).unwrap();
    symlink("/somewhere/on/the/host.json", &file).unwrap();
    may_define("No such file");
    may_define("replace the link with a copy of the target");
    fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(
        found(dir.path(), "a.com/b=c"),
        nothing,
        "no directory, no spec"
    );
}

#[test]
fn reading_stops_at_the_limit_of_specs() {
    let dir = directories();
    for at in 0..=specs::LIMITS.files {
        let kind = format!("example.com/k{at}");
        fs::write(
            dir.path().join(format!("etc/{at}.json")),
            with_channel(&kind),
        )
        .unwrap();
    }
    let (nodes, open) = found(dir.path(), "example.com/k0=all");
    let open = open.unwrap();
    assert!(
        nodes == 0 && open.contains("more than 1024 spec files"),
        "{open}"
    );
    fs::remove_file(dir.path().join("etc/0.json")).unwrap();
    assert_eq!(found(dir.path(), "example.com/k1=all"), (1, None));

    let dir = directories();
    let padding = " ".repeat(usize::try_from(MAX_SPEC_LEN).unwrap() - 1024);
    for at in 0..5 {
        let spec = with_channel("example.com/long") + &padding;
        fs::write(dir.path().join(format!("etc/{at}.json")), spec).unwrap();
    }
    let (_, open) = found(dir.path(), "example.com/long=all");
    assert!(open.unwrap().contains("2097152 bytes"));
}

#[test]
fn a_change_is_noticed_at_once_whether_the_files_have_settled_or_not() {
    let dir = directories();
    let file = dir.path().join("etc/a.json");
    let mut specs = specs_of(dir.path());
    let fabric = "example.com/fabric=all";
    let text = |at: usize| match at % 2 {
        0 => with_channel("example.com/fabric"),
        _ => with_channel("example.com/fabri2"),
    };
    for at in 0..20 {
        // In place, with the same length, perhaps within one tick of the clock.
        fs::write(&file, text(at)).unwrap();
        assert_eq!(found_by(&mut specs, fabric), (1 - at % 2, None));
    }
    for at in 0..20 {
        fs::write(&file, text(at) + &" ".repeat(at)).unwrap();
        for _ in 0..2 {
            assert_eq!(found_by(&mut specs, fabric), (1 - at % 2, None));
            specs.settle();
        }
    }
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, text(0)).unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_eq!(found_by(&mut specs, fabric), (1, None));
    specs.settle();
    fs::write(&elsewhere, "{}").unwrap();
    assert_eq!(found_by(&mut specs, fabric), (0, None), "behind a link");
    specs.settle();
    fs::write(dir.path().join("run/b.json"), text(0)).unwrap();
    assert_eq!(found_by(&mut specs, fabric), (1, None));
    specs.settle();
    fs::remove_file(dir.path().join("run/b.json")).unwrap();
    assert_eq!(found_by(&mut specs, fabric), (0, None));
}

#[tokio::test]
async fn a_look_up_behind_a_hanging_reader_fails_in_time() {
    let devices = HostDevices::new(Vec::new());
    let hangs = devices.specs.clone().lock_owned().await;
    let names = names(&["example.com/fabric=all"]);
    let found = devices.look_up(&names, Duration::from_millis(10)).await;
    assert!(found.open(&names).unwrap().contains("not read within"));
    drop(hangs);
    let found = devices.look_up(&names, Duration::from_secs(60)).await;
    assert_eq!(found.open(&names), None);
}

/// Each way to name a CDI device for NVIDIA's runtime.
pub(super) fn asking(name: &str) -> Vec<(nri_plugin::api::PodSandbox, nri_plugin::api::Container)> {
    let mut annotated = mk_pod("outsider");
    annotated
        .annotations
        .insert("cdi.k8s.io/any".to_owned(), name.to_owned());
    let env = with_env(&format!("NVIDIA_VISIBLE_DEVICES={name}"));
    vec![(annotated, mk_container()), (mk_pod("outsider"), env)]
}

#[tokio::test]
async fn a_name_of_any_kind_with_a_channel_is_refused_or_reported() {
    for mode in [Mode::Enforce, Mode::Warn] {
        let guarded = Guarded::start(mode).await;
        guarded.write_spec("fabric.json", &with_channel("example.com/fabric"));
        guarded.write_spec(
            "light.json",
            &spec("example.com/light", r#"{"env": ["A=B"]}"#),
        );
        for (pod, container) in asking("example.com/fabric=all") {
            let created = guarded.create(&pod, &container).await;
            assert_eq!(created.is_err(), mode == Mode::Enforce);
            let event = guarded.event().await;
            assert!(
                event.contains("ChannelWithoutClaim") && event.contains("IMEX channel 1 ("),
                "{event}"
            );
        }
        for harmless in [
            "example.com/light=all",
            "example.com/fabric=0",
            "nobodys.com/a=b",
        ] {
            for (pod, container) in asking(harmless) {
                guarded.create(&pod, &container).await.unwrap();
            }
        }
        assert_eq!(guarded.server.requests(), [""; 0]);
    }
}

#[tokio::test]
async fn an_unreadable_spec_makes_only_containers_with_foreign_device_names_unknown() {
    let guarded = Guarded::start(Mode::Enforce).await;
    guarded.prepare("train-1", &["worker"]).await;
    guarded.write_spec(
        "odd.json",
        &with_channel("a.com/b").replace("0.5.0", "9.0.0"),
    );
    for container in [mk_container(), of_claim("train-1")] {
        guarded.create(&mk_pod("worker"), &container).await.unwrap();
    }
    for (pod, container) in asking("nobodys.com/a=b") {
        let sentence = guarded.create(&pod, &container).await.unwrap_err();
        assert!(
            sentence.contains("cannot check") && sentence.contains("odd.json"),
            "{sentence}"
        );
    }
    assert!(guarded.counted("create", "unknown-refused"));
    // A certain finding takes precedence.
    guarded.write_spec("fabric.json", &with_channel("example.com/fabric"));
    for (pod, container) in asking("example.com/fabric=all") {
        let sentence = guarded.create(&pod, &container).await.unwrap_err();
        assert!(
            sentence.starts_with("the container asks for IMEX channel 1"),
            "{sentence}"
        );
    }
}

#[tokio::test]
async fn a_running_container_with_such_a_name_is_reported() {
    let (pod, container) = asking("example.com/fabric=all").remove(0);
    let running = nri_plugin::api::Container {
        pod_sandbox_id: pod.id.clone(),
        ..container
    };
    let options = Options {
        pods: vec![pod],
        containers: vec![running],
        ..Options::default()
    };
    let guarded = Guarded::start_on(Mode::Enforce, options, |dir| {
        let specs = dir.join("etc-cdi");
        fs::create_dir(&specs).unwrap();
        fs::write(
            specs.join("fabric.json"),
            with_channel("example.com/fabric"),
        )
        .unwrap();
    })
    .await;
    let event = guarded.event().await;
    assert!(
        event.contains("IMEX channel 1 (")
            && event.ends_with("; the container was already running and keeps running"),
        "{event}"
    );
}

/// Compares with the real program: `cdi/tests/nvidia_runtime` has the recorded cases.
#[tokio::test]
async fn channels_that_nvidias_runtime_gives_with_default_settings_are_refused() {
    let recorded = include_str!("../../../../../cdi/tests/fixtures/nvidia-runtime.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let guarded = Guarded::start(Mode::Enforce).await;
    for (at, spec) in recorded["specs"].as_array().unwrap().iter().enumerate() {
        guarded.write_spec(&format!("{at}.yaml"), spec.as_str().unwrap());
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pairs = |list: &Value| -> Vec<(String, String)> {
        let list = list.as_array().into_iter().flatten();
        list.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
    };
    let mut refused = 0;
    for case in recorded["cases"].as_array().unwrap() {
        let by_setting = text(&case["name"]).ends_with(" of the config");
        if by_setting || case["given"].as_array().unwrap().is_empty() {
            continue;
        }
        let container = nri_plugin::api::Container {
            env: case["env"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect(),
            annotations: pairs(&case["annotations"]).into_iter().collect(),
            mounts: pairs(&case["mounts"])
                .into_iter()
                .map(|(source, destination)| Mount {
                    source,
                    destination,
                    ..Mount::default()
                })
                .collect(),
            ..mk_container()
        };
        let created = guarded.create(&mk_pod("outsider"), &container).await;
        assert!(created.is_err(), "{case}");
        refused += 1;
    }
    assert!(refused > 50, "{refused}");
}

/// `cargo test --release -p compute-domain-plugin cost_of_a_read -- --ignored --nocapture`
#[test]
#[ignore = "prints how long reading the CDI specs takes"]
fn cost_of_a_read() {
    let cost = |what: &str, dir: &tempfile::TempDir| {
        let fabric = "example.com/fabric=all";
        let mut specs = specs_of(dir.path());
        let mut times = Vec::new();
        for _ in 0..11 {
            let start = Instant::now();
            assert_eq!(found(dir.path(), fabric).1, None);
            let first = start.elapsed();
            found_by(&mut specs, fabric);
            specs.settle();
            let start = Instant::now();
            found_by(&mut specs, fabric);
            times.push((first, start.elapsed()));
        }
        let median = |mut times: Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let (first, later) = times.into_iter().unzip();
        println!(
            "{what}: read {:?}, unchanged {:?}",
            median(first),
            median(later)
        );
    };
    let dir = directories();
    for at in 0..200 {
        let text = with_channel(&format!("example.com/k{at}"));
        fs::write(dir.path().join(format!("run/{at}.json")), text).unwrap();
    }
    cost("200 specs of one device", &dir);
    let channels = |at: usize| {
        let mut text = format!("cdiVersion: 0.5.0\nkind: example.com/c{at}\ndevices:\n");
        for id in 0..2048 {
            let node = format!("/dev/nvidia-caps-imex-channels/channel{id}");
            let _ = write!(
                text,
                "- name: \"{id}\"\n  containerEdits:\n    deviceNodes:\n    - path: {node}\n      hostPath: {node}\n"
            );
        }
        text
    };
    let dir = directories();
    fs::write(dir.path().join("etc/0.yaml"), channels(0)).unwrap();
    cost(
        &format!("one of 2048 channels in YAML, {} bytes", channels(0).len()),
        &dir,
    );
    let dir = directories();
    let most = specs::LIMITS.bytes / channels(0).len();
    for at in 0..most {
        fs::write(dir.path().join(format!("etc/{at}.yaml")), channels(at)).unwrap();
    }
    cost(&format!("the limit of a read, {most} of them"), &dir);
}
