use std::time::Duration;

use imex_cdi::RequestSource;

use super::*;
use crate::test_objects::{Disks, mk_claim, prepare};

fn channel(id: u32) -> ChannelId {
    ChannelId::new(id).unwrap()
}

fn by_variable(channels: Channels) -> RequestedChannel {
    let by = RequestSource::Variable("NVIDIA_IMEX_CHANNELS");
    RequestedChannel { channels, by }
}

fn requested(requests: Vec<RequestedChannel>) -> RequestedChannels {
    RequestedChannels {
        requests,
        every_device: false,
    }
}

#[test]
fn a_prepared_claim_explains_its_channel_for_the_pod_that_it_is_reserved_for() {
    let node = Disks::default().start();
    let channel_owner =
        |id, namespace, pod| channel_owner(&node.view(), channel(id), namespace, pod).unwrap();
    assert_eq!(
        channel_owner(0, "default", "pod-1"),
        ChannelOwner::Unclaimed
    );
    prepare(&node, &mk_claim("a")).unwrap();
    assert_eq!(channel_owner(0, "default", "pod-1"), ChannelOwner::ThisPod);
    assert_eq!(
        channel_owner(0, "default", "pod-2"),
        ChannelOwner::OtherPods(vec![mk_claim("a")])
    );
    assert_eq!(channel_owner(0, "other", "pod-2"), ChannelOwner::Unclaimed);
    assert_eq!(
        channel_owner(1, "default", "pod-1"),
        ChannelOwner::Unclaimed
    );
    node.unprepare("a", crate::test_objects::at(1)).unwrap();
    assert_eq!(
        channel_owner(0, "default", "pod-1"),
        ChannelOwner::Unclaimed
    );
}

#[test]
fn a_claim_that_another_process_prepares_is_known_after_a_refresh() {
    let disks = Disks::default();
    let (node, other) = (disks.start(), disks.start());
    prepare(&other, &mk_claim("a")).unwrap();
    node.read_locked(Duration::from_secs(30), |_| ()).unwrap();
    let channel_owner = channel_owner(&node.view(), channel(0), "default", "pod-1");
    assert_eq!(channel_owner.unwrap(), ChannelOwner::ThisPod);
    assert!(has_unique_name(&node.view(), &mk_claim("a")));
    let same_name = ClaimRef {
        uid: "b".to_owned(),
        ..mk_claim("a")
    };
    assert!(!has_unique_name(&node.view(), &same_name));
}

#[test]
fn only_channels_that_a_claim_grants_can_be_explained() {
    let requests = vec![
        by_variable(Channels::One(channel(3))),
        by_variable(Channels::One(channel(4))),
        by_variable(Channels::Every),
        by_variable(Channels::Unreadable("x".to_owned())),
    ];
    let requested = requested(requests.clone());
    let mut questions = Vec::new();
    let found = unexplained(&requested, |id| {
        questions.push(id.get());
        match id.get() {
            3 => ChannelOwner::ThisPod,
            _ => ChannelOwner::OtherPods(vec![mk_claim("b")]),
        }
    });
    let found: Vec<_> = found
        .into_iter()
        .map(|it| (it.requested, it.others.len()))
        .collect();
    assert_eq!(
        found,
        [(&requests[1], 1), (&requests[2], 0), (&requests[3], 0)]
    );
    assert_eq!(questions, [3, 4]);
    assert_eq!(
        channels_to_explain(&requested),
        [channel(3), channel(4)].into()
    );
}

#[test]
fn device_nodes_of_a_privileged_container_are_not_requests_but_variables_are() {
    let node = RequestedChannel {
        channels: Channels::One(channel(3)),
        by: RequestSource::Device("/dev/nvidia-caps-imex-channels/channel3".to_owned()),
    };
    let variable = by_variable(Channels::One(channel(3)));
    let mut requested = requested(vec![node, variable.clone()]);
    assert_eq!(
        unexplained(&requested, |_| ChannelOwner::Unclaimed).len(),
        2
    );
    requested.every_device = true;
    let found = unexplained(&requested, |_| ChannelOwner::Unclaimed);
    assert_eq!(
        found.iter().map(|it| it.requested).collect::<Vec<_>>(),
        [&variable]
    );
}

#[test]
fn the_sentence_names_request_place_claim_and_fix_and_fits_an_event() {
    let requests = vec![by_variable(Channels::One(channel(5)))];
    let one = requested(requests);
    let found = unexplained(&one, |_| ChannelOwner::OtherPods(vec![mk_claim("train")]));
    assert_eq!(
        sentence(&found, false),
        "the container asks for IMEX channel 5 (environment variable NVIDIA_IMEX_CHANNELS), but its pod has no \
         prepared ResourceClaim with that channel (claim train-name has the channel, but belongs to other pods); remove the request, \
         and give the pod a claim of its ComputeDomain's resourceClaimTemplate"
    );
    let by =
        |id: u32| RequestSource::Annotation(format!("cdi.k8s.io/{}", "x".repeat(id as usize % 60)));
    let many = (0..2000).map(|id| RequestedChannel {
        channels: Channels::One(channel(id)),
        by: by(id),
    });
    let many = requested(many.collect());
    let text = sentence(&unexplained(&many, |_| ChannelOwner::Unclaimed), true);
    assert!(text.contains(" and 1997 more, but its pod"), "{text}");
    assert!(text.len() < 800, "{text}");
    let every = requested(vec![by_variable(Channels::Every)]);
    let text = sentence(&unexplained(&every, |_| ChannelOwner::Unclaimed), true);
    assert!(text.contains("every IMEX channel (environment variable NVIDIA_IMEX_CHANNELS), which no ResourceClaim grants;"));
    assert!(text.ends_with("(privileged containers also need a claim)"));
    assert_eq!(sentence(&[], false), "");
}
