//! `watch`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::host::{CLAIM, Host, SPEC, spec};

const JSON: &str = "watch --json";
const GIVE_UP: Duration = Duration::from_secs(30);

/// The program while it runs, and what it prints.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

fn start(host: &Host, words: &str) -> Child {
    let mut watch = host.command(words);
    watch.stdout(Stdio::piped()).spawn().unwrap()
}

impl Watching {
    fn begin(host: &Host, words: &str) -> Self {
        let mut child = start(host, words);
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(GIVE_UP).unwrap()
    }

    /// The next event: what and of whom.
    fn next(&self) -> (String, String) {
        let event: Value = serde_json::from_str(&self.line()).unwrap();
        let text = |name| event.get(name).and_then(Value::as_str).unwrap().to_owned();
        let subject = text("subject");
        let name = subject.rsplit('/').next().unwrap();
        (text("event"), name.to_owned())
    }

    fn expect(&self, events: &[(&str, &str)]) {
        for (event, subject) in events {
            assert_eq!(self.next(), ((*event).to_owned(), (*subject).to_owned()));
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn there_is_an_event_for_a_new_changed_conflicting_and_removed_device() {
    let host = Host::healthy();
    let device = format!("claim={CLAIM}-channel-0");
    let file = SPEC.rsplit('/').next().unwrap();
    let watching = Watching::begin(&host, JSON);
    watching.expect(&[("directory", "cdi"), ("directory", "cdi"), ("add", &device)]);

    host.write("run/.new", spec("0.6.0", 235));
    fs::rename(host.at("run/.new"), host.at(SPEC)).unwrap();
    watching.expect(&[("change", &device)]);

    host.write("run/.copy", spec("0.5.0", 235));
    fs::rename(host.at("run/.copy"), host.at("run/cdi/copy.json")).unwrap();
    watching.expect(&[("remove", &device), ("conflict", &device)]);

    host.remove("run/cdi/copy.json");
    watching.expect(&[("settled", &device), ("add", &device)]);

    host.write(
        "proc/.devices",
        "Character devices:\n240 nvidia-caps-imex-channels\n",
    );
    fs::rename(host.at("proc/.devices"), host.at("proc/devices")).unwrap();
    watching.expect(&[("stale", file)]);

    host.remove(SPEC);
    watching.expect(&[("remove", &device), ("settled", file)]);
}

#[test]
fn a_directory_that_is_replaced_is_noticed_and_read() {
    let host = Host::healthy();
    let device = format!("claim={CLAIM}-channel-0");
    let watching = Watching::begin(&host, JSON);
    watching.expect(&[("directory", "cdi"), ("directory", "cdi"), ("add", &device)]);

    fs::create_dir(host.at("run/cdi.new")).unwrap();
    fs::rename(host.at("run/cdi"), host.at("run/cdi.old")).unwrap();
    fs::rename(host.at("run/cdi.new"), host.at("run/cdi")).unwrap();
    // The look in between may have seen none.
    let mut events = vec![watching.next()];
    while events.last().unwrap().0 != "remove" {
        events.push(watching.next());
    }
    assert_eq!(events[0], ("directory".to_owned(), "cdi".to_owned()));

    let spec = fs::read(
        host.at("run/cdi.old")
            .join(SPEC.rsplit('/').next().unwrap()),
    );
    host.write(SPEC, spec.unwrap());
    let mut event = watching.next();
    while event.0 == "directory" || event.0 == "refused" || event.0 == "settled" {
        event = watching.next();
    }
    assert_eq!(event, ("add".to_owned(), device));
}

#[test]
fn a_new_directory_is_noticed_even_if_it_gets_the_inode_of_the_old_one() {
    let host = Host::healthy();
    let device = format!("claim={CLAIM}-channel-0");
    let watching = Watching::begin(&host, JSON);
    watching.expect(&[("directory", "cdi"), ("directory", "cdi"), ("add", &device)]);

    // It is empty, so that nothing but the directory itself can be noticed.
    let inode = host.at("etc/cdi").metadata().unwrap().ino();
    host.remove("etc/cdi");
    let made = (0..1000).map(|n| host.at(&format!("etc/{n}"))).find(|new| {
        fs::create_dir(new).unwrap();
        new.metadata().unwrap().ino() == inode
    });
    // Not every file system gives a number twice.
    let made = made.unwrap_or_else(|| host.at("etc/0"));
    fs::rename(made, host.at("etc/cdi")).unwrap();
    let event: Value = serde_json::from_str(&watching.line()).unwrap();
    let text = |name| event.get(name).and_then(Value::as_str).unwrap();
    assert_eq!(text("event"), "directory", "{event}");
    assert!(text("subject").ends_with("/etc/cdi"), "{event}");
}

#[test]
fn it_ends_when_the_reader_leaves() {
    let host = Host::healthy();
    let mut child = start(&host, JSON);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    host.remove(SPEC);
    let (ended, end) = channel();
    let waiting = thread::spawn(move || {
        let status = child.wait().unwrap();
        ended.send(status.code()).unwrap();
    });
    assert_eq!(end.recv_timeout(GIVE_UP), Ok(Some(0)));
    waiting.join().unwrap();
}

#[test]
fn people_read_one_line_for_each_cause() {
    let host = Host::healthy();
    let many = spec("0.5.0", 235).replace("k8s.compute-domain.nvidia.com", "a.b");
    let device = many.split("\"devices\":[").nth(1).unwrap();
    let device = device.rsplit_once("]}").unwrap().0;
    let second = device.replace("channel-0", "channel-1");
    host.write(
        "etc/cdi/a.json",
        many.replace(device, &format!("{device},{second}")),
    );
    let watching = Watching::begin(&host, "watch");
    let first: Vec<String> = (0..4).map(|_| watching.line()).collect();
    assert!(first[0].starts_with("directory ") && first[1].starts_with("directory "));
    assert!(
        first[2].contains("/etc/cdi/a.json: a.b/claim=")
            && first[2].ends_with("(and 1 more like it)"),
        "{first:?}"
    );
    host.write("etc/cdi/.new", "{");
    fs::rename(host.at("etc/cdi/.new"), host.at("etc/cdi/a.json")).unwrap();
    let refused = watching.line();
    assert!(
        refused.starts_with("refused ") && refused.contains("; without a.b/claim="),
        "{refused}"
    );
    host.remove("etc/cdi/a.json");
    let settled = watching.line();
    assert!(
        settled.starts_with("settled ") && settled.ends_with("no longer: refused"),
        "{settled}"
    );
}
