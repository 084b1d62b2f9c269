use std::collections::HashSet;

use super::*;

const TEMPLATE_EVENTS: [Event; 4] = [
    Event::TemplateAbsent,
    Event::TemplatePresent,
    Event::TemplateTerminating,
    Event::TemplateBlocked,
];

fn every_cell() -> impl Iterator<Item = (State, Event, Transition)> {
    State::ALL.into_iter().flat_map(|state| {
        let cell = move |event| (state, event, state.on(event));
        Event::ALL.into_iter().map(cell)
    })
}

/// The states without a deletion timestamp.
fn is_live(state: State) -> bool {
    !matches!(state, State::Deleting | State::Gone)
}

fn has_finalizer(state: State) -> bool {
    matches!(state, State::Finalized | State::Admitted | State::Deleting)
}

/// How the template is after our action, if nobody else does anything.
fn template_after(template: Event, action: Action) -> Event {
    match action {
        Action::CreateTemplate => Event::TemplatePresent,
        Action::DeleteTemplate => Event::TemplateTerminating,
        Action::RemoveTemplateFinalizer => Event::TemplateAbsent,
        _ => template,
    }
}

/// The states that follow one another from here if nobody else does anything, up to the first that
/// an action does not change.
fn life(mut state: State, mut template: Event) -> Vec<(State, Action)> {
    let mut steps = Vec::new();
    while steps.len() < 10 {
        let Transition { action, next } = state.on(template);
        let after = template_after(template, action);
        steps.push((next, action));
        if (next, after) == (state, template) {
            break;
        }
        (state, template) = (next, after);
    }
    steps
}

#[test]
fn a_template_is_created_only_behind_the_finalizer_and_only_when_there_is_none() {
    for (state, event, transition) in every_cell() {
        if transition.action == Action::CreateTemplate {
            assert!(has_finalizer(state), "{state:?} {event:?}");
            assert_eq!(event, Event::TemplateAbsent, "{state:?}");
        }
    }
}

#[test]
fn the_finalizer_stays_until_no_template_is_left() {
    for (state, event, transition) in every_cell() {
        let lost = has_finalizer(state) && !has_finalizer(transition.next);
        assert_eq!(lost, transition.action == Action::RemoveFinalizer);
        if lost {
            assert_eq!(event, Event::TemplateAbsent, "{state:?}");
            assert!(!is_live(state), "{state:?} {event:?}");
        }
    }
}

#[test]
fn the_template_loses_its_finalizer_only_when_it_is_being_deleted() {
    for (state, event, transition) in every_cell() {
        if transition.action == Action::RemoveTemplateFinalizer {
            assert_eq!(event, Event::TemplateTerminating, "{state:?}");
        }
    }
}

#[test]
fn only_the_template_of_a_deleted_domain_is_deleted() {
    for (state, event, transition) in every_cell() {
        if transition.action == Action::DeleteTemplate {
            assert!(!is_live(state), "{state:?} {event:?}");
        }
    }
}

#[test]
fn a_rejected_domain_gets_a_status_and_nothing_else() {
    for state in State::ALL.into_iter().filter(|state| is_live(*state)) {
        let transition = state.on(Event::Rejected);
        assert_eq!(transition.action, Action::ReportRejection, "{state:?}");
        assert_ne!(transition.next, State::Admitted, "{state:?}");
    }
}

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
fn a_deletion_asks_for_no_action_and_is_never_undone() {
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
    for (state, template) in State::ALL
        .into_iter()
        .flat_map(|state| TEMPLATE_EVENTS.map(|template| (state, template)))
    {
        let steps = life(state.on(Event::Deleted).next, template);
        let actions: Vec<_> = steps.iter().map(|(_, action)| *action).collect();
        if template == Event::TemplateBlocked {
            assert_eq!(actions, [Action::Wait], "{state:?}");
            continue;
        }
        let (end, requests) = actions.split_last().unwrap();
        assert_eq!(*end, Action::Nothing, "{state:?} {template:?}: {steps:?}");
        assert!(requests.len() <= 3, "{state:?} {template:?}: {steps:?}");
        assert_eq!(steps.last().unwrap().0, State::Gone);
    }
}

#[test]
fn a_domain_that_nothing_rejects_is_admitted_after_four_actions_unless_others_block_its_template() {
    for (state, template) in State::ALL
        .into_iter()
        .filter(|state| is_live(*state))
        .flat_map(|state| TEMPLATE_EVENTS.map(|template| (state, template)))
    {
        let steps = life(state, template);
        let end = steps.last().unwrap();
        if template == Event::TemplateBlocked {
            assert_eq!(end.1, Action::Wait, "{state:?}");
            continue;
        }
        assert_eq!(
            *end,
            (State::Admitted, Action::ReportAdmission),
            "{state:?} {template:?}"
        );
        let requests = steps.len() - usize::from(steps.len() > 1);
        assert!(requests <= 4, "{state:?} {template:?}: {steps:?}");
    }
}

#[test]
fn every_state_and_event_is_listed_once_under_a_name_of_its_own() {
    let states: HashSet<_> = State::ALL.map(State::name).into_iter().collect();
    assert_eq!(states.len(), State::ALL.len());
    let events: HashSet<_> = Event::ALL.map(Event::name).into_iter().collect();
    assert_eq!(events.len(), Event::ALL.len());
    for (state, _, transition) in every_cell() {
        assert!(State::ALL.contains(&transition.next), "{state:?}");
    }
}
