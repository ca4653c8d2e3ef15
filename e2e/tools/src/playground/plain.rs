//! The view for pipes and logs: one line for each change.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use super::board::{Board, Mood, Note};

/// The view that writes lines to standard output.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// The last line about each object, by kind and name.
    lines: BTreeMap<String, String>,
}

impl Plain {
    pub(super) fn note(board: &Board, note: &Note) -> io::Result<()> {
        let mark = if note.mood == Mood::Bad { "!! " } else { "" };
        Self::line(board.elapsed(note.at), &note.who, &format!("{mark}{}", note.text))
    }

    /// Writes a line for each changed object.
    pub(super) fn objects(&mut self, board: &Board) -> io::Result<()> {
        let rows = board.rows.iter().map(|row| (format!("{} {}", row.kind, row.key), row.line()));
        let now: BTreeMap<String, String> = rows.collect();
        for (object, line) in &now {
            if self.lines.get(object) != Some(line) {
                Self::line(board.elapsed(board.now), object, line)?;
            }
        }
        for object in self.lines.keys().filter(|object| !now.contains_key(*object)) {
            Self::line(board.elapsed(board.now), object, "deleted")?;
        }
        self.lines = now;
        Ok(())
    }

    fn line(elapsed: f64, who: &str, text: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{elapsed:7.2}s  {who:<25} {text}")
    }
}
