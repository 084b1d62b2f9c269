//! Every call of the controller gets every possible fault. The scenario
//! with the call ends as without the fault.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

use super::stories::Scenario;
use crate::fake_api::{Call, FakeApi, Fault, Recorded, Rule};
use crate::testing::objects::TEAM;

/// Faults of every call.
const ANY: [Fault; 8] = [
    Fault::Busy,
    Fault::BusyForASecond,
    Fault::InternalError,
    Fault::Unavailable,
    Fault::Forbidden("RBAC: not allowed"),
    Fault::NoAnswer,
    Fault::RequestLost,
    Fault::AnswerLost,
];

/// Further faults of a watch.
const WATCH: [Fault; 7] = [
    Fault::Expired,
    Fault::StreamExpires,
    Fault::StreamBreaks,
    Fault::StreamHangs,
    Fault::StreamFails,
    Fault::StreamMalformed,
    Fault::StreamGarbled,
];

/// One row of the table. Its cells are the faults of the call.
struct Row {
    call: Call,
    /// The scenario with the call.
    story: Scenario,
}

const TABLE: [Row; 28] = [
    row(Call::ListDomains, Scenario::Plain),
    row(Call::WatchDomains, Scenario::Plain),
    row(Call::ListTemplates, Scenario::Plain),
    row(Call::WatchTemplates, Scenario::Plain),
    row(Call::ListClaims, Scenario::Plain),
    row(Call::WatchClaims, Scenario::Plain),
    row(Call::ListOtherTemplates, Scenario::NameTaken),
    row(Call::WatchOtherTemplates, Scenario::NameTaken),
    row(Call::ListDaemonSets, Scenario::Plain),
    row(Call::ListNodes, Scenario::Plain),
    row(Call::ListSlices, Scenario::ClaimWaits),
    row(Call::ListClaimsOfDomain, Scenario::CliqueShared),
    row(Call::GetDomain, Scenario::FinalizerStripped),
    row(Call::FindDomain, Scenario::FinalizerStrippedOfGo),
    row(Call::GetTemplate, Scenario::LabelLost),
    row(Call::AddFinalizer, Scenario::Plain),
    row(Call::RemoveFinalizer, Scenario::Plain),
    row(Call::WriteStatus, Scenario::Plain),
    row(Call::TryStatus, Scenario::OlderCrd),
    row(Call::CreateTemplate, Scenario::Plain),
    row(Call::DryRunTemplate, Scenario::TemplateAltered),
    row(Call::DeleteTemplate, Scenario::Plain),
    row(Call::ReleaseTemplate, Scenario::Plain),
    row(Call::RestoreLabel, Scenario::LabelChanged),
    row(Call::PostEvent, Scenario::Plain),
    row(Call::GetLease, Scenario::Elected),
    row(Call::CreateLease, Scenario::Elected),
    row(Call::UpdateLease, Scenario::Elected),
];

const fn row(call: Call, story: Scenario) -> Row {
    Row { call, story }
}

fn faults_of(call: Call) -> Vec<Fault> {
    let mut faults = ANY.to_vec();
    if call.is_watch() {
        faults.extend(WATCH);
    } else if call.is_list() {
        faults.push(Fault::Expired);
    } else if !matches!(call, Call::GetDomain | Call::GetTemplate | Call::GetLease) {
        faults.push(Fault::Conflict);
    }
    faults
}

/// Plays a scenario with a fault. Returns the requests and the duration.
fn play(story: Scenario, rule: &Rule) -> (Vec<Recorded>, Duration) {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let api = FakeApi::new();
        api.break_with(rule.clone());
        let started = Instant::now();
        story.play(&api).await;
        assert!(api.faults_fired() > 0, "it did not go wrong: {rule:?}");
        (api.requests(), started.elapsed())
    })
}

fn assert_stays_in_namespace(requests: &[Recorded]) {
    let writes = requests
        .iter()
        .filter(|it| it.call.is_write() || it.call == Call::PostEvent);
    for write in writes {
        assert_eq!(write.namespace, TEAM, "{write}");
    }
}

/// The longest duration of a scenario with one fault: the client's deadline, and
/// then the first pauses.
fn longest(call: Call, fault: Fault) -> Duration {
    let noticed = match fault {
        Fault::StreamHangs => 295,
        Fault::NoAnswer if call.is_watch() => 60,
        Fault::NoAnswer => 10,
        _ => 0,
    };
    let goes_on = match call {
        // An older CRD is probed every 20 s.
        Call::TryStatus => 40,
        // A claim waits for 30 s, and a failed count is retried after 30 s.
        Call::ListSlices => 63,
        // Reports must be quiet for 15 s, and a failed list is retried after 30 s.
        Call::ListClaimsOfDomain => 50,
        // The lease is renewed every 2 s.
        Call::GetLease | Call::CreateLease | Call::UpdateLease => 7,
        _ => 3,
    };
    Duration::from_secs(noticed + goes_on)
}

/// The maximum number of requests of a scenario with faults.
const MOST_REQUESTS: usize = 60;

/// Runs the table. Each fault happens `times` in a row.
fn go_through_the_table(times: impl Fn(Fault) -> usize) {
    let mut seen = BTreeSet::new();
    for Row { call, story } in TABLE {
        for fault in faults_of(call) {
            let rule = Rule::once(call, fault).times(times(fault));
            let (requests, took) = play(story, &rule);
            let cell = format!("{rule:?}: {took:?}, {} requests", requests.len());
            assert!(times(fault) > 1 || took <= longest(call, fault), "{cell}");
            assert!(requests.len() <= MOST_REQUESTS, "{cell}");
            assert_stays_in_namespace(&requests);
            seen.extend(requests.iter().map(|it| it.call));
        }
    }
    let rows: BTreeSet<_> = TABLE.iter().map(|row| row.call).collect();
    assert_eq!(
        seen, rows,
        "the calls that are made, and those in the table"
    );
}

#[test]
fn after_any_single_fault_a_scenario_ends_soon_and_leaves_nothing() {
    go_through_the_table(|_| 1);
}

#[test]
fn after_repeated_faults_of_any_call_a_scenario_ends_and_leaves_nothing() {
    // A watch that hangs is noticed after five minutes.
    go_through_the_table(|fault| if fault == Fault::StreamHangs { 2 } else { 6 });
}
