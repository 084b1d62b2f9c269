//! What goes wrong, and when.

use super::answer::Answer;
use super::call::Call;

/// Something that goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// 409: somebody else has changed the object.
    Conflict,
    /// 429.
    Busy,
    /// 429 that asks the client to come back after a second.
    BusyForASecond,
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 404: the API server does not serve these objects.
    NotServed,
    /// 403, with these words.
    Forbidden(&'static str),
    /// 410.
    Expired,
    /// The server never answers, and does nothing.
    NoAnswer,
    /// The connection ends before the request arrives.
    RequestLost,
    /// The server does what is asked, and the connection ends before its answer arrives.
    AnswerLost,
    /// In place of its first event, the watch says that it has lost its history, and ends.
    StreamExpires,
    /// In place of its first event, the connection of the watch ends.
    StreamBreaks,
    /// In place of its first event, the watch falls silent, and does not end.
    StreamHangs,
    /// In place of its first event, the watch reports an error, and ends.
    StreamFails,
    /// Before its first event, the watch has an object that is none.
    StreamMalformed,
    /// Before its first event, the watch has a line that is not JSON.
    StreamGarbled,
}

impl Fault {
    /// Whether it is about the body of a watch that has started.
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

    /// What the client gets in place of an answer, if it gets one.
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

/// When a fault happens: with these requests of a call, counted from when the rule is added.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    call: Call,
    fault: Fault,
    /// `None`: in every namespace.
    namespace: Option<&'static str>,
    /// How many requests pass before.
    skip: usize,
    /// How many fail then.
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

    /// So many in a row fail.
    pub(crate) fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// So many pass before.
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

/// Everything that goes wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
    /// Which part of all other requests fails.
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

    /// What is to go wrong with this request. A fault of a stream has still to happen.
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

    /// One that every request can meet.
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
