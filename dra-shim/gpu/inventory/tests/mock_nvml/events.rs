//! A process that waits for events of the mock's GPUs.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use gpu_inventory::{Fact, Inventory};
use nvml_session::{EventGpu, EventProcess, EventStop, Failure, GpuEvent, Registered, Report};
use serde_json::{Value, json};

use crate::host::{GIVE_UP, Host, inventory, program};

fn gpus(inventory: &Inventory, indices: &[u32]) -> Vec<EventGpu> {
    let wanted = |index: &u32| EventGpu {
        index: *index,
        uuid: uuid(inventory, *index),
    };
    indices.iter().map(wanted).collect()
}

fn uuid(inventory: &Inventory, index: u32) -> String {
    inventory.gpus[index as usize].uuid.known().unwrap().clone()
}

fn open(host: &Host, gpus: &[EventGpu], deadline: Duration) -> (EventProcess, Vec<Registered>) {
    let stop = EventStop::default();
    EventProcess::open(&program(deadline), &host.root(), gpus, &stop).unwrap()
}

fn happen(host: &Host, event: &Value) {
    let path = host.path("usr/lib64/nvml-mock.events");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    writeln!(file, "{event}").unwrap();
}

/// The next report that is not a sign of life.
fn next(events: &mut EventProcess) -> Report {
    loop {
        match events.receive_report().unwrap() {
            Report::NoEvent => {}
            report => return report,
        }
    }
}

fn failures(registered: &[Registered]) -> Vec<String> {
    let failures = registered.iter().filter_map(|it| {
        let failure = it.failure.as_ref()?;
        Some(format!("{}: {failure}", it.gpu))
    });
    failures.collect()
}

#[test]
fn an_event_has_its_gpu_and_instances_and_the_recovery_action_follows() {
    let mut whole = inventory("h100");
    whole.gpus[3].recovery_action = Fact::Known(1);
    let host = Host::new(&whole);
    happen(&host, &json!({"gpu": 2, "type": 8, "data": 1}));
    let (mut events, registered) = open(&host, &gpus(&whole, &[2, 3]), GIVE_UP);
    assert_eq!(failures(&registered), [""; 0]);
    happen(&host, &json!({"gpu": 1, "type": 8, "data": 2}));
    happen(&host, &json!({"gpu": 3, "type": 4, "data": 3}));
    happen(&host, &json!({"gpu": 3, "type": 8, "data": 79}));
    happen(
        &host,
        &json!({"gpu": 2, "type": 256, "gpu_instance": 5, "compute_instance": 0}),
    );
    let event = GpuEvent {
        gpu: uuid(&whole, 3),
        event_type: GpuEvent::XID,
        data: 79,
        gpu_instance: None,
        compute_instance: None,
    };
    assert_eq!(next(&mut events), Report::Event(event));
    let action = |gpu, action| Report::RecoveryAction { gpu, action };
    assert_eq!(next(&mut events), action(uuid(&whole, 3), Fact::Known(1)));
    let event = GpuEvent {
        gpu: uuid(&whole, 2),
        event_type: GpuEvent::MIG_CONFIG_CHANGE,
        data: 0,
        gpu_instance: Some(5),
        compute_instance: Some(0),
    };
    assert_eq!(next(&mut events), Report::Event(event));
    let expected = whole.gpus[2].recovery_action.clone();
    assert_eq!(next(&mut events), action(uuid(&whole, 2), expected));
}

#[test]
fn a_gpu_that_cannot_be_registered_costs_no_other() {
    let whole = inventory("h100");
    let host = Host::new(&whole);
    let other = uuid(&whole, 0);
    let wanted = [
        gpus(&whole, &[0, 3, 7]),
        vec![EventGpu {
            index: 2,
            uuid: "GPU-0".to_owned(),
        }],
    ];
    for (faults, reason) in [
        (
            json!({"errors": {"nvmlDeviceRegisterEvents@3": 999}}),
            "nvmlDeviceRegisterEvents returned NVML_ERROR_UNKNOWN (999)",
        ),
        (
            json!({"abort": ["nvmlDeviceGetSupportedEventTypes@3"]}),
            "nvmlDeviceGetSupportedEventTypes ended its process with SIGABRT",
        ),
        (
            json!({"hang": ["@3"]}),
            "nvmlDeviceGetHandleByIndex_v2 did not return within 3 s",
        ),
    ] {
        host.inject(&faults);
        let (mut events, registered) = open(&host, &wanted.concat(), Duration::from_secs(3));
        let mut failures = failures(&registered);
        failures.sort();
        let other_gpu = uuid(&whole, 2);
        let expected = [
            format!("{}: {reason}", uuid(&whole, 3)),
            format!("GPU-0: nvmlDeviceGetHandleByIndex_v2 returned another GPU: {other_gpu}"),
        ];
        assert_eq!(failures, expected);
        happen(&host, &json!({"gpu": 0, "type": 8, "data": 43}));
        let Report::Event(event) = next(&mut events) else {
            panic!("an event comes first");
        };
        assert_eq!((&event.gpu, event.data), (&other, 43));
    }
    host.inject(&json!({"event_types": 1}));
    let (_, registered) = open(&host, &gpus(&whole, &[0]), GIVE_UP);
    let reason = "nvmlDeviceGetSupportedEventTypes returned no XIDs";
    assert_eq!(failures(&registered), [format!("{other}: {reason}")]);
}

#[test]
fn a_wait_that_fails_aborts_or_hangs_ends_the_process_with_its_reason() {
    let whole = inventory("h100");
    let host = Host::new(&whole);
    let wanted = gpus(&whole, &[0, 1]);
    for (faults, reason) in [
        (
            json!({"errors": {"nvmlEventSetWait_v2": 15}}),
            "nvmlEventSetWait_v2 returned NVML_ERROR_GPU_IS_LOST (15)",
        ),
        (
            json!({"abort": ["nvmlEventSetWait_v2"]}),
            "nvmlEventSetWait_v2 ended its process with SIGABRT",
        ),
        (
            json!({"hang": ["nvmlEventSetWait_v2"]}),
            "nvmlEventSetWait_v2 did not return within 1 s",
        ),
    ] {
        host.inject(&json!({}));
        let (mut events, _) = open(&host, &wanted, Duration::from_secs(1));
        assert_eq!(events.receive_report(), Ok(Report::NoEvent), "it waits");
        host.inject(&faults);
        let failure = loop {
            match events.receive_report() {
                Ok(report) => assert_eq!(report, Report::NoEvent),
                Err(failure) => break failure,
            }
        };
        assert_eq!(failure.to_string(), reason);
        events.receive_report().unwrap_err();
    }
    host.inject(&json!({"errors": {"nvmlEventSetCreate": 3}}));
    let stop = EventStop::default();
    let opened = EventProcess::open(&program(GIVE_UP), &host.root(), &wanted, &stop);
    let expected = "nvmlEventSetCreate returned NVML_ERROR_NOT_SUPPORTED (3)";
    assert_eq!(opened.unwrap_err().to_string(), expected);
}

#[test]
fn a_recovery_action_that_hangs_does_not_delay_its_event() {
    let whole = inventory("h100");
    let host = Host::new(&whole);
    let (mut events, _) = open(&host, &gpus(&whole, &[0]), Duration::from_secs(2));
    host.inject(&json!({"hang": ["nvmlDeviceGetFieldValues"]}));
    happen(&host, &json!({"gpu": 0, "type": 8, "data": 79}));
    assert!(matches!(next(&mut events), Report::Event(_)));
    let failure = events.receive_report().unwrap_err();
    let expected = "nvmlDeviceGetFieldValues did not return within 2 s";
    assert_eq!(failure.to_string(), expected);
}

#[test]
fn another_thread_stops_it_at_once_and_its_process_is_gone() {
    let whole = inventory("h100");
    let host = Host::new(&whole);
    let wanted = gpus(&whole, &[0]);
    let stop = EventStop::default();
    let (mut events, _) =
        EventProcess::open(&program(GIVE_UP), &host.root(), &wanted, &stop).unwrap();
    let child = events.id();
    let began = Instant::now();
    let stopping = stop.clone();
    let thread = thread::spawn(move || stopping.stop());
    let failure = events.receive_report().unwrap_err();
    assert!(began.elapsed() < GIVE_UP / 2, "a sign of life came first");
    let stopped = Failure::new("the NVML process", "was stopped");
    assert_eq!(failure, stopped);
    thread.join().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists());
    let opened = EventProcess::open(&program(GIVE_UP), &host.root(), &wanted, &stop);
    assert_eq!(opened.unwrap_err(), stopped);
}
