//! Lines of an explanation that cost little, however many actions a plan has.

/// How many lines of one kind an explanation has. The others are counted.
const LISTED: usize = 10;

/// Lines for an explanation: the first ten, and the number of the others.
///
/// A line is formatted only if it is kept, so that a plan with many actions costs little to explain.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    listed: Vec<String>,
    more: i64,
}

impl Lines {
    /// Adds a line.
    pub fn push(&mut self, line: impl FnOnce() -> String) {
        if self.listed.len() < LISTED {
            self.listed.push(line());
        } else {
            self.more += 1;
        }
    }

    /// Counts so many lines as left out.
    pub fn leave_out(&mut self, count: usize) {
        self.more += i64::try_from(count).unwrap_or(i64::MAX);
    }

    /// The lines, the last one being the number of those left out.
    pub fn into_vec(self) -> Vec<String> {
        let Self { mut listed, more } = self;
        if more > 0 {
            listed.push(format!("... and {more} more"));
        }
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_and_never_formatted() {
        let (mut lines, mut formatted) = (Lines::default(), 0);
        for n in 0..13 {
            lines.push(|| {
                formatted += 1;
                format!("line {n}")
            });
        }
        let lines = lines.into_vec();
        assert_eq!((formatted, lines.len()), (10, 11));
        assert_eq!(lines[9..], ["line 9", "... and 3 more"]);
        assert!(Lines::default().into_vec().is_empty());
    }
}
