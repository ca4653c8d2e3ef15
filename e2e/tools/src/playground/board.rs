//! The content of the views.

use std::collections::{BTreeMap, VecDeque};

use common::meta::NamespacedName;
use jiff::Timestamp;

use super::{
    processes::{Deed, Report},
    rows::{Progress, Row, node_line, rows},
    world::World,
};

const KEPT: usize = 200;

/// One line of history: an action of a controller, or another event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) at: Timestamp,
    /// The controller, or `playground`.
    pub(super) who: String,
    pub(super) text: String,
    pub(super) mood: Mood,
}

/// The kind of a note, which sets its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Neutral.
    Plain,
    /// Progress.
    Good,
    Bad,
}

#[derive(Debug)]
pub(super) struct Board {
    pub(super) started: Timestamp,
    pub(super) now: Timestamp,
    pub(super) url: String,
    /// The command that sets `KUBECONFIG`.
    pub(super) export: String,
    pub(super) nodes: u32,
    /// The line about nodes that are off, not ready or tainted.
    pub(super) node_line: Option<String>,
    /// Whether the example was applied.
    pub(super) has_example: bool,
    pub(super) status: String,
    pub(super) rows: Vec<Row>,
    pub(super) reports: BTreeMap<String, Report>,
    /// Oldest first.
    pub(super) history: VecDeque<Note>,
    pub(super) judged: u64,
    pub(super) broken: usize,
}

impl Board {
    /// Seconds since the start.
    pub(super) fn elapsed(&self, at: Timestamp) -> f64 {
        at.duration_since(self.started).as_secs_f64().max(0.0)
    }

    /// Inserts a line of history by its time, because the controllers report their actions with a delay.
    pub(super) fn note(&mut self, at: Timestamp, who: &str, text: String, mood: Mood) -> Note {
        let note = Note { at, who: who.to_owned(), text, mood };
        if self.history.len() == KEPT {
            self.history.pop_front();
        }
        let place = self.history.iter().rposition(|n| n.at <= note.at).map_or(0, |before| before + 1);
        self.history.insert(place, note.clone());
        note
    }

    /// Takes over the present state of the objects.
    pub(super) fn look(&mut self, world: &World, now: Timestamp) {
        self.now = now;
        self.rows = rows(world, now);
        self.node_line = node_line(world);
    }

    /// The keys of unfinished objects, whose explanations the playground asks for.
    pub(super) fn unfinished(&self) -> Vec<String> {
        const ASKED: usize = 6;
        let mut keys: Vec<String> = Vec::new();
        for row in self.rows.iter().filter(|row| matches!(row.progress, Progress::Underway | Progress::Failed)) {
            keys.push(row.key.to_string());
            let parts = row.parts.iter().filter(|p| p.pods.available() != p.size || p.pods.active() != p.size);
            keys.extend(parts.map(|p| NamespacedName::new(&row.key.namespace, &p.name).to_string()));
        }
        keys.truncate(ASKED);
        keys
    }
}

/// The actions of a sync in one line; `None` if it only updated a status.
pub(super) fn deed_line(deed: &Deed) -> Option<String> {
    const SHOWN: usize = 3;
    // Endpoints repeat the content of the slices of the same Service.
    const BOOKKEEPING: [&str; 4] = ["write the status", "write status:", "annotate ", "write the Endpoints"];
    let bookkeeping = |action: &&String| BOOKKEEPING.iter().any(|start| action.starts_with(start));
    let actions: Vec<&String> = deed.actions.iter().filter(|a| !bookkeeping(a)).collect();
    if actions.is_empty() {
        return None;
    }
    let mut shown: Vec<&str> = actions.iter().take(SHOWN).map(|a| a.as_str()).collect();
    let more = format!("... and {} more", actions.len().saturating_sub(SHOWN));
    if actions.len() > SHOWN {
        shown.push(&more);
    }
    Some(format!("{}: {}", deed.key, shown.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(actions: &[&str]) -> Deed {
        let actions = actions.iter().map(|a| (*a).to_owned()).collect();
        Deed { at: Timestamp::UNIX_EPOCH, key: "shop/web".to_owned(), actions }
    }

    #[test]
    fn deeds_that_only_keep_books_are_not_told() {
        assert_eq!(deed_line(&deed(&["write the status"])), None);
        assert_eq!(deed_line(&deed(&["create 2 Pods", "write the status"])).unwrap(), "shop/web: create 2 Pods");
        let many = deed(&["delete Pod a", "delete Pod b", "delete Pod c", "delete Pod d", "delete Pod e"]);
        assert_eq!(deed_line(&many).unwrap(), "shop/web: delete Pod a; delete Pod b; delete Pod c; ... and 2 more");
    }
}
