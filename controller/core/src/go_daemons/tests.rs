use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;

const NAMESPACE: &str = "nvidia";

fn mk_meta(domain: &str) -> ObjectMeta {
    serde_json::from_value(json!({
        "name": format!("computedomain-daemon-{domain}"),
        "namespace": NAMESPACE,
        "uid": format!("uid-{domain}"),
        "finalizers": ["resource.nvidia.com/computeDomain"],
        "labels": {
            "resource.nvidia.com/computeDomain": domain,
            "resource.nvidia.com/computeDomainTarget": "Daemon",
        },
    }))
    .unwrap()
}

fn mk_object(kind: GoKind, domain: &str) -> GoObject {
    GoObject::new(kind, &mk_meta(domain)).unwrap().1
}

/// A controller that starts while daemons of `ComputeDomains` run.
struct Cluster {
    daemons: GoDaemons,
    now: Instant,
}

impl Cluster {
    fn with(domains: &[&str]) -> Self {
        let mut cluster = Self {
            daemons: GoDaemons::default(),
            now: Instant::now(),
        };
        for domain in domains {
            cluster.apply(domain);
        }
        cluster.daemons.listed(cluster.now);
        cluster
    }

    fn apply(&mut self, domain: &str) {
        for kind in [GoKind::Template, GoKind::DaemonSet] {
            let object = mk_object(kind, domain);
            self.daemons.apply(domain, object, self.now);
        }
    }

    fn disappear(&mut self, domain: &str) {
        for kind in [GoKind::DaemonSet, GoKind::Template] {
            self.daemons.remove(domain, &mk_object(kind, domain));
        }
    }

    /// The claims are listed, and these are allocated.
    fn list(&mut self, claims: &[(&str, &[&str])]) {
        let Some(GoStep::ListClaims(domains)) = self.next() else {
            panic!("no list: {:?}", self.next());
        };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let claims = claims.iter().map(|(uid, all)| ((*uid).into(), names(all)));
        self.daemons
            .set_listed_claims(&domains, claims.collect(), self.now);
    }

    fn next(&self) -> Option<GoStep> {
        self.daemons.next(self.now)
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn removes(&self, domain: &str) -> bool {
        matches!(self.next(), Some(GoStep::Remove { domain: uid, .. }) if *uid == *domain)
    }

    #[track_caller]
    fn assert_idle(&self) {
        assert_eq!(self.next(), None);
        assert!(self.daemons.due().is_none_or(|at| at > self.now));
    }
}

fn waits(domain: &str, claims: &[&str]) -> GoDaemonEvent {
    GoDaemonEvent::Waits {
        domain: domain.into(),
        claims: claims.iter().map(ToString::to_string).collect(),
    }
}

fn removed(domain: &str) -> GoDaemonEvent {
    GoDaemonEvent::Removed {
        domain: domain.into(),
    }
}

// req: MODE-30, MODE-32
#[test]
fn the_daemons_of_a_domain_without_claims_are_removed_before_their_template() {
    let mut cluster = Cluster::with(&["a"]);
    cluster.list(&[]);
    let Some(GoStep::Remove { domain, objects }) = cluster.next() else {
        panic!("{:?}", cluster.next());
    };
    assert_eq!(&*domain, "a");
    let kinds: Vec<_> = objects.iter().map(GoObject::kind).collect();
    assert_eq!(kinds, [GoKind::DaemonSet, GoKind::Template]);
    cluster.daemons.removed("a", cluster.now);
    assert_eq!(cluster.daemons.take_events(), [removed("a")]);
    cluster.assert_idle();
    cluster.disappear("a");
    assert!(!cluster.daemons.is_any());
    assert_eq!(cluster.daemons.due(), None);
}

// req: MODE-30, MODE-35
#[test]
fn daemons_of_a_domain_with_claims_stay_until_a_list_shows_no_claim() {
    let mut cluster = Cluster::with(&["a"]);
    cluster.list(&[("a", &["ns/x", "ns/y"])]);
    assert_eq!(
        cluster.daemons.take_events(),
        [waits("a", &["ns/x", "ns/y"])]
    );
    assert_eq!(cluster.daemons.waiting(), 1);
    cluster.pass(3600);
    cluster.assert_idle();
    cluster.daemons.claim_released("ns/other", cluster.now);
    cluster.daemons.claim_released("ns/x", cluster.now);
    cluster.assert_idle();
    cluster.daemons.claim_released("ns/y", cluster.now);
    // A new pod has claimed meanwhile.
    cluster.list(&[("a", &["ns/z"])]);
    assert_eq!(cluster.daemons.take_events(), [waits("a", &["ns/z"])]);
    cluster.assert_idle();
    // The watch of claims was interrupted.
    let allocated = BTreeSet::from(["ns/other".to_owned()]);
    cluster.daemons.allocated_are(&allocated, cluster.now);
    cluster.pass(2);
    cluster.list(&[]);
    assert!(cluster.removes("a"));
    assert_eq!(cluster.daemons.waiting(), 0);
}

// req: MODE-35
#[test]
fn one_list_serves_all_domains_and_lists_are_two_seconds_apart() {
    let mut cluster = Cluster::with(&["a", "b", "c"]);
    cluster.list(&[("a", &["ns/a"]), ("c", &["ns/c"])]);
    assert!(cluster.removes("b"));
    cluster.daemons.removed("b", cluster.now);
    cluster.disappear("b");
    cluster.daemons.claim_released("ns/a", cluster.now);
    cluster.assert_idle();
    assert_eq!(
        cluster.daemons.due(),
        Some(cluster.now + Duration::from_secs(2))
    );
    cluster.pass(2);
    assert_eq!(
        cluster.next(),
        Some(GoStep::ListClaims(BTreeSet::from(["a".into()])))
    );
}

// req: MODE-32
#[test]
fn a_failed_request_is_retried_with_back_off() {
    let mut cluster = Cluster::with(&["a", "b"]);
    cluster.daemons.failed(["a", "b"], cluster.now);
    cluster.assert_idle();
    cluster.pass(1);
    cluster.list(&[]);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert!(cluster.removes("a"), "{pause}");
        cluster.daemons.failed(["a"], cluster.now);
        // No other domain waits for it.
        assert!(cluster.removes("b"), "{pause}");
        assert!(cluster.daemons.due().is_some_and(|at| at <= cluster.now));
        cluster.pass(pause);
    }
}

// req: MODE-32
#[test]
fn a_failed_request_is_not_retried_before_its_pause_has_ended() {
    let mut cluster = Cluster::with(&["a"]);
    cluster.list(&[]);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert!(cluster.removes("a"), "{pause}");
        cluster.daemons.failed(["a"], cluster.now);
        cluster.pass(pause - 1);
        cluster.assert_idle();
        cluster.pass(1);
    }
}

// req: MODE-32
#[test]
fn objects_with_other_finalizers_are_retried_without_a_further_event() {
    let mut cluster = Cluster::with(&["a"]);
    cluster.list(&[]);
    cluster.daemons.removed("a", cluster.now);
    cluster
        .daemons
        .remove("a", &mk_object(GoKind::DaemonSet, "a"));
    assert_eq!(cluster.daemons.take_events(), [removed("a")]);
    cluster.assert_idle();
    cluster.pass(30);
    assert!(cluster.removes("a"));
    cluster.daemons.removed("a", cluster.now);
    assert_eq!(cluster.daemons.take_events(), []);
    cluster.assert_idle();
}

// req: MODE-34
#[test]
fn daemons_that_reappear_are_left_alone_for_ten_minutes() {
    let mut cluster = Cluster::with(&["a"]);
    cluster.list(&[]);
    cluster.daemons.removed("a", cluster.now);
    cluster.disappear("a");
    cluster.daemons.take_events();
    cluster.pass(60);
    cluster.apply("a");
    let GoDaemonEvent::Reappeared { domain, object } = &cluster.daemons.take_events()[0] else {
        panic!("no event");
    };
    assert_eq!(&**domain, "a");
    assert_eq!(
        object,
        "ResourceClaimTemplate nvidia/computedomain-daemon-a"
    );
    cluster.assert_idle();
    cluster.pass(600);
    cluster.list(&[]);
    assert!(cluster.removes("a"));

    cluster.daemons.removed("a", cluster.now);
    cluster.disappear("a");
    cluster.daemons.take_events();
    cluster.pass(601);
    // After that time, they count as new: claims are listed first.
    cluster.apply("a");
    cluster.list(&[("a", &["ns/x"])]);
    assert_eq!(cluster.daemons.take_events(), [waits("a", &["ns/x"])]);
}

// req: MODE-32
#[test]
fn a_watch_that_begins_again_changes_nothing_and_repeats_no_event() {
    let mut cluster = Cluster::with(&["a", "b"]);
    cluster.list(&[("a", &["ns/x"])]);
    cluster.daemons.take_events();
    for kind in [GoKind::DaemonSet, GoKind::Template] {
        cluster.daemons.begin(kind, NAMESPACE);
        cluster.daemons.begin(kind, "another");
    }
    assert!(!cluster.daemons.is_any());
    cluster.apply("a");
    cluster.daemons.listed(cluster.now);
    // Another client has removed b meanwhile.
    cluster.assert_idle();
    assert_eq!(cluster.daemons.take_events(), []);
    assert_eq!(cluster.daemons.waiting(), 1);
}

// req: MODE-33
#[test]
fn objects_without_the_go_drivers_name_and_labels_are_ignored() {
    type Change = fn(&mut ObjectMeta);
    let set_label = |meta: &mut ObjectMeta, name: &str, value: &str| {
        let labels = meta.labels.as_mut().unwrap();
        labels.insert(name.to_owned(), value.to_owned());
    };
    for kind in [GoKind::DaemonSet, GoKind::Template] {
        let changes: [Change; 5] = [
            |meta| meta.name = Some("computedomain-daemon-b".to_owned()),
            |meta| meta.labels = None,
            |meta| meta.uid = None,
            |meta| meta.namespace = None,
            |meta| {
                meta.labels
                    .as_mut()
                    .unwrap()
                    .remove("resource.nvidia.com/computeDomain");
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut meta = mk_meta("a");
            change(&mut meta);
            assert_eq!(GoObject::new(kind, &meta), None, "{kind:?} {number}");
        }
        let mut empty = mk_meta("");
        set_label(&mut empty, "resource.nvidia.com/computeDomain", "");
        assert_eq!(GoObject::new(kind, &empty), None);
    }
    let mut workload = mk_meta("a");
    let target = "resource.nvidia.com/computeDomainTarget";
    set_label(&mut workload, target, "Workload");
    assert_eq!(GoObject::new(GoKind::Template, &workload), None);

    assert!(is_clique_of("a.8f4b8d52.7", "a"));
    for name in ["a", "a.", "ab.8f4b8d52.7", "8f4b8d52.7"] {
        assert!(!is_clique_of(name, "a"), "{name}");
    }
}

// req: MODE-33
#[test]
fn the_patches_change_only_the_observed_values() {
    let object = mk_object(GoKind::DaemonSet, "a");
    assert_eq!(
        object.finalizer_removal().unwrap()[0],
        json!({ "op": "test", "path": "/metadata/uid", "value": "uid-a" })
    );
    let path = "/metadata/labels/resource.nvidia.com~1computeDomain";
    assert_eq!(
        label_removal("a"),
        json!([
            { "op": "test", "path": path, "value": "a" },
            { "op": "remove", "path": path },
        ])
    );
}
