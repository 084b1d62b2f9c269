//! What there is to be done about channels, where every ComputeDomain has its own.

use super::decision::Request;
use super::finding::Finding;
use super::findings::Findings;
use crate::channel_lease::ChannelLease;
use crate::channels::{Assigned, ObservedChannels, Offer};
use crate::domain::Domain;
use crate::index::Observed;
use crate::lifecycle::{Action, Event, State};
use crate::rejection::Rejection;

/// What makes the channel in the status the domain's again, before all else and also while it is being
/// deleted: its Lease is missing, or was released.
pub(super) fn lost(domain: &Domain, observed: &Observed, findings: &Findings) -> Option<Finding> {
    let channels = observed.channels.as_ref()?;
    match channels.assigned.as_ref()? {
        Assigned::Nobody if domain.has_finalizer() && refusal(findings).is_none() => {
            domain.channel().map(Finding::ChannelLost)
        }
        Assigned::Holder(lease) if is_held_by(lease, domain) && lease.is_released() => {
            Some(Finding::ChannelUsedAgain(lease.clone()))
        }
        _ => None,
    }
}

/// What there is to be done before the domain gets its template; `None`: nothing, since it has its
/// channel, or is to keep channel 0.
// req: CHANNEL-6
pub(super) fn find(domain: &Domain, observed: &Observed, findings: &Findings) -> Option<Finding> {
    let channels = observed.channels.as_ref()?;
    if !domain.has_finalizer() {
        return None;
    }
    if let (Some(Assigned::Nobody), Some(refusal)) = (&channels.assigned, refusal(findings)) {
        return Some(Finding::Rejected(refusal.clone()));
    }
    if let (Some(number), Some(assigned)) = (domain.channel(), &channels.assigned) {
        return not_confirmed(domain, number, assigned).map(Finding::Rejected);
    }
    if domain.channel().is_some() {
        return None;
    }
    Some(match (channels.given(), channels.offer) {
        (None, Offer::Nothing) => return None,
        _ if !findings.schema.channel => Finding::Rejected(Rejection::ChannelFieldMissing),
        (Some(lease), _) if lease.is_released() => Finding::ChannelUsedAgain(lease.clone()),
        (Some(lease), _) => Finding::ChannelUnreported(lease.number()),
        (None, Offer::Channel(number)) => match refusal(findings) {
            Some(refusal) => Finding::Rejected(refusal.clone()),
            None => Finding::ChannelWanted(number),
        },
        (None, Offer::NoneFree(_)) => Finding::Rejected(Rejection::NoChannelFree {
            count: channels.count,
        }),
        (None, Offer::Rebuilding(_)) => Finding::Rejected(Rejection::ChannelsBeingRebuilt),
    })
}

/// Why the API server does not let us create the Lease.
fn refusal(findings: &Findings) -> Option<&Rejection> {
    let refusal = findings.refusal.as_ref();
    refusal.filter(|refusal| matches!(refusal, Rejection::ChannelRefused { .. }))
}

/// Why the channel in the domain's status is not its own.
// req: CHANNEL-12
fn not_confirmed(domain: &Domain, number: u32, assigned: &Assigned) -> Option<Rejection> {
    let holder = match assigned {
        Assigned::Holder(lease) if is_held_by(lease, domain) => return None,
        Assigned::Holder(lease) => described(lease),
        Assigned::Older(older) => identified(older),
        Assigned::OutOfRange => "nobody: imex.channelCount says that nodes have fewer (if they have more, say so there), or it is reserved for group claims"
            .to_owned(),
        Assigned::Foreign(_) => "whoever has made its Lease, which is none of ours".to_owned(),
        Assigned::Nobody => "nobody: its Lease is missing".to_owned(),
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
        (None, _) => "nobody that its Lease names".to_owned(),
        (Some(uid), None) => format!("the ComputeDomain with UID {uid}"),
        (Some(uid), Some(home)) => {
            let (namespace, name) = (&home.namespace, &home.name);
            format!("ComputeDomain {namespace}/{name} (UID {uid})")
        }
    }
}

/// What there is to be done about the Leases of this UID, although nothing else is: one that somebody
/// has deleted is created again; one that nobody uses is released, and deleted after a while. `state`
/// is that of the ComputeDomain; `None`: it is not known.
pub(super) fn rest(
    state: Option<State>,
    observed: &Observed,
    findings: &Findings,
) -> Option<Request> {
    let channels = observed.channels.as_ref()?;
    let domain = observed.domain.as_deref();
    let lost = channels.lost.iter().find_map(|lease| {
        // That of a status is created from the status, or cannot be.
        let in_status = domain.and_then(Domain::channel) == Some(lease.number());
        let state = state.unwrap_or(State::Missing);
        match state.on(Event::LeaseLost).action {
            Action::RestoreLease if !in_status => lease.restored(),
            _ => None,
        }
    });
    if let Some(lease) = lost {
        return Some(Request::RestoreLease(Box::new(lease)));
    }
    channels.held.iter().find_map(|lease| {
        let event = event_of(channels, lease, domain)?;
        let state = state.unwrap_or_else(|| looked_up(lease, findings));
        let lease = lease.clone();
        match state.on(event).action {
            Action::LookUpDomain => Some(look_up(&lease)),
            Action::KeepChannel => {
                let patch = lease.taken_back();
                Some(Request::ChangeLease(lease, patch))
            }
            Action::ReleaseChannel => {
                let patch = lease.released_at(channels.now);
                Some(Request::ChangeLease(lease, patch))
            }
            Action::FreeChannel => Some(Request::DeleteLease(lease)),
            _ => None,
        }
    })
}

fn event_of(
    channels: &ObservedChannels,
    lease: &ChannelLease,
    domain: Option<&Domain>,
) -> Option<Event> {
    if channels.is_used(lease, domain) {
        // Of a domain that is there, it is found before all else.
        return (lease.is_released() && domain.is_none()).then_some(Event::ChannelUsedAgain);
    }
    if !lease.is_cooling(channels.now) {
        return Some(Event::ChannelUnused);
    }
    lease
        .is_cooled(channels.now)
        .then_some(Event::ChannelCooled)
}

fn looked_up(lease: &ChannelLease, findings: &Findings) -> State {
    let namespace = lease.home().map_or("", |home| &home.namespace);
    if findings.absent_in.iter().any(|it| **it == *namespace) {
        State::Absent
    } else {
        State::Missing
    }
}

/// A Lease that does not say where its ComputeDomain is leads to a search of all.
fn look_up(lease: &ChannelLease) -> Request {
    let home = lease.home();
    Request::LookUpDomain {
        namespace: home.map(|home| home.namespace.clone()).unwrap_or_default(),
        name: home.map(|home| home.name.clone()),
    }
}
