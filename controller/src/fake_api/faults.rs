//! Injected faults, and when they happen.

use super::answer::Answer;
use super::call::Call;

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// 409: another client has changed the object.
    Conflict,
    /// 429.
    Busy,
    /// 429 with `Retry-After: 1`.
    BusyForASecond,
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 404: the API server does not serve these objects.
    NotServed,
    /// 403, with this message.
    Forbidden(&'static str),
    /// 410.
    Expired,
    /// The server neither responds nor does anything.
    NoAnswer,
    /// The connection ends before the request arrives.
    RequestLost,
    /// The server serves the request, but the connection ends before the response arrives.
    AnswerLost,
    /// In place of its first event, the watch reports a lost history, and ends.
    StreamExpires,
    /// In place of its first event, the connection of the watch ends.
    StreamBreaks,
    /// In place of its first event, the watch hangs.
    StreamHangs,
    /// In place of its first event, the watch reports an error, and ends.
    StreamFails,
    /// Before its first event, the watch has an invalid object.
    StreamMalformed,
    /// Before its first event, the watch has a line that is not JSON.
    StreamGarbled,
}

impl Fault {
    /// Whether it affects the body of a started watch.
    pub(crate) fn is_of_stream(self) -> bool {
        matches!(
            self,
            Self::StreamExpires
                | Self::StreamBreaks
                | Self::StreamHangs
                | Self::StreamFails
                | Self::StreamMalformed
                | Self::StreamGarbled
        )
    }

    /// The response that the client gets instead, if any.
    pub(super) fn answer(self) -> Option<Answer> {
        let answer = match self {
            Self::Conflict => Answer::failure(409, "Conflict", "the object has been modified"),
            Self::Busy | Self::BusyForASecond => Answer::failure(
                429,
                "TooManyRequests",
                "the server has received too many requests",
            ),
            Self::InternalError => {
                Answer::failure(500, "InternalError", "etcdserver: request timed out")
            }
            Self::Unavailable => Answer::failure(503, "ServiceUnavailable", "apiserver not ready"),
            Self::NotServed => Answer::failure(
                404,
                "NotFound",
                "the server could not find the requested resource",
            ),
            Self::Forbidden(why) => Answer::failure(403, "Forbidden", why),
            Self::Expired => Answer::expired(),
            _ => return None,
        };
        Some(if self == Self::BusyForASecond {
            answer.with_retry_after()
        } else {
            answer
        })
    }
}

/// When a fault happens: for which requests of a call, counted from the addition of the rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    call: Call,
    fault: Fault,
    /// `None`: in every namespace.
    namespace: Option<&'static str>,
    /// How many requests succeed first.
    skip: usize,
    /// How many then fail.
    times: usize,
}

impl Rule {
    /// The first request fails.
    pub(crate) fn once(call: Call, fault: Fault) -> Self {
        Self {
            call,
            fault,
            namespace: None,
            skip: 0,
            times: 1,
        }
    }

    /// All requests fail.
    pub(crate) fn always(call: Call, fault: Fault) -> Self {
        Self {
            times: usize::MAX,
            ..Self::once(call, fault)
        }
    }

    /// This many in a row fail.
    pub(crate) fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// This many succeed first.
    pub(crate) fn after(self, skip: usize) -> Self {
        Self { skip, ..self }
    }

    /// Only in this namespace.
    pub(crate) fn in_namespace(self, namespace: &'static str) -> Self {
        Self {
            namespace: Some(namespace),
            ..self
        }
    }
}

/// All faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
    /// The fraction of all other requests that fails.
    random: f64,
    fired: usize,
}

impl Faults {
    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(super) fn set_random(&mut self, part: f64) {
        self.random = part;
    }

    /// The fault of this request. A fault of a stream happens later.
    pub(super) fn next(&mut self, call: Call, namespace: &str) -> Option<Fault> {
        let about = |rule: &&mut Rule| {
            rule.call == call && rule.namespace.is_none_or(|own| own == namespace)
        };
        for rule in self.rules.iter_mut().filter(about) {
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if rule.times > 0 {
                rule.times -= 1;
                return Some(rule.fault);
            }
        }
        (fastrand::f64() < self.random).then(Self::any)
    }

    /// A random fault that any request can have.
    fn any() -> Fault {
        let faults = [
            Fault::Conflict,
            Fault::Busy,
            Fault::InternalError,
            Fault::Unavailable,
            Fault::NoAnswer,
            Fault::RequestLost,
            Fault::AnswerLost,
        ];
        faults[fastrand::usize(..faults.len())]
    }

    /// A fault has happened.
    pub(super) fn fire(&mut self) {
        self.fired += 1;
    }

    pub(super) fn fired(&self) -> usize {
        self.fired
    }
}
