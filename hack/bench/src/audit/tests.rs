use std::io::Write as _;

use super::*;

fn line(user: &str, verb: &str, object: &str, stage: &str, code: u16) -> String {
    let (resource, subresource) = object.split_once('/').unwrap_or((object, ""));
    let mut record = serde_json::json!({
        "stage": stage, "verb": verb, "user": {"username": user}, "requestURI": "/version?timeout=1s",
        "responseStatus": {"code": code},
    });
    if !resource.is_empty() {
        record["objectRef"] = serde_json::json!({"resource": resource});
    }
    if !subresource.is_empty() {
        record["objectRef"]["subresource"] = subresource.into();
    }
    format!("{record}\n")
}

fn log(lines: &[String]) -> (tempfile::NamedTempFile, AuditLog) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.concat().as_bytes()).unwrap();
    let log = AuditLog::open(file.path()).unwrap();
    (file, log)
}

#[test]
fn each_request_of_the_user_is_counted_once() {
    let (_file, mut log) = log(&[
        line(
            "subject",
            "patch",
            "computedomains/status",
            "ResponseComplete",
            200,
        ),
        line("subject", "watch", "computedomains", "ResponseStarted", 200),
        line(
            "subject",
            "watch",
            "computedomains",
            "ResponseComplete",
            200,
        ),
        line("subject", "create", "events", "ResponseComplete", 201),
        line("subject", "update", "leases", "ResponseComplete", 200),
        line("subject", "get", "", "ResponseComplete", 200),
        line(
            "floor",
            "delete",
            "resourceclaimtemplates",
            "ResponseComplete",
            200,
        ),
    ]);
    let requests = log.read("subject").unwrap();
    let counted: Vec<String> = requests
        .each()
        .map(|(request, count)| format!("{count} {} {}", request.verb, request.resource))
        .collect();
    assert_eq!(
        counted,
        [
            "1 get /version",
            "1 watch computedomains",
            "1 patch computedomains/status",
            "1 create events",
            "1 update leases",
        ]
    );
    assert_eq!(requests.writes(), 1);
    assert_eq!(requests.requests_without_lease(), 4);
    assert_eq!(requests.requests_without_watches(), 3);
    assert_eq!(log.read("subject").unwrap().requests_without_lease(), 0);
}

#[test]
fn conflicts_are_counted_separately_from_other_refusals() {
    let (_file, mut log) = log(&[
        line(
            "subject",
            "patch",
            "computedomains",
            "ResponseComplete",
            409,
        ),
        line(
            "subject",
            "get",
            "resourceclaimtemplates",
            "ResponseComplete",
            404,
        ),
        line(
            "subject",
            "get",
            "resourceclaimtemplates",
            "ResponseComplete",
            404,
        ),
    ]);
    let requests = log.read("subject").unwrap();
    assert_eq!(requests.conflicts(), 1);
    assert_eq!(requests.other_refusals(), "404: 2");
}

#[test]
fn a_partly_written_line_is_read_when_it_is_complete() {
    let whole = line("subject", "list", "computedomains", "ResponseComplete", 200);
    let (first, second) = whole.split_at(20);
    let (mut file, mut log) = log(&[first.to_owned()]);
    assert_eq!(log.read("subject").unwrap().lists(), 0);
    file.write_all(second.as_bytes()).unwrap();
    assert_eq!(log.read("subject").unwrap().lists(), 1);
}

#[test]
fn a_dry_run_is_a_request_but_not_a_write() {
    let created = line(
        "subject",
        "create",
        "resourceclaimtemplates",
        "ResponseComplete",
        201,
    );
    let dry = created.replace("timeout=1s", "dryRun=All");
    let (_file, mut log) = log(&[created, dry]);
    let requests = log.read("subject").unwrap();
    assert_eq!(requests.writes(), 1);
    assert_eq!(requests.requests_without_watches(), 2);
}
