//! The container runtime, and the events that it knows.

use std::time::Duration;

use crate::api::generated::ConfigureRequest;
use crate::events::Events;

/// NRI's default, for runtimes that do not send it (before NRI 0.8).
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);
/// NRI's default, for runtimes that do not send it (before NRI 0.8).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The runtime's description of itself.
///
/// A plugin that needs an event refuses in `configure`:
///
/// ```
/// use nri_plugin::{Context, Events, Plugin, Refusal, Runtime};
///
/// struct Guard;
///
/// impl Plugin for Guard {
///     fn events(&self) -> Events {
///         Events::CREATE_CONTAINER | Events::VALIDATE
///     }
///
///     async fn configure(&self, _: &Context, _: &str, runtime: &Runtime) -> Result<(), Refusal> {
///         if runtime.unknown_events.contains(Events::VALIDATE) {
///             return Err(Refusal::new("validation needs containerd 2.2 or later"));
///         }
///         Ok(())
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runtime {
    /// `containerd` or `cri-o`.
    pub name: String,
    /// The runtime's version in its own format: `v2.3.0`, `1.34.1`.
    pub version: String,
    /// The runtime's NRI version, such as `v0.12.0`. Empty before NRI 0.12.
    pub nri_version: String,
    /// How long the runtime waits for a plugin's registration.
    pub registration_timeout: Duration,
    /// How long the runtime waits for each answer.
    pub request_timeout: Duration,
    /// The plugin's subscription: its events that the runtime knows.
    pub events: Events,
    /// Events of the plugin that the runtime does not know, and never sends. Subscribing to one
    /// would end the registration.
    pub unknown_events: Events,
}

// === impl Runtime ===

impl Runtime {
    /// Reads the request for a plugin with the events `wanted`.
    pub(crate) fn new(request: &ConfigureRequest, wanted: Events) -> Self {
        let known = known_events(request);
        let millis = |millis: i64, default: Duration| match u64::try_from(millis) {
            Ok(millis) if millis > 0 => Duration::from_millis(millis),
            _ => default,
        };
        Self {
            name: request.runtime_name.clone(),
            version: request.runtime_version.clone(),
            nri_version: request.nri_version.clone(),
            registration_timeout: millis(request.registration_timeout, REGISTRATION_TIMEOUT),
            request_timeout: millis(request.request_timeout, REQUEST_TIMEOUT),
            events: wanted.intersection(known),
            unknown_events: wanted.difference(known),
        }
    }
}

/// The events that the runtime knows. *Fact*: NRI closes the connection of a plugin that subscribes
/// to an unknown event. NRI 0.10 has three events more than 0.9; a commit between them, in CRI-O
/// 1.34, has two of these. Only NRI 0.12 sends its version; before it, the runtime's version
/// decides. For any other runtime the result is the events that all versions know.
// req: NRI-2
fn known_events(request: &ConfigureRequest) -> Events {
    let since = |version: &str, least: (u32, u32)| {
        if version_of(version).is_some_and(|version| version >= least) {
            Events::SINCE_0_10
        } else {
            Events::SINCE_0_2
        }
    };
    match request.runtime_name.as_str() {
        // A build without a version sends the field, too, for example with "(devel)".
        _ if !request.nri_version.is_empty() => match version_of(&request.nri_version) {
            Some(version) if version > (0, 0) && version < (0, 10) => Events::SINCE_0_2,
            _ => Events::SINCE_0_10,
        },
        "containerd" => since(&request.runtime_version, (2, 2)),
        "cri-o" => since(&request.runtime_version, (1, 35)),
        _ => Events::SINCE_0_2,
    }
}

/// Major and minor of `v2.3.0-rc.1`, `1.34.1`, `v0.12.0`.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let text = text.trim().trim_start_matches('v');
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, version: &str, nri: &str) -> Events {
        let request = ConfigureRequest {
            runtime_name: name.into(),
            runtime_version: version.into(),
            nri_version: nri.into(),
            ..Default::default()
        };
        let runtime = Runtime::new(&request, Events::ALL);
        assert_eq!(runtime.events | runtime.unknown_events, Events::ALL);
        runtime.events
    }

    // req: NRI-2
    #[test]
    fn only_events_that_the_runtimes_version_knows_are_subscribed_to() {
        for (name, version, nri, validates) in [
            ("containerd", "v1.7.29", "", false),
            ("containerd", "1.7.28", "", false),
            ("containerd", "v2.0.7", "", false),
            ("containerd", "v2.1.5", "", false),
            ("containerd", "v2.2.0", "", true),
            ("containerd", "2.2.1-1ubuntu1", "", true),
            ("containerd", "v2.10.0", "", true),
            ("containerd", "v2.3.0", "v0.12.0", true),
            ("containerd", "v2.3.0+unknown", "0.0.0-unknown", true),
            ("containerd", "dev", "(devel)", true),
            ("containerd", "dev", "", false),
            ("cri-o", "1.33.8", "", false),
            ("cri-o", "1.34.0", "", false),
            ("cri-o", "1.35.0", "", true),
            ("something", "v9.9.9", "", false),
            ("something", "v9.9.9", "v0.12.4", true),
            ("something", "v9.9.9", "v0.9.0", false),
        ] {
            let validation = known(name, version, nri).contains(Events::VALIDATE);
            assert_eq!(validation, validates, "{name} {version} {nri}");
        }
    }

    #[test]
    fn a_runtime_that_sends_no_timeouts_has_those_of_nri() {
        let runtime = Runtime::new(&ConfigureRequest::default(), Events::ALL);
        assert_eq!(runtime.request_timeout, Duration::from_secs(2));
        assert_eq!(runtime.registration_timeout, Duration::from_secs(5));
        let negative = ConfigureRequest {
            request_timeout: -1,
            registration_timeout: 700,
            ..Default::default()
        };
        let runtime = Runtime::new(&negative, Events::ALL);
        assert_eq!(runtime.request_timeout, Duration::from_secs(2));
        assert_eq!(runtime.registration_timeout, Duration::from_millis(700));
    }
}
