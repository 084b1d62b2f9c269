use std::collections::HashSet;

use super::*;

/// The possible states of a template.
const TEMPLATE_EVENTS: [Event; 5] = [
    Event::TemplateAbsent,
    Event::TemplatePresent,
    Event::TemplateAltered,
    Event::TemplateTerminating,
    Event::TemplateBlocked,
];

/// A sequence of states, each with the action that leads to it.
type Life = Vec<(State, Action)>;

fn every_cell() -> impl Iterator<Item = (State, Event, Transition)> {
    State::ALL.into_iter().flat_map(|state| {
        let cell = move |event| (state, event, state.on(event));
        Event::ALL.into_iter().map(cell)
    })
}

/// The cells with this action.
fn cells_of(action: Action) -> Vec<(State, Event)> {
    let of_action = every_cell().filter(|(_, _, transition)| transition.action == action);
    of_action.map(|(state, event, _)| (state, event)).collect()
}

/// The states in which one of these events is resolved.
fn resolved(events: &[Event]) -> Vec<(State, Event)> {
    let mut cells = cells_of(Action::Resolve);
    cells.retain(|(_, event)| events.contains(event));
    cells
}

/// The events whose resolution writes the status.
const OF_THE_STATUS: [Event; 2] = [Event::Rejected, Event::ChannelUnreported];

/// The events whose resolution deletes the template.
const DELETED: [Event; 2] = [Event::TemplatePresent, Event::TemplateAltered];

/// The states of a ComputeDomain that exists without deletion timestamp.
fn is_live(state: State) -> bool {
    matches!(
        state,
        State::New | State::Rejected | State::Finalized | State::Admitted
    )
}

fn is_being_deleted(state: State) -> bool {
    matches!(state, State::Deleting | State::Gone)
}

fn exists(state: State) -> bool {
    is_live(state) || is_being_deleted(state)
}

fn has_finalizer(state: State) -> bool {
    matches!(state, State::Finalized | State::Admitted | State::Deleting)
}

/// The template's state after our action, without changes by others. `truth` is the result of a look-up.
fn template_after(template: Event, action: Action, truth: Event) -> Event {
    match (action, template) {
        (Action::CreateTemplate, _) => Event::TemplatePresent,
        (Action::Resolve, Event::TemplatePresent | Event::TemplateAltered) => {
            Event::TemplateTerminating
        }
        (Action::Resolve, Event::TemplateTerminating) => Event::TemplateAbsent,
        (Action::LookUpTemplate, _) => truth,
        _ => template,
    }
}

/// The sequence of states from here without changes by others, up to the first that an action does not change.
fn life_with(mut state: State, mut template: Event, truth: Event) -> Life {
    let mut steps = Vec::new();
    while steps.len() < 10 {
        let Transition { action, next } = state.on(template);
        let after = template_after(template, action, truth);
        steps.push((next, action));
        if (next, after) == (state, template) {
            break;
        }
        (state, template) = (next, after);
    }
    steps
}

/// The same without look-ups.
fn life(state: State, template: Event) -> Life {
    life_with(state, template, template)
}

/// Every life that begins in such a state, with the state of its template.
fn lives(begins: impl Fn(State) -> bool) -> Vec<(State, Event, Life)> {
    let begins = State::ALL.into_iter().filter(|state| begins(*state));
    let life_of = |state: State, template| (state, template, life(state, template));
    begins
        .flat_map(|state| TEMPLATE_EVENTS.map(|template| life_of(state, template)))
        .collect()
}

/// The number of requests of a life. Its last step repeats for ever.
fn requests(steps: &[(State, Action)]) -> usize {
    steps.len() - 1
}

// req: CD-5
#[test]
fn a_template_is_created_only_behind_the_finalizer_and_only_when_there_is_none() {
    for (state, event) in cells_of(Action::CreateTemplate) {
        assert!(
            has_finalizer(state) && is_live(state),
            "{state:?} {event:?}"
        );
        assert!(matches!(
            event,
            Event::TemplateAbsent | Event::TemplateUnseen
        ));
    }
}

// req: CD-18
#[test]
fn the_finalizer_stays_until_no_template_is_left() {
    for (state, event, transition) in every_cell().filter(|(state, ..)| exists(*state)) {
        let lost = has_finalizer(state) && !has_finalizer(transition.next);
        assert_eq!(lost, transition.action == Action::RemoveFinalizer);
        if lost {
            assert_eq!(event, Event::TemplateAbsent, "{state:?}");
            assert!(is_being_deleted(state), "{state:?}");
        }
    }
}

#[test]
fn the_finalizer_is_not_removed_only_because_the_watch_has_no_template() {
    let transition = State::Deleting.on(Event::TemplateUnseen);
    assert_eq!(transition.action, Action::LookUpTemplate);
    assert_eq!(transition.next, State::Deleting);
    assert_eq!(
        cells_of(Action::LookUpTemplate),
        [(State::Deleting, Event::TemplateUnseen)]
    );
}

#[test]
fn the_template_of_a_live_domain_is_deleted_only_if_it_is_altered() {
    let cells = resolved(&DELETED);
    for (state, event) in cells.into_iter().filter(|(state, _)| is_live(*state)) {
        assert_eq!(event, Event::TemplateAltered, "{state:?}");
        assert!(has_finalizer(state), "{state:?}");
    }
    for state in [State::Finalized, State::Admitted] {
        let action = state.on(Event::TemplateAltered).action;
        assert_eq!(action, Action::Resolve, "{state:?}");
    }
}

#[test]
fn a_domain_that_the_watch_does_not_have_is_only_looked_up() {
    for event in Event::ALL {
        let Transition { action, next } = State::Missing.on(event);
        match action {
            Action::Nothing => assert_eq!(next, State::Missing, "{event:?}"),
            Action::LookUpDomain => assert_eq!(next, State::Absent, "{event:?}"),
            // A Lease stays if a claim uses it again, or if another client deleted it.
            Action::Resolve => assert!(
                matches!(event, Event::ChannelUsedAgain | Event::LeaseLost),
                "{event:?}"
            ),
            _ => panic!("{event:?}: {action:?}"),
        }
    }
    assert_eq!(
        cells_of(Action::LookUpDomain),
        [
            (State::Missing, Event::TemplatePresent),
            (State::Missing, Event::TemplateTerminating),
            (State::Missing, Event::ChannelUnused),
            (State::Missing, Event::ChannelCooled),
        ]
    );
}

#[test]
fn a_domain_is_absent_only_after_a_look_up_and_stays_absent() {
    for (state, event, transition) in every_cell() {
        if transition.next == State::Absent && state != State::Absent {
            assert_eq!(transition.action, Action::LookUpDomain, "{event:?}");
        }
        if state == State::Absent {
            assert_eq!(transition.next, State::Absent, "{event:?}");
        }
    }
}

#[test]
fn only_templates_and_leases_are_changed_when_the_domain_does_not_exist() {
    let harmless = [Action::Nothing, Action::LookUpDomain, Action::Resolve];
    for (state, event, transition) in every_cell().filter(|(state, ..)| !exists(*state)) {
        assert!(harmless.contains(&transition.action), "{state:?} {event:?}");
        if transition.action == Action::Resolve {
            assert!(!OF_THE_STATUS.contains(&event), "{state:?} {event:?}");
        }
        assert!(!exists(transition.next), "{state:?} {event:?}");
    }
}

#[test]
fn foreign_templates_are_not_deleted_for_a_domain_that_does_not_exist() {
    for state in [State::Missing, State::Absent] {
        for event in [Event::TemplateAltered, Event::TemplateBlocked] {
            assert_eq!(state.on(event).action, Action::Nothing, "{state:?}");
        }
    }
}

#[test]
fn a_rejected_domain_gets_a_status_and_nothing_else() {
    for state in State::ALL.into_iter().filter(|state| is_live(*state)) {
        let transition = state.on(Event::Rejected);
        assert_eq!(transition.action, Action::Resolve, "{state:?}");
        assert_ne!(transition.next, State::Admitted, "{state:?}");
        assert_eq!(has_finalizer(transition.next), has_finalizer(state));
    }
    for (state, _) in resolved(&[Event::Rejected]) {
        assert!(is_live(state), "{state:?}");
    }
}

// req: CD-8
#[test]
fn a_domain_is_admitted_only_while_its_template_exists() {
    for (state, event, transition) in every_cell() {
        if transition.next == State::Admitted && state != State::Admitted {
            assert_eq!(event, Event::TemplatePresent, "{state:?}");
            assert_eq!(transition.action, Action::ReportAdmission);
        }
    }
}

#[test]
fn a_channel_is_taken_and_reported_only_for_a_live_domain_with_the_finalizer() {
    for (state, event) in resolved(&[Event::ChannelWanted, Event::ChannelUnreported]) {
        assert!(
            has_finalizer(state) && is_live(state),
            "{state:?} {event:?}"
        );
    }
    for (state, event) in resolved(&[Event::ChannelLost]) {
        assert!(has_finalizer(state), "{state:?} {event:?}");
    }
}

#[test]
fn a_lease_is_released_or_deleted_only_after_a_look_up_of_the_domain() {
    let cells = resolved(&[Event::ChannelUnused, Event::ChannelCooled]);
    assert!(!cells.is_empty());
    for (state, event) in cells {
        assert_ne!(state, State::Missing, "{event:?}");
    }
}

#[test]
fn a_domain_whose_status_has_just_got_its_channel_is_not_admitted() {
    for (state, event) in resolved(&[Event::ChannelUnreported]) {
        assert_eq!(state.on(event).next, State::Finalized, "{state:?}");
    }
}

#[test]
fn a_deletion_needs_no_action_and_is_never_undone() {
    for (state, event, transition) in every_cell() {
        if event == Event::Deleted {
            assert_eq!(transition.action, Action::Nothing, "{state:?}");
        }
        if event == Event::Deleted || !is_live(state) {
            assert!(!is_live(transition.next), "{state:?} {event:?}");
        }
    }
}

#[test]
fn a_deleted_domain_is_gone_after_three_actions_unless_others_block_its_template() {
    for (state, template, _) in lives(exists) {
        let steps = life(state.on(Event::Deleted).next, template);
        let (end, action) = *steps.last().unwrap();
        if template == Event::TemplateBlocked {
            assert_eq!(steps.len(), 1, "{state:?}");
            assert_eq!(action, Action::Resolve, "{state:?}");
            continue;
        }
        assert_eq!((end, action), (State::Gone, Action::Nothing), "{steps:?}");
        assert!(requests(&steps) <= 3, "{state:?} {template:?}: {steps:?}");
    }
}

#[test]
fn a_deleted_domain_whose_template_had_to_be_looked_up_is_gone_too() {
    for truth in TEMPLATE_EVENTS {
        let steps = life_with(State::Deleting, Event::TemplateUnseen, truth);
        let found = life(State::Deleting, truth);
        assert_eq!(steps[0], (State::Deleting, Action::LookUpTemplate));
        assert_eq!(steps[1..], found[..], "{truth:?}");
    }
}

#[test]
fn a_domain_without_a_reason_to_reject_is_admitted_unless_others_block_its_template() {
    for (state, template, steps) in lives(is_live) {
        let end = *steps.last().unwrap();
        if template == Event::TemplateBlocked {
            assert_eq!(end.1, Action::Resolve, "{state:?}");
            continue;
        }
        let admitted = (State::Admitted, Action::ReportAdmission);
        assert_eq!(end, admitted, "{state:?} {template:?}");
        // A repair deletes, releases and creates. The finalizer comes first, the status last.
        let most = if template == Event::TemplateAltered {
            5
        } else {
            4
        };
        assert!(
            requests(&steps) <= most,
            "{state:?} {template:?}: {steps:?}"
        );
    }
    let undisturbed = life(State::New, Event::TemplateAbsent);
    assert_eq!(requests(&undisturbed), 3);
}

#[test]
fn an_orphaned_template_of_ours_is_deleted_and_released() {
    for (state, template, steps) in lives(|state| !exists(state)) {
        let actions: Vec<_> = steps.iter().map(|(_, action)| *action).collect();
        let look_up: &[Action] = match (state, template) {
            (State::Missing, Event::TemplatePresent | Event::TemplateTerminating) => {
                &[Action::LookUpDomain]
            }
            _ => &[],
        };
        let rest: &[Action] = match template {
            Event::TemplatePresent => &[Action::Resolve, Action::Resolve, Action::Nothing],
            Event::TemplateTerminating => &[Action::Resolve, Action::Nothing],
            _ => &[Action::Nothing],
        };
        assert_eq!(actions, [look_up, rest].concat(), "{state:?} {template:?}");
    }
}

#[test]
fn every_state_event_and_action_is_listed_once_with_a_unique_name() {
    let states: HashSet<_> = State::ALL.map(State::name).into_iter().collect();
    assert_eq!(states.len(), State::ALL.len());
    let events: HashSet<_> = Event::ALL.map(Event::name).into_iter().collect();
    assert_eq!(events.len(), Event::ALL.len());
    let actions: HashSet<_> = every_cell().map(|(.., it)| it.action).collect();
    let others = every_cell().filter(|(.., it)| it.action != Action::Resolve);
    let names: HashSet<_> = others.map(|(_, event, it)| it.action.name(event)).collect();
    assert_eq!(names.len(), actions.len() - 1);
    for (state, event) in cells_of(Action::Resolve) {
        let name = event.resolution();
        assert!(!names.contains(name), "{state:?} {event:?}: {name}");
    }
    for (state, event, transition) in every_cell() {
        assert!(State::ALL.contains(&transition.next), "{state:?} {event:?}");
    }
}
