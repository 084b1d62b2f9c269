//! Any state machine as a table and a picture.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// What a transition function answers for every state and event.
#[derive(Debug)]
pub(crate) struct Machine {
    states: Vec<&'static str>,
    /// Each with its answers, in the order of the states.
    events: Vec<(&'static str, Vec<Answer>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// The index of a state.
    To(usize),
    /// Why the event is refused; the state stays.
    Refused(String),
}

// === impl Machine ===

impl Machine {
    /// Asks `next` about every pair. A state that `next` answers with has to be
    /// one of `states`.
    pub(crate) fn of<S: Copy + PartialEq, E: Copy, R: Display>(
        states: &[(S, &'static str)],
        events: &[(E, &'static str)],
        next: impl Fn(S, E) -> Result<S, R>,
    ) -> Self {
        let answer = |state: S, event: E| match next(state, event) {
            Ok(to) => states
                .iter()
                .position(|(state, _)| *state == to)
                .map_or_else(|| Answer::Refused("unlisted state".to_owned()), Answer::To),
            Err(refused) => Answer::Refused(refused.to_string()),
        };
        let row = |event: E| states.iter().map(move |(state, _)| answer(*state, event));
        Self {
            states: states.iter().map(|(_, name)| *name).collect(),
            events: events
                .iter()
                .map(|(event, name)| (*name, row(*event).collect()))
                .collect(),
        }
    }

    /// A Markdown table: a row for each event, a column for each state. `=`:
    /// the event changes nothing.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("| event \\ state | {} |\n", self.states.join(" | "));
        text.push_str(&"|---".repeat(self.states.len() + 1));
        text.push_str("|\n");
        for (event, answers) in &self.events {
            let cells = answers
                .iter()
                .enumerate()
                .map(|(from, answer)| match answer {
                    Answer::To(to) if *to == from => "=".to_owned(),
                    Answer::To(to) => format!("**{}**", self.state(*to)),
                    Answer::Refused(reason) => reason.clone(),
                });
            let cells: Vec<String> = cells.collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {event} | {} |", cells.join(" | "));
        }
        text
    }

    /// A Mermaid state diagram; events that change nothing are left out.
    pub(crate) fn picture(&self) -> String {
        let mut arrows: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
        for (event, answers) in &self.events {
            for (from, answer) in answers.iter().enumerate() {
                match answer {
                    Answer::To(to) if *to != from => {
                        arrows.entry((from, *to)).or_default().push(event);
                    }
                    Answer::To(_) | Answer::Refused(_) => {}
                }
            }
        }
        let mut text = String::from("```mermaid\nstateDiagram-v2\n");
        for (index, state) in self.states.iter().enumerate() {
            let _ = writeln!(text, "    s{index}: {state}");
        }
        for ((from, to), events) in arrows {
            let _ = writeln!(text, "    s{from} --> s{to}: {}", events.join(", "));
        }
        text.push_str("```\n");
        text
    }

    fn state(&self, index: usize) -> &'static str {
        self.states.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Door {
        Open,
        Shut,
    }

    #[derive(Clone, Copy)]
    enum Event {
        Push,
        Lock,
    }

    fn mk_machine() -> Machine {
        Machine::of(
            &[(Door::Open, "open"), (Door::Shut, "shut")],
            &[(Event::Push, "push"), (Event::Lock, "lock")],
            |door, event| match (door, event) {
                (Door::Open, Event::Push) => Ok(Door::Shut),
                (Door::Shut, Event::Push) => Ok(Door::Open),
                (Door::Shut, Event::Lock) => Ok(Door::Shut),
                (Door::Open, Event::Lock) => Err("refused: it is open"),
            },
        )
    }

    #[test]
    fn the_table_has_every_state_and_event() {
        let rows = "| event \\ state | open | shut |\n|---|---|---|\n\
            | push | **shut** | **open** |\n| lock | refused: it is open | = |\n";
        assert_eq!(mk_machine().table(), rows);
    }

    #[test]
    fn the_picture_has_the_arrows_that_lead_elsewhere() {
        let picture = "```mermaid\nstateDiagram-v2\n    s0: open\n    s1: shut\n    \
            s0 --> s1: push\n    s1 --> s0: push\n```\n";
        assert_eq!(mk_machine().picture(), picture);
    }
}
