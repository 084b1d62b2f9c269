//! The settings of the fake kubelet.

use std::time::Duration;

/// Settings of a [`FakeKubelet`](super::FakeKubelet), written as
/// `Options { release: Release::V1_35, ..Options::default() }`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// kubelet's pauses and timeouts; [`Times::fast`] unless set.
    pub times: Times,
    /// kubelet's release; the newest unless set.
    pub release: Release,
    /// The effect of a repeated Prepare on a claim's record; [`RepeatedPrepare::Append`]
    /// unless set.
    pub repeated_prepare: RepeatedPrepare,
}

/// The kubelet releases with differences that affect drivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// 1.34 and 1.35: the service socket is also dialled by its bare path, so that its
    /// `:authority` is the percent-encoded path.
    V1_35,
    /// 1.36: the service socket's `:authority` is `localhost`.
    #[default]
    V1_36,
}

/// The effect of a repeated Prepare on a claim's devices. kubelet repeats a Prepare after its
/// restart, and if another driver of the claim failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatedPrepare {
    /// Each answer is appended, so the runtime gets the same CDI id twice. This is the
    /// behaviour of kubelets without kubernetes/kubernetes pull request 140274, for
    /// example 1.36.2.
    #[default]
    Append,
    /// The last answer replaces earlier ones.
    Replace,
}

/// kubelet's pauses and timeouts. Each field's documentation states kubelet's own value, as in
/// [`Times::KUBELET`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Period of the loop that registers and unregisters: 1 s.
    pub registration_loop: Duration,
    /// Connecting to a registration socket: 10 s.
    pub dial: Duration,
    /// `GetInfo`: 1 s.
    pub get_info: Duration,
    /// `NotifyRegistrationStatus`: 5 s.
    pub notify: Duration,
    /// Pause after a socket's first failed registration, doubled after each failure: 0.5 s.
    pub back_off: Duration,
    /// The maximum of `back_off`: 122 s.
    pub max_back_off: Duration,
    /// `NodePrepareResources` and `NodeUnprepareResources`: 45 s.
    pub call: Duration,
    /// Pause before the next connection to a service after a refused one, multiplied by 1.6
    /// after each failure: 1 s.
    pub reconnect: Duration,
    /// The maximum of `reconnect`: 120 s.
    pub max_reconnect: Duration,
    /// Pause before an ended health stream is reopened: 5 s.
    pub health_reopen: Duration,
    /// Validity of a device's health, unless the report sets it: 30 s.
    pub health_freshness: Duration,
    /// Pause after a failed Prepare, plus up to 50 % jitter: 60 s.
    pub pod_retry: Duration,
    /// Pause after a failed Unprepare of an ending pod, plus up to 50 % jitter: 10 s.
    pub unprepare_retry: Duration,
    /// Period of the loop that unprepares claims of deleted pods: 60 s.
    pub cleanup: Duration,
    /// Time for which a driver may be disconnected before its slices are deleted: 30 s.
    pub wipe: Duration,
    /// Pause after a failed deletion of slices, doubled after each failure: 1 s.
    pub wipe_retry: Duration,
    /// The maximum of `wipe_retry`: 5 min.
    pub max_wipe_retry: Duration,
}

impl Times {
    /// The times of kubelet 1.34 to 1.36.
    pub const KUBELET: Self = Self {
        registration_loop: Duration::from_secs(1),
        dial: Duration::from_secs(10),
        get_info: Duration::from_secs(1),
        notify: Duration::from_secs(5),
        back_off: Duration::from_millis(500),
        max_back_off: Duration::from_secs(122),
        call: Duration::from_secs(45),
        reconnect: Duration::from_secs(1),
        max_reconnect: Duration::from_secs(120),
        health_reopen: Duration::from_secs(5),
        health_freshness: Duration::from_secs(30),
        pod_retry: Duration::from_secs(60),
        unprepare_retry: Duration::from_secs(10),
        cleanup: Duration::from_secs(60),
        wipe: Duration::from_secs(30),
        wipe_retry: Duration::from_secs(1),
        max_wipe_retry: Duration::from_secs(300),
    };

    /// Times for tests: pauses are 100 times shorter. Timeouts keep their length, so that tests
    /// do not fail on a busy machine.
    #[must_use]
    pub fn fast() -> Self {
        let real = Self::KUBELET;
        Self {
            dial: real.dial,
            get_info: real.get_info,
            notify: real.notify,
            call: real.call,
            ..real.divided(100)
        }
    }

    /// Divides all times by `n`, also timeouts: a plugin has 1/`n` s for `GetInfo`.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    #[must_use]
    pub fn divided(self, n: u32) -> Self {
        Self {
            registration_loop: self.registration_loop / n,
            dial: self.dial / n,
            get_info: self.get_info / n,
            notify: self.notify / n,
            back_off: self.back_off / n,
            max_back_off: self.max_back_off / n,
            call: self.call / n,
            reconnect: self.reconnect / n,
            max_reconnect: self.max_reconnect / n,
            health_reopen: self.health_reopen / n,
            health_freshness: self.health_freshness / n,
            pod_retry: self.pod_retry / n,
            unprepare_retry: self.unprepare_retry / n,
            cleanup: self.cleanup / n,
            wipe: self.wipe / n,
            wipe_retry: self.wipe_retry / n,
            max_wipe_retry: self.max_wipe_retry / n,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::fast()
    }
}

/// A pause that grows after every failure.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    next: Duration,
    max: Duration,
    percent: u32,
}

impl BackOff {
    pub(super) const fn doubling(first: Duration, max: Duration) -> Self {
        Self {
            next: first,
            max,
            percent: 200,
        }
    }

    /// The back-off of gRPC's reconnects, without its jitter.
    pub(super) const fn grpc(times: &Times) -> Self {
        Self {
            next: times.reconnect,
            max: times.max_reconnect,
            percent: 160,
        }
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * self.percent / 100).min(self.max);
        pause
    }
}

/// Adds kubelet's jitter for pods: up to 50 %.
pub(super) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_after_failed_registrations_double_up_to_122_seconds() {
        let times = Times::KUBELET;
        let mut back_off = BackOff::doubling(times.back_off, times.max_back_off);
        let pauses: Vec<_> = (0..10).map(|_| back_off.next().as_secs_f64()).collect();
        let expected = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0];
        assert_eq!(pauses, expected);
    }

    #[test]
    fn fast_times_keep_every_deadline() {
        let (fast, real) = (Times::fast(), Times::KUBELET);
        let deadlines = |times: &Times| [times.dial, times.get_info, times.notify, times.call];
        assert_eq!(deadlines(&fast), deadlines(&real));
        assert!(fast.pod_retry < real.pod_retry);
    }
}
