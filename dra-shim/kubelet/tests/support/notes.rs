//! Records an observer's events, one line each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dra_kubelet::{CallOutcome, ClaimError, ClaimRef, Method, Observer, Registration};

/// Records all events in order, without the times.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub fn has(&self, line: &str) -> bool {
        self.0.lock().unwrap().iter().any(|noted| noted == line)
    }
}

fn code(outcome: Result<(), &ClaimError>) -> &'static str {
    outcome.err().map_or("ok", ClaimError::code)
}

impl Observer for Notes {
    fn call_started(&self, method: Method) {
        self.note(format!("call {method} started"));
    }

    fn call_finished(&self, method: Method, end: CallOutcome, _: Duration) {
        self.note(format!("call {method} {}: {end:?}", end.code()));
    }

    fn claim_started(&self, method: Method, claim: &ClaimRef) {
        self.note(format!("{method} {} started", claim.name));
    }

    fn claim_read(&self, claim: &ClaimRef, outcome: Result<(), &ClaimError>, _: Duration) {
        self.note(format!("read {}: {}", claim.name, code(outcome)));
    }

    fn attempt_started(&self, method: Method, claim: &ClaimRef) {
        self.note(format!("attempt {method} {} started", claim.name));
    }

    fn attempt_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        _: Duration,
    ) {
        self.note(format!(
            "attempt {method} {}: {}",
            claim.name,
            code(outcome)
        ));
    }

    fn claim_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        _: Duration,
    ) {
        self.note(format!("{method} {}: {}", claim.name, code(outcome)));
    }

    fn slice_request(&self, request: &'static str, outcome: Result<(), &'static str>, _: Duration) {
        self.note(format!(
            "slice {request}: {}",
            outcome.err().unwrap_or("ok")
        ));
    }

    fn registration_changed(&self, state: &Registration) {
        self.note(format!("registration {state:?}"));
    }

    fn health_stream_changed(&self, open: bool) {
        self.note(format!("health stream {open}"));
    }
}
