//! A state machine as a table and a diagram.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// The results of a transition function for every state and event.
#[derive(Debug)]
pub(crate) struct Machine {
    states: Vec<&'static str>,
    /// Each event with its results, in the order of the states.
    events: Vec<(&'static str, Vec<Answer>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Moves {
        /// The index of the next state.
        to: usize,
        /// The action of the transition; may be empty.
        action: String,
    },
    /// Why the event is refused; the state stays.
    Refused(String),
}

// === impl Machine ===

impl Machine {
    /// Calls `next` for every pair of state and event. It returns the next state,
    /// one of `states`, and the action, or why the event is refused.
    pub(crate) fn of<S: Copy + PartialEq, E: Copy, R: Display>(
        states: &[(S, &'static str)],
        events: &[(E, &'static str)],
        next: impl Fn(S, E) -> Result<(S, String), R>,
    ) -> Self {
        let index = |state: S| states.iter().position(|(other, _)| *other == state);
        let answer = |state: S, event: E| match next(state, event) {
            Ok((to, action)) => index(to).map_or_else(
                || Answer::Refused("unlisted state".to_owned()),
                |to| Answer::Moves { to, action },
            ),
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

    /// A Markdown table: a row for each event, a column for each state. `=` means
    /// no change.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("| event \\ state | {} |\n", self.states.join(" | "));
        text.push_str(&"|---".repeat(self.states.len() + 1));
        text.push_str("|\n");
        for (event, answers) in &self.events {
            let cells = answers.iter().enumerate();
            let cells: Vec<String> = cells.map(|(from, it)| self.cell(from, it)).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {event} | {} |", cells.join(" | "));
        }
        text
    }

    fn cell(&self, from: usize, answer: &Answer) -> String {
        match answer {
            Answer::Moves { to, action } if *to == from => match action.as_str() {
                "" => "=".to_owned(),
                action => action.to_owned(),
            },
            Answer::Moves { to, action } => match action.as_str() {
                "" => format!("**{}**", self.state(*to)),
                action => format!("{action}: **{}**", self.state(*to)),
            },
            Answer::Refused(reason) => format!("refused: `{reason}`"),
        }
    }

    /// A Mermaid state diagram. Events that change nothing are left out. An event
    /// that leads to the same state from all states is drawn once.
    pub(crate) fn picture(&self) -> String {
        let mut arrows: BTreeMap<(Option<usize>, usize), Vec<&str>> = BTreeMap::new();
        for (event, answers) in &self.events {
            if let Some(to) = same_for_all(answers) {
                arrows.entry((None, to)).or_default().push(event);
                continue;
            }
            for (from, answer) in answers.iter().enumerate() {
                match answer {
                    Answer::Moves { to, .. } if *to != from => {
                        arrows.entry((Some(from), *to)).or_default().push(event);
                    }
                    Answer::Moves { .. } | Answer::Refused(_) => {}
                }
            }
        }
        let mut text = String::from("```mermaid\nstateDiagram-v2\n");
        if arrows.keys().any(|(from, _)| from.is_none()) {
            text.push_str("    any: (any state)\n");
        }
        for (index, state) in self.states.iter().enumerate() {
            let _ = writeln!(text, "    s{index}: {state}");
        }
        for ((from, to), events) in arrows {
            let from = from.map_or_else(|| "any".to_owned(), |from| format!("s{from}"));
            // A colon would end the label.
            let label = events.join("; ").replace(':', " -");
            let _ = writeln!(text, "    {from} --> s{to}: {label}");
        }
        text.push_str("```\n");
        text
    }

    fn state(&self, index: usize) -> &'static str {
        self.states.get(index).copied().unwrap_or_default()
    }
}

/// The state to which all answers lead, if there is more than one answer.
fn same_for_all(answers: &[Answer]) -> Option<usize> {
    let mut targets = answers.iter().map(|answer| match answer {
        Answer::Moves { to, .. } => Some(*to),
        Answer::Refused(_) => None,
    });
    let first = targets.next()??;
    (answers.len() > 1 && targets.all(|to| to == Some(first))).then_some(first)
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
        Storm,
    }

    fn mk_machine() -> Machine {
        Machine::of(
            &[(Door::Open, "open"), (Door::Shut, "shut")],
            &[
                (Event::Push, "push"),
                (Event::Lock, "lock"),
                (Event::Storm, "storm: strong"),
            ],
            |door, event| match (door, event) {
                (Door::Open, Event::Lock) => Err("it-is-open"),
                (Door::Shut, Event::Lock) => Ok((Door::Shut, "turn the key".to_owned())),
                (Door::Shut, Event::Push) => Ok((Door::Open, "creak".to_owned())),
                (Door::Open, Event::Push) => Ok((Door::Shut, String::new())),
                (_, Event::Storm) => Ok((Door::Open, String::new())),
            },
        )
    }

    #[test]
    fn the_table_has_every_state_and_event() {
        let rows = "| event \\ state | open | shut |\n|---|---|---|\n\
            | push | **shut** | creak: **open** |\n| lock | refused: `it-is-open` | turn the key |\n\
            | storm: strong | = | **open** |\n";
        assert_eq!(mk_machine().table(), rows);
    }

    #[test]
    fn the_diagram_leaves_out_events_that_change_nothing() {
        let picture = "```mermaid\nstateDiagram-v2\n    any: (any state)\n    s0: open\n    \
            s1: shut\n    any --> s0: storm - strong\n    s0 --> s1: push\n    s1 --> s0: push\n```\n";
        assert_eq!(mk_machine().picture(), picture);
    }
}
