//! The first lines of an explanation, and the count of the omitted lines.

/// The most lines of one kind that an explanation shows. Further lines are only counted.
const MAX_LINES: usize = 10;

/// The first ten lines of an explanation, and the count of omitted lines.
///
/// A line is formatted only if it is kept. Explaining a plan with many actions is therefore cheap.
#[derive(Clone, Debug, Default)]
pub struct BoundedLines {
    listed: Vec<String>,
    omitted: i64,
}

impl BoundedLines {
    /// Adds a line. `line` is called only if there is room for its result.
    pub fn push(&mut self, line: impl FnOnce() -> String) {
        if self.listed.len() < MAX_LINES {
            self.listed.push(line());
        } else {
            self.omitted += 1;
        }
    }

    /// Adds `count` lines that were omitted without being formatted.
    pub fn add_omitted_count(&mut self, count: usize) {
        self.omitted += i64::try_from(count).unwrap_or(i64::MAX);
    }

    /// Returns the kept lines. If lines were omitted, a last line states their count.
    pub fn into_vec(self) -> Vec<String> {
        let Self { mut listed, omitted } = self;
        if omitted > 0 {
            listed.push(format!("... and {omitted} more"));
        }
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_lines_are_counted_and_never_formatted() {
        let (mut lines, mut formatted) = (BoundedLines::default(), 0);
        for n in 0..13 {
            lines.push(|| {
                formatted += 1;
                format!("line {n}")
            });
        }
        let lines = lines.into_vec();
        assert_eq!((formatted, lines.len()), (10, 11));
        assert_eq!(lines[9..], ["line 9", "... and 3 more"]);
        assert!(BoundedLines::default().into_vec().is_empty());
    }
}
