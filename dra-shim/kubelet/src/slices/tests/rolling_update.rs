//! Two publishers of one node, with random interleavings of their requests: they converge in a
//! bounded number of writes.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::plan::{Stage, publish};
use super::super::stored_form::StoredForms;
use super::api::{Server, mk_device, mk_pool, visible};

/// One instance: its pending requests were planned from an earlier state of the server.
struct Instance {
    devices: Vec<Device>,
    pending: Vec<Stage>,
    registered: bool,
    alive: bool,
}

#[derive(Clone, Debug)]
enum Event {
    /// The instance takes part in the election, reads the slices, and plans.
    Plan(usize),
    /// The instance's next request reaches the server.
    Request(usize, usize),
    Register(usize),
    /// `kill -9`.
    Kill(usize),
    Start(usize),
    /// kubelet deletes one of the node's slices.
    Wipe(Index),
}

fn any_event() -> impl Strategy<Value = Event> {
    let who = 0..2_usize;
    prop_oneof![
        6 => who.clone().prop_map(Event::Plan),
        12 => (who.clone(), any::<usize>()).prop_map(|(who, which)| Event::Request(who, which)),
        1 => who.clone().prop_map(Event::Register),
        1 => who.clone().prop_map(Event::Kill),
        1 => who.prop_map(Event::Start),
        1 => any::<Index>().prop_map(Event::Wipe),
    ]
}

/// Up to three slices.
fn any_devices() -> impl Strategy<Value = Vec<Device>> {
    (0..190_u16, 0..2_u8).prop_map(|(count, version)| {
        let device = |number| mk_device(number, version);
        (0..count).map(device).collect()
    })
}

struct Model {
    server: Server,
    /// The instances, in order of their starts.
    instances: Vec<Instance>,
    /// Whether the instances share a data directory, and so one election.
    election: bool,
}

impl Model {
    fn new(devices: [Vec<Device>; 2], election: bool) -> Self {
        let instances = devices.map(|devices| Instance {
            devices,
            pending: Vec::new(),
            registered: false,
            alive: true,
        });
        Self {
            server: Server::default(),
            instances: instances.into(),
            election,
        }
    }

    /// The live instance that is elected: the newest registered one, or else the newest.
    fn elected(&self) -> Option<usize> {
        let alive = (0..self.instances.len()).filter(|&who| self.instances[who].alive);
        alive.max_by_key(|&who| (self.instances[who].registered, who))
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Plan(who) => self.plan(*who),
            Event::Request(who, which) => self.request(*who, *which),
            Event::Register(who) => self.instances[*who].registered |= self.instances[*who].alive,
            Event::Kill(who) => {
                let instance = &mut self.instances[*who];
                instance.pending.clear();
                instance.registered = false;
                instance.alive = false;
            }
            Event::Start(who) => self.instances[*who].alive = true,
            Event::Wipe(which) => {
                let names = self.server.names();
                if !names.is_empty() {
                    self.server.slices.remove(which.get(&names));
                }
            }
        }
    }

    fn plan(&mut self, who: usize) {
        let is_elected = !self.election || self.elected() == Some(who);
        let instance = &mut self.instances[who];
        instance.pending.clear();
        if instance.alive && is_elected {
            let stored_forms = StoredForms::default();
            let slices: &BTreeMap<String, ResourceSlice> = &self.server.slices;
            instance.pending =
                publish(&mk_pool(), &instance.devices, &stored_forms, slices).unwrap();
        }
    }

    fn request(&mut self, who: usize, which: usize) {
        let instance = &mut self.instances[who];
        let Some(stage) = instance.pending.first_mut() else {
            return;
        };
        let step = stage.remove(which % stage.len());
        if stage.is_empty() {
            instance.pending.remove(0);
        }
        if self.server.apply(step).is_err() {
            // In reality the rest of the stage is sent too; not sending it is another
            // interleaving.
            instance.pending.clear();
        }
    }

    /// Lets all instances plan and write, one after the other, until they have no requests.
    /// Returns the number of writes.
    fn settle(&mut self) -> usize {
        let before = self.server.writes;
        for _ in 0..10 {
            let written = self.server.writes;
            for who in 0..self.instances.len() {
                self.plan(who);
                while !self.instances[who].pending.is_empty() {
                    self.request(who, 0);
                }
            }
            if self.server.writes == written {
                return written - before;
            }
        }
        panic!(
            "they do not converge: {} writes",
            self.server.writes - before
        );
    }
}

proptest! {
    #[test]
    fn two_publishers_with_the_same_devices_converge_without_an_election(
        devices in any_devices(),
        events in vec(any_event(), 0..60),
    ) {
        let mut model = Model::new([devices.clone(), devices.clone()], false);
        for event in &events {
            model.apply(event);
        }
        model.apply(&Event::Start(0));
        let writes = model.settle();
        prop_assert!(writes <= 6, "{writes} writes for three slices");
        prop_assert_eq!(model.server.visible("n1"), Some(visible(&devices)));
        // Without wipes and crashes each slice is created once and never written again.
        let quiet = |event: &&Event| matches!(event, Event::Plan(_) | Event::Request(..));
        let mut model = Model::new([devices.clone(), devices], false);
        for event in events.iter().filter(quiet) {
            model.apply(event);
        }
        model.settle();
        prop_assert_eq!(model.server.writes, model.server.slices.len());
    }

    // req: KUBELET-46
    #[test]
    fn the_elected_publisher_prevails_if_devices_differ(
        devices in [any_devices(), any_devices()],
        events in vec(any_event(), 0..60),
        survivors in 1..4_u8,
    ) {
        let mut model = Model::new(devices.clone(), true);
        for event in &events {
            model.apply(event);
        }
        for who in 0..2 {
            let survives = survivors & (1 << who) != 0;
            model.apply(&if survives { Event::Start(who) } else { Event::Kill(who) });
        }
        let writes = model.settle();
        prop_assert!(writes <= 12, "{writes} writes for three slices");
        let who = model.elected().unwrap();
        prop_assert_eq!(model.server.visible("n1"), Some(visible(&devices[who])));
        prop_assert_eq!(model.settle(), 0);
    }
}
