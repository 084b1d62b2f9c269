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

/// What a controller sees that starts while the daemons of this ComputeDomain run.
struct World {
    daemons: GoDaemons,
    now: Instant,
}

impl World {
    fn with(domains: &[&str]) -> Self {
        let mut world = Self {
            daemons: GoDaemons::default(),
            now: Instant::now(),
        };
        for domain in domains {
            world.apply(domain);
        }
        world.daemons.listed(world.now);
        world
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
        let Some(GoStep::ListClaims(asked)) = self.next() else {
            panic!("no list: {:?}", self.next());
        };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let claims = claims.iter().map(|(uid, all)| ((*uid).into(), names(all)));
        self.daemons.claims_are(&asked, claims.collect(), self.now);
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
fn the_daemons_of_a_domain_without_claims_go_before_their_template() {
    let mut world = World::with(&["a"]);
    world.list(&[]);
    let Some(GoStep::Remove { domain, objects }) = world.next() else {
        panic!("{:?}", world.next());
    };
    assert_eq!(&*domain, "a");
    let kinds: Vec<_> = objects.iter().map(GoObject::kind).collect();
    assert_eq!(kinds, [GoKind::DaemonSet, GoKind::Template]);
    world.daemons.removed("a", world.now);
    assert_eq!(world.daemons.take_events(), [removed("a")]);
    world.assert_idle();
    world.disappear("a");
    assert!(!world.daemons.is_any());
    assert_eq!(world.daemons.due(), None);
}

// req: MODE-30, MODE-35
#[test]
fn those_of_a_domain_with_claims_stay_until_the_last_is_gone_and_a_list_says_so() {
    let mut world = World::with(&["a"]);
    world.list(&[("a", &["ns/x", "ns/y"])]);
    assert_eq!(world.daemons.take_events(), [waits("a", &["ns/x", "ns/y"])]);
    assert_eq!(world.daemons.waiting(), 1);
    world.pass(3600);
    world.assert_idle();
    world.daemons.claim_released("ns/other", world.now);
    world.daemons.claim_released("ns/x", world.now);
    world.assert_idle();
    world.daemons.claim_released("ns/y", world.now);
    // A pod that has come meanwhile.
    world.list(&[("a", &["ns/z"])]);
    assert_eq!(world.daemons.take_events(), [waits("a", &["ns/z"])]);
    world.assert_idle();
    // The watch of claims was interrupted.
    let allocated = BTreeSet::from(["ns/other".to_owned()]);
    world.daemons.allocated_are(&allocated, world.now);
    world.pass(2);
    world.list(&[]);
    assert!(world.removes("a"));
    assert_eq!(world.daemons.waiting(), 0);
}

// req: MODE-35
#[test]
fn one_list_is_for_all_domains_and_there_is_one_in_two_seconds() {
    let mut world = World::with(&["a", "b", "c"]);
    world.list(&[("a", &["ns/a"]), ("c", &["ns/c"])]);
    assert!(world.removes("b"));
    world.daemons.removed("b", world.now);
    world.disappear("b");
    world.daemons.claim_released("ns/a", world.now);
    world.assert_idle();
    assert_eq!(
        world.daemons.due(),
        Some(world.now + Duration::from_secs(2))
    );
    world.pass(2);
    assert_eq!(
        world.next(),
        Some(GoStep::ListClaims(BTreeSet::from(["a".into()])))
    );
}

// req: MODE-32
#[test]
fn a_request_that_fails_is_made_again_after_a_growing_pause() {
    let mut world = World::with(&["a", "b"]);
    world.daemons.failed(["a", "b"], world.now);
    world.assert_idle();
    world.pass(1);
    world.list(&[]);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert!(world.removes("a"), "{pause}");
        world.daemons.failed(["a"], world.now);
        // No other one waits for it.
        assert!(world.removes("b"), "{pause}");
        assert!(world.daemons.due().is_some_and(|at| at <= world.now));
        world.pass(pause);
    }
}

// req: MODE-32
#[test]
fn a_request_that_fails_is_not_made_again_before_its_pause_has_passed() {
    let mut world = World::with(&["a"]);
    world.list(&[]);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert!(world.removes("a"), "{pause}");
        world.daemons.failed(["a"], world.now);
        world.pass(pause - 1);
        world.assert_idle();
        world.pass(1);
    }
}

// req: MODE-32
#[test]
fn what_finalizers_of_others_keep_is_tried_again_without_another_word() {
    let mut world = World::with(&["a"]);
    world.list(&[]);
    world.daemons.removed("a", world.now);
    world
        .daemons
        .remove("a", &mk_object(GoKind::DaemonSet, "a"));
    assert_eq!(world.daemons.take_events(), [removed("a")]);
    world.assert_idle();
    world.pass(30);
    assert!(world.removes("a"));
    world.daemons.removed("a", world.now);
    assert_eq!(world.daemons.take_events(), []);
    world.assert_idle();
}

// req: MODE-34
#[test]
fn daemons_that_come_back_are_left_alone_for_ten_minutes() {
    let mut world = World::with(&["a"]);
    world.list(&[]);
    world.daemons.removed("a", world.now);
    world.disappear("a");
    world.daemons.take_events();
    world.pass(60);
    world.apply("a");
    let GoDaemonEvent::CameBack { domain, object } = &world.daemons.take_events()[0] else {
        panic!("not told");
    };
    assert_eq!(&**domain, "a");
    assert_eq!(
        object,
        "ResourceClaimTemplate nvidia/computedomain-daemon-a"
    );
    world.assert_idle();
    world.pass(600);
    world.list(&[]);
    assert!(world.removes("a"));

    world.daemons.removed("a", world.now);
    world.disappear("a");
    world.daemons.take_events();
    world.pass(601);
    // Whoever makes them after that has a reason, and is asked for claims first.
    world.apply("a");
    world.list(&[("a", &["ns/x"])]);
    assert_eq!(world.daemons.take_events(), [waits("a", &["ns/x"])]);
}

// req: MODE-32
#[test]
fn a_watch_that_begins_anew_changes_nothing_and_tells_nothing_twice() {
    let mut world = World::with(&["a", "b"]);
    world.list(&[("a", &["ns/x"])]);
    world.daemons.take_events();
    for kind in [GoKind::DaemonSet, GoKind::Template] {
        world.daemons.begin(kind, NAMESPACE);
        world.daemons.begin(kind, "another");
    }
    assert!(!world.daemons.is_any());
    world.apply("a");
    world.daemons.listed(world.now);
    // Somebody has removed b meanwhile.
    world.assert_idle();
    assert_eq!(world.daemons.take_events(), []);
    assert_eq!(world.daemons.waiting(), 1);
}

// req: MODE-33
#[test]
fn what_has_not_the_name_and_the_labels_of_the_go_driver_is_nobodys() {
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
fn the_patches_change_what_was_seen_and_nothing_else() {
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
