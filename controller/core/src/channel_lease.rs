//! The `Lease` by which a ComputeDomain owns an IMEX channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use compute_domain_api::names::{
    CHANNEL_LABEL, DOMAIN_LABEL, DOMAIN_NAME_ANNOTATION, DOMAIN_NAMESPACE_ANNOTATION,
    channel_lease_name,
};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::domain::Domain;
use crate::version::Version;

/// How long a released channel is not assigned: longer than a node takes to end pods that are deleted in the API
/// server. The Lease has it, too, in seconds.
pub(crate) const COOL_DOWN: SignedDuration = SignedDuration::from_secs(600);

/// Annotation of a Lease that was created again from a status: the time of that.
const REBUILT_ANNOTATION: &str = "resource.nvidia.com/imexChannelRebuilt";

/// The longest label value, in characters.
const LABEL_LENGTH: usize = 63;

/// The parts of a channel's Lease that the decisions need. The name contains the channel's number, so each
/// channel has at most one Lease, whatever its labels are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelLease {
    number: u32,
    uid: Box<str>,
    resource_version: Box<str>,
    pub(crate) version: Version,
    labelled: bool,
    /// Whether its spec can be decoded. The API server accepts times that the client cannot decode.
    readable: bool,
    /// UID of the ComputeDomain; `None` if there is none. Then the channel is taken until the Lease is repaired
    /// or deleted.
    holder: Option<Arc<str>>,
    home: Option<Home>,
    released: Option<Timestamp>,
    rebuilt: Option<Timestamp>,
}

/// Namespace and name of the ComputeDomain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

impl ChannelLease {
    /// Takes an object as the API server returned it; `None` if it is not the Lease of a channel.
    pub fn new(lease: &Lease) -> Option<Self> {
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        let released = spec.and_then(|spec| spec.renew_time.as_ref());
        Some(Self {
            holder: holder.filter(|holder| !holder.is_empty()).map(Into::into),
            released: released.map(|time| time.0),
            readable: true,
            ..Self::undecodable(&lease.metadata)?
        })
    }

    /// Takes an object of which only the metadata could be decoded. The holder is read from the label. It counts
    /// as released in the far future, so it is written again, whether it is in use or not.
    pub fn undecodable(metadata: &ObjectMeta) -> Option<Self> {
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        let annotation = |key| metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let home = annotation(DOMAIN_NAMESPACE_ANNOTATION).zip(annotation(DOMAIN_NAME_ANNOTATION));
        let rebuilt = annotation(REBUILT_ANNOTATION).and_then(|text| text.parse().ok());
        let labels = metadata.labels.as_ref();
        let holder = labels.and_then(|labels| labels.get(DOMAIN_LABEL));
        Some(Self {
            number: channel_of_lease(metadata.name.as_deref()?)?,
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
            version: Version::parse(metadata.resource_version.as_deref()),
            labelled: labels.is_some_and(|labels| labels.contains_key(CHANNEL_LABEL)),
            readable: false,
            holder: holder.map(|holder| holder.as_str().into()),
            home: home.map(|(namespace, name)| Home {
                namespace: namespace.into(),
                name: name.into(),
            }),
            released: Some(Timestamp::MAX),
            rebuilt,
        })
    }

    /// The channel.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The Lease's name.
    pub fn name(&self) -> String {
        channel_lease_name(self.number)
    }

    /// The Lease's UID. A request must not change another Lease of the same name.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The Lease's version. A request must not change a later one.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// UID of the ComputeDomain that owns the channel.
    pub fn holder(&self) -> Option<&Arc<str>> {
        self.holder.as_ref()
    }

    /// Whether it has the label that the watch selects.
    pub fn is_labelled(&self) -> bool {
        self.labelled
    }

    /// The patch that restores the label.
    pub fn relabelled(&self) -> Value {
        let labels = json!({ CHANNEL_LABEL: self.number.to_string() });
        json!({ "metadata": {
            "uid": self.uid, "resourceVersion": self.resource_version, "labels": labels,
        } })
    }

    pub(crate) fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.is_some()
    }

    /// Whether it was released in the past. A future time was written by hand or with a wrong clock, and is
    /// written again.
    pub(crate) fn is_cooling(&self, now: Timestamp) -> bool {
        self.released.is_some_and(|released| released <= now)
    }

    /// The end of the cool-down, if it is released.
    pub(crate) fn cooled_at(&self) -> Option<Timestamp> {
        self.released.map(after_cool_down)
    }

    /// Whether the cool-down after its release is over.
    // req: CHANNEL-9
    pub(crate) fn is_cooled(&self, now: Timestamp) -> bool {
        self.cooled_at().is_some_and(|at| at <= now)
    }

    /// Until when no channels are assigned because this Lease was created again; `None` if they are. A mark in
    /// the far future is not ours.
    pub(crate) fn suspends_until(&self, now: Timestamp) -> Option<Timestamp> {
        let rebuilt = self.rebuilt.filter(|at| *at <= after_cool_down(now))?;
        Some(after_cool_down(rebuilt)).filter(|until| now < *until)
    }

    /// The Lease to create again after another client deleted it; `None` if it had no holder.
    // req: CHANNEL-10
    pub(crate) fn restored(&self) -> Option<Lease> {
        let spec = LeaseSpec {
            renew_time: self.released.map(MicroTime),
            lease_duration_seconds: self
                .released
                .and_then(|_| i32::try_from(COOL_DOWN.as_secs()).ok()),
            ..LeaseSpec::default()
        };
        let holder = self.holder.as_deref()?;
        Some(mk_lease(
            self.number,
            holder,
            self.home.as_ref(),
            self.rebuilt,
            spec,
        ))
    }

    /// The patch that releases it.
    pub(crate) fn released_at(&self, now: Timestamp) -> Value {
        self.release_patch(Some(now))
    }

    /// The patch that takes it back.
    pub(crate) fn taken_back(&self) -> Value {
        self.release_patch(None)
    }

    /// A merge patch, which the API server rejects if the Lease has changed. It replaces an unreadable spec.
    fn release_patch(&self, at: Option<Timestamp>) -> Value {
        let metadata = json!({ "uid": self.uid, "resourceVersion": self.resource_version });
        let renew_time = at.map(MicroTime);
        let duration = at.map(|_| COOL_DOWN.as_secs());
        let spec = if self.readable {
            json!({ "renewTime": renew_time, "leaseDurationSeconds": duration })
        } else {
            json!({
                "renewTime": renew_time, "leaseDurationSeconds": duration,
                "acquireTime": null, "holderIdentity": self.holder.as_deref(),
            })
        };
        json!({ "metadata": metadata, "spec": spec })
    }
}

/// The Lease by which the domain owns this channel. `rebuilt`: its status already has the channel.
pub(crate) fn lease_of(domain: &Domain, number: u32, rebuilt: bool, now: Timestamp) -> Lease {
    let home = Home {
        namespace: domain.namespace().into(),
        name: domain.name().into(),
    };
    let spec = LeaseSpec {
        acquire_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    };
    mk_lease(
        number,
        domain.uid().as_str(),
        Some(&home),
        rebuilt.then_some(now),
        spec,
    )
}

/// A Lease of this channel. `rebuilt`: when it was created again.
fn mk_lease(
    number: u32,
    holder: &str,
    home: Option<&Home>,
    rebuilt: Option<Timestamp>,
    spec: LeaseSpec,
) -> Lease {
    let place = home.map(|home| {
        [
            (DOMAIN_NAMESPACE_ANNOTATION, &*home.namespace),
            (DOMAIN_NAME_ANNOTATION, &*home.name),
        ]
    });
    let place = || place.into_iter().flatten();
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let mut labels: BTreeMap<_, _> = place()
        .filter(|(_, value)| value.len() <= LABEL_LENGTH)
        .map(owned)
        .collect();
    labels.insert(CHANNEL_LABEL.to_owned(), number.to_string());
    labels.insert(DOMAIN_LABEL.to_owned(), holder.to_owned());
    let mut annotations: BTreeMap<_, _> = place().map(owned).collect();
    let mark = rebuilt.map(|at| (REBUILT_ANNOTATION.to_owned(), at.to_string()));
    annotations.extend(mark);
    Lease {
        metadata: ObjectMeta {
            name: Some(channel_lease_name(number)),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            ..spec
        }),
    }
}

/// The channel of the Lease with this name; `None` if it is not the Lease of a channel.
pub fn channel_of_lease(name: &str) -> Option<u32> {
    let number = name.strip_prefix("imex-channel-")?.parse().ok()?;
    (number > 0 && channel_lease_name(number) == name).then_some(number)
}

/// The end of a cool-down that begins at this time, limited to the latest possible time.
pub(crate) fn after_cool_down(time: Timestamp) -> Timestamp {
    time.checked_add(COOL_DOWN).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
