//! Each loss, and that IMEX channels have none.

use imex_cdi::{
    ChannelId, ContainerEdits, Device, DeviceName, HostNodes, Kind, Loss, Major, NriContainer,
    NriRelease, OsHost, Plan, QualifiedName, Registry, Spec, channel_edits,
};
use nri_plugin::api::{Container, ContainerAdjustment, User};

const RELEASES: [NriRelease; 3] = [NriRelease::Nri0_3, NriRelease::Nri0_10, NriRelease::Nri0_11];

fn adjust(
    edits: ContainerEdits,
    container: &Container,
    release: NriRelease,
) -> (ContainerAdjustment, Vec<Loss>) {
    let scratch = tempfile::tempdir().unwrap();
    let device = Device {
        name: DeviceName::new("d").unwrap(),
        annotations: std::collections::BTreeMap::new(),
        container_edits: edits,
    };
    let spec = Spec::new(Kind::new("a.b", "c").unwrap(), vec![device]).unwrap();
    std::fs::write(scratch.path().join("one.json"), spec.to_json()).unwrap();
    let registry = Registry::load(&[scratch.path()]);
    let names: [QualifiedName; 1] = ["a.b/c=d".parse().unwrap()];
    let mut target = NriContainer::new(container);
    let host: &dyn HostNodes = &OsHost::new(scratch.path());
    let plan = Plan::new(&registry, &names, &target, host).unwrap();
    plan.apply(&mut target);
    let adjusted = target.into_adjustment(release);
    (adjusted.adjustment, adjusted.losses)
}

fn edits(json: &str) -> ContainerEdits {
    serde_json::from_str(json).unwrap()
}

fn loss_texts(json: &str, release: NriRelease) -> Vec<String> {
    let (_, losses) = adjust(edits(json), &Container::default(), release);
    losses.iter().map(Loss::to_string).collect()
}

// req: NRI-10
#[test]
fn an_imex_channel_loses_nothing_on_any_release() {
    for release in RELEASES {
        let channel = channel_edits(ChannelId::new(5).unwrap(), Major::new(235).unwrap());
        let (adjustment, losses) = adjust(channel, &Container::default(), release);
        assert_eq!(losses, []);
        let linux = adjustment.linux.unwrap();
        let [node] = &linux.devices[..] else {
            panic!("{linux:?}")
        };
        assert_eq!(
            (node.major, node.minor, node.r#type.as_str()),
            (235, 5, "c")
        );
        assert_eq!(linux.resources, None);
    }
}

#[test]
fn the_losses_are_sentences() {
    let node = r#"{"deviceNodes": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "permissions": "PERMISSIONS", "fileMode": 384}]}"#;
    let with = |permissions: &str| node.replace("PERMISSIONS", permissions);
    assert_eq!(
        loss_texts(&with("rwm"), NriRelease::Nri0_3),
        [
            "make /dev/x c 1:3 mode 0600: the runtime does not report the container's user, so root owns the device node",
            "allow c 1:3 rwm: NRI versions before 0.10 allow rw",
        ]
    );
    assert_eq!(
        loss_texts(&with("r"), NriRelease::Nri0_11)[1..],
        ["allow c 1:3 r: NRI allows rw"]
    );
    assert_eq!(
        loss_texts(
            r#"{"env": ["-A=b"], "deviceNodes": [{"path": "/p", "type": "p"}], "additionalGids": [7],
                "netDevices": [{"hostInterfaceName": "eth0", "name": "net0"}]}"#,
            NriRelease::Nri0_10
        ),
        [
            "set -A=b: in NRI, a name with a leading - means removal",
            "make /p p: NRI adds block and character devices only",
            "add group 7: NRI has no field for this change",
            "move network device eth0 into the container as net0: this change needs NRI 0.11",
        ]
    );
}

#[test]
fn a_node_belongs_to_the_containers_user_if_the_runtime_reports_it() {
    let node = r#"{"deviceNodes": [{"path": "/dev/x", "type": "c", "major": 1, "fileMode": 384, "permissions": "rw"}]}"#;
    let container = Container {
        user: Some(User {
            uid: 7,
            gid: 8,
            additional_gids: vec![],
        }),
        ..Container::default()
    };
    let (adjustment, losses) = adjust(edits(node), &container, NriRelease::Nri0_11);
    assert_eq!(losses, []);
    let node = adjustment.linux.unwrap().devices.remove(0);
    assert_eq!((node.uid.unwrap().value, node.gid.unwrap().value), (7, 8));
}
