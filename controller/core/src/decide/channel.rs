//! Decides about channels, if every ComputeDomain has its own.

use std::sync::Arc;

use super::decision::Request;
use super::finding::{Finding, report, request};
use super::findings::Findings;
use crate::channel_lease::{ChannelLease, lease_of};
use crate::channels::{Assigned, ObservedChannels, Offer};
use crate::domain::Domain;
use crate::index::Observed;
use crate::lifecycle::{Event, State};
use crate::rejection::Rejection;
use crate::status::Admission;

/// The request that restores the domain's ownership of the channel in its status, if the Lease is missing or
/// released. It comes first, also while the domain is being deleted.
pub(super) fn lost(domain: &Domain, observed: &Observed, findings: &Findings) -> Option<Finding> {
    let channels = observed.channels.as_ref()?;
    match channels.assigned.as_ref()? {
        Assigned::Unowned if domain.has_finalizer() && refusal(findings).is_none() => {
            let number = domain.channel()?;
            let create = create(domain, number, true, channels);
            Some(Finding::send(Event::ChannelLost, create))
        }
        Assigned::Holder(lease) if is_held_by(lease, domain) && lease.is_released() => {
            Some(Finding::send(Event::ChannelUsedAgain, take_back(lease)))
        }
        _ => None,
    }
}

/// The request that the domain needs before its template is created; `None` if it has its channel or keeps
/// channel 0.
// req: CHANNEL-6
pub(super) fn find(
    domain: &Domain,
    observed: &Observed,
    findings: &Findings,
) -> Result<Option<Finding>, Rejection> {
    let channels = observed.channels.as_ref();
    let Some(channels) = channels.filter(|_| domain.has_finalizer()) else {
        return Ok(None);
    };
    let refused = || refusal(findings).cloned().map_or(Ok(()), Err);
    if let Some(Assigned::Unowned) = &channels.assigned {
        refused()?;
    }
    if let Some(number) = domain.channel() {
        let assigned = channels.assigned.as_ref();
        let rejection = assigned.and_then(|it| not_confirmed(domain, number, it));
        return rejection.map_or(Ok(None), Err);
    }
    match (channels.given(), channels.offer) {
        (None, Offer::Nothing) => Ok(None),
        _ if !findings.schema.channel => Err(Rejection::ChannelFieldMissing),
        (Some(lease), _) if lease.is_released() => {
            let used_again = Finding::send(Event::ChannelUsedAgain, take_back(lease));
            Ok(Some(used_again))
        }
        (Some(lease), _) => Ok(Some(Finding {
            event: Event::ChannelUnreported,
            resolution: report(domain, Admission::Assigned(lease.number()), findings),
        })),
        (None, Offer::Channel(number)) => {
            refused()?;
            let create = create(domain, number, false, channels);
            Ok(Some(Finding::send(Event::ChannelWanted, create)))
        }
        (None, Offer::NoneFree(_)) => Err(Rejection::NoChannelFree {
            count: channels.count,
        }),
        (None, Offer::Rebuilding(_)) => Err(Rejection::ChannelsBeingRebuilt),
    }
}

fn create(domain: &Domain, number: u32, rebuilt: bool, channels: &ObservedChannels) -> Request {
    let lease = lease_of(domain, number, rebuilt, channels.now);
    Request::CreateLease(number, Box::new(lease))
}

/// Why the API server rejects the Lease.
fn refusal(findings: &Findings) -> Option<&Rejection> {
    let refusal = findings.refusal.as_ref();
    refusal.filter(|refusal| matches!(refusal, Rejection::ChannelRefused { .. }))
}

/// Why the domain does not own the channel in its status.
// req: CHANNEL-12
fn not_confirmed(domain: &Domain, number: u32, assigned: &Assigned) -> Option<Rejection> {
    let holder = match assigned {
        Assigned::Holder(lease) if is_held_by(lease, domain) => return None,
        Assigned::Holder(lease) => described(lease),
        Assigned::Older(older) => identified(older),
        Assigned::OutOfRange => "no ComputeDomain: the channel is reserved for group claims, or its number is above imex.channelCount (increase imex.channelCount if the nodes have more channels)"
            .to_owned(),
        Assigned::Foreign(_) => "another program, which created the Lease of the channel".to_owned(),
        Assigned::Unowned => "no ComputeDomain: the Lease of the channel is missing".to_owned(),
    };
    Some(Rejection::ChannelNotConfirmed {
        channel: number,
        domain: identified(domain),
        holder,
    })
}

fn is_held_by(lease: &ChannelLease, domain: &Domain) -> bool {
    lease
        .holder()
        .is_some_and(|holder| **holder == *domain.uid().as_str())
}

fn identified(domain: &Domain) -> String {
    let (namespace, name, uid) = (domain.namespace(), domain.name(), domain.uid());
    format!("ComputeDomain {namespace}/{name} (UID {uid})")
}

fn described(lease: &ChannelLease) -> String {
    match (lease.holder(), lease.home()) {
        (None, _) => "no ComputeDomain: the Lease of the channel names no holder".to_owned(),
        (Some(uid), None) => format!("the ComputeDomain with UID {uid}"),
        (Some(uid), Some(home)) => {
            let (namespace, name) = (&home.namespace, &home.name);
            format!("ComputeDomain {namespace}/{name} (UID {uid})")
        }
    }
}

/// The request for a Lease of this UID, after everything else is done. A Lease that another client deleted
/// is created again. An unused one is released, and deleted after the cool-down. `state` is the state of the
/// ComputeDomain; `None`: not known.
pub(super) fn rest(
    state: Option<State>,
    observed: &Observed,
    findings: &Findings,
) -> Option<Request> {
    let channels = observed.channels.as_ref()?;
    let domain = observed.domain.as_deref();
    let lost = channels.lost.iter().find_map(|lease| {
        // The Lease of the channel in the status is created from the status, or cannot be created.
        let in_status = domain.and_then(Domain::channel) == Some(lease.number());
        let restored = lease.restored().filter(|_| !in_status)?;
        let restore = Request::RestoreLease(Box::new(restored));
        let state = state.unwrap_or(State::Missing);
        request(state, Event::LeaseLost, Some(restore), look_up(lease))
    });
    lost.or_else(|| {
        channels.held.iter().find_map(|lease| {
            let (event, resolution) = event_of(channels, lease, domain)?;
            let state = state.unwrap_or_else(|| looked_up(lease, findings));
            request(state, event, Some(resolution), look_up(lease))
        })
    })
}

/// The event that the Lease causes, with the request that resolves it.
fn event_of(
    channels: &ObservedChannels,
    lease: &Arc<ChannelLease>,
    domain: Option<&Domain>,
) -> Option<(Event, Request)> {
    if channels.is_used(lease, domain) {
        // If the domain exists, `lost` or `find` has found this before.
        let again = lease.is_released() && domain.is_none();
        return again.then(|| (Event::ChannelUsedAgain, take_back(lease)));
    }
    if !lease.is_cooling(channels.now) {
        let release = Request::ChangeLease(lease.clone(), lease.released_at(channels.now));
        return Some((Event::ChannelUnused, release));
    }
    let cooled = lease.is_cooled(channels.now);
    cooled.then(|| (Event::ChannelCooled, Request::DeleteLease(lease.clone())))
}

fn take_back(lease: &Arc<ChannelLease>) -> Request {
    Request::ChangeLease(lease.clone(), lease.taken_back())
}

fn looked_up(lease: &ChannelLease, findings: &Findings) -> State {
    let namespace = lease.home().map_or("", |home| &home.namespace);
    if findings.absent_in.iter().any(|it| **it == *namespace) {
        State::Absent
    } else {
        State::Missing
    }
}

/// The look-up of the Lease's ComputeDomain: in all namespaces if the Lease does not name one.
fn look_up(lease: &ChannelLease) -> Request {
    let home = lease.home();
    Request::LookUpDomain {
        namespace: home.map(|home| home.namespace.clone()).unwrap_or_default(),
        name: home.map(|home| home.name.clone()),
    }
}
