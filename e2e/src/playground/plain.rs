//! The view for pipes and logs: one line a change.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use common::meta::Key;

use super::board::{Board, Mood, Note};

/// Writes lines to stdout.
#[derive(Debug, Default)]
pub(super) struct Plain {
    rollouts: BTreeMap<Key, String>,
}

impl Plain {
    /// Writes a line of history.
    pub(super) fn note(board: &Board, note: &Note) -> io::Result<()> {
        let mark = if note.mood == Mood::Bad { "!! " } else { "" };
        Self::line(board.elapsed(note.at), &note.who, &format!("{mark}{}", note.text))
    }

    /// Writes what has changed about rollouts.
    pub(super) fn rollouts(&mut self, board: &Board) -> io::Result<()> {
        for rollout in &board.rollouts {
            let line = rollout.line();
            if self.rollouts.get(&rollout.key) != Some(&line) {
                Self::line(board.elapsed(board.now), &rollout.key.to_string(), &line)?;
                self.rollouts.insert(rollout.key.clone(), line);
            }
        }
        let gone: Vec<Key> =
            self.rollouts.keys().filter(|key| !board.rollouts.iter().any(|r| r.key == **key)).cloned().collect();
        for key in gone {
            self.rollouts.remove(&key);
            Self::line(board.elapsed(board.now), &key.to_string(), "deleted")?;
        }
        Ok(())
    }

    fn line(elapsed: f64, who: &str, text: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{elapsed:7.2}s  {who:<22} {text}")
    }
}
