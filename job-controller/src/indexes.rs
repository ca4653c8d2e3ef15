//! Sets of completion indexes, and their text in the status of a Job, such as `1,3-5`.
//!
//! A set is a list of intervals, so that its size is proportional to its text and not to the number of indexes.

use std::fmt;

/// The indexes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: u32,
    last: u32,
}

/// A set of completion indexes.
///
/// Sets with the same indexes are equal, because the intervals are sorted, do not touch and are never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionIndexSet {
    intervals: Vec<Interval>,
}

impl CompletionIndexSet {
    /// Parses a text such as `1,3-5,7`, limited to indexes below `completions`.
    ///
    /// Items that are not numbers are skipped, and parsing stops at the first item that begins at or beyond `completions`.
    /// Upstream: `pkg/controller/job`, `parseIndexesFromString`.
    pub fn parse(text: &str, completions: u32) -> Self {
        let mut out = Vec::new();
        if text.is_empty() || completions == 0 {
            return Self::default();
        }
        for item in text.split(',') {
            let mut ends = item.split('-');
            let Some(first) = ends.next().and_then(parse_number) else { continue };
            if first >= completions {
                break;
            }
            let last = match ends.next().map(parse_number) {
                None => first,
                Some(Some(last)) => last.min(completions - 1),
                Some(None) => continue,
            };
            if last >= first {
                out.push(Interval { first, last });
            }
        }
        Self::from_intervals(out)
    }

    /// Builds a set from intervals in any order; joins intervals that touch or overlap.
    fn from_intervals(mut intervals: Vec<Interval>) -> Self {
        if !intervals.is_sorted_by_key(|i| i.first) {
            intervals.sort_by_key(|i| i.first);
        }
        intervals.dedup_by(|next, previous| {
            let touches = next.first <= previous.last.saturating_add(1);
            if touches {
                previous.last = previous.last.max(next.last);
            }
            touches
        });
        Self { intervals }
    }

    /// Counts the indexes, not the intervals that hold them.
    pub fn len(&self) -> usize {
        self.intervals.iter().map(|i| (i.last - i.first) as usize + 1).sum()
    }

    /// Whether no index is in the set, so that its text is empty.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether `index` is in the set.
    pub fn contains(&self, index: u32) -> bool {
        let at = self.intervals.partition_point(|i| i.last < index);
        self.intervals.get(at).is_some_and(|i| i.first <= index)
    }

    /// Returns the set with more indexes, given in any order.
    #[must_use]
    pub fn with_indexes(mut self, more: impl IntoIterator<Item = u32>) -> Self {
        let more: Vec<Interval> = more.into_iter().map(|index| Interval { first: index, last: index }).collect();
        if more.is_empty() {
            return self;
        }
        self.intervals.reserve_exact(more.len());
        self.intervals.extend(more);
        Self::from_intervals(self.intervals)
    }

    /// Returns the indexes that are in this set or in `other`.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        Self::from_intervals(self.intervals.iter().chain(&other.intervals).copied().collect())
    }

    /// Returns the number of indexes that are in this set and in `other`.
    pub fn common_index_count(&self, other: &Self) -> usize {
        let (mut a, mut b, mut count) = (0, 0, 0);
        while let (Some(x), Some(y)) = (self.intervals.get(a), other.intervals.get(b)) {
            let (first, last) = (x.first.max(y.first), x.last.min(y.last));
            if first <= last {
                count += (last - first) as usize + 1;
            }
            if x.last < y.last { a += 1 } else { b += 1 }
        }
        count
    }

    /// Returns the indexes of this set that are not in `other`.
    #[must_use]
    pub fn without_indexes(&self, other: &Self) -> Self {
        let mut intervals = Vec::with_capacity(self.intervals.len() + other.intervals.len());
        let mut holes = other.intervals.iter().peekable();
        for part in &self.intervals {
            let mut first = part.first;
            while let Some(hole) = holes.next_if(|hole| hole.last < part.last) {
                if hole.first > first {
                    intervals.push(Interval { first, last: hole.first - 1 });
                }
                first = first.max(hole.last + 1);
            }
            // The loop has passed all holes that end before this part does, so the next hole can cut off only the end.
            if holes.peek().is_none_or(|hole| hole.first > first) {
                let last = holes.peek().map_or(part.last, |hole| part.last.min(hole.first - 1));
                intervals.push(Interval { first, last });
            }
        }
        Self { intervals }
    }

    /// Iterates over the indexes below `completions` that are not in this set, lowest first.
    pub fn missing_indexes(&self, completions: u32) -> impl Iterator<Item = u32> + '_ {
        let starts = std::iter::once(0).chain(self.intervals.iter().map(|i| i.last.saturating_add(1)));
        let ends = self.intervals.iter().map(|i| i.first).chain(std::iter::once(completions));
        starts.zip(ends).flat_map(move |(start, end)| start..end.min(completions))
    }
}

/// Writes increasing numbers, separated by commas; three or more consecutive numbers as `first-last`.
impl fmt::Display for CompletionIndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Interval { first, last }) in self.intervals.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Parses a decimal number as Go does, with an optional plus sign and leading zeros. Numbers beyond `u32` saturate.
fn parse_number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A value beyond `u32` exceeds every possible value of `spec.completions`.
    Some(digits.parse().unwrap_or(u32::MAX))
}

/// Parses the completion index in an annotation: a number from 0, with an optional plus sign and leading zeros. Upstream:
/// `pkg/controller/job`, `getCompletionIndex`.
pub fn parse_completion_index(annotation: &str) -> Option<u32> {
    let negative_zero = annotation.strip_prefix('-').is_some_and(|rest| parse_number(rest) == Some(0));
    if negative_zero { Some(0) } else { parse_number(annotation) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(indexes: &[u32]) -> CompletionIndexSet {
        CompletionIndexSet::default().with_indexes(indexes.iter().copied())
    }

    fn all(set: &CompletionIndexSet) -> Vec<u32> {
        (0..100_000).filter(|i| set.contains(*i)).collect()
    }

    /// JOB-30.
    #[test]
    fn sets_are_written_as_upstream_writes_them() {
        for (indexes, text) in [
            (&[][..], ""),
            (&[1], "1"),
            (&[1, 2], "1,2"),
            (&[1, 2, 3], "1-3"),
            (&[0, 2, 3, 4, 6, 7], "0,2-4,6,7"),
            (&[7, 6, 4, 3, 2, 0, 0], "0,2-4,6,7"),
        ] {
            assert_eq!(set(indexes).to_string(), text);
        }
    }

    /// JOB-30.
    #[test]
    fn texts_are_read_as_upstream_reads_them() {
        for (text, completions, want) in [
            ("1,3-5,7,9-12", 11, &[1, 3, 4, 5, 7, 9, 10][..]),
            ("", 5, &[]),
            ("0-4", 0, &[]),
            ("x,1,-,2-y,3", 5, &[1, 3]),
            ("1,9,2", 5, &[1]),
            ("+1,002", 5, &[1, 2]),
            ("3-1", 5, &[]),
            ("0-99999999999999999999", 3, &[0, 1, 2]),
            ("4,1,2", 5, &[1, 2, 4]),
        ] {
            assert_eq!(all(&CompletionIndexSet::parse(text, completions)), want, "{text}");
        }
    }

    #[test]
    fn adjacent_intervals_are_joined() {
        assert_eq!(CompletionIndexSet::parse("0,1,2-4,5", 10).to_string(), "0-5");
    }

    /// JOB-27.
    #[test]
    fn the_lowest_missing_indexes_come_first() {
        let taken = set(&[0, 1, 4, 2]);
        assert_eq!(taken.missing_indexes(8).take(3).collect::<Vec<_>>(), [3, 5, 6]);
        assert_eq!(taken.with_indexes([5]).missing_indexes(8).take(3).collect::<Vec<_>>(), [3, 6, 7]);
        assert_eq!(set(&[9]).missing_indexes(3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(set(&[]).missing_indexes(0).count(), 0);
    }

    /// JOB-29.
    #[test]
    fn completion_indexes_are_parsed_as_go_parses_numbers() {
        for (text, want) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("+3", Some(3)),
            ("-0", Some(0)),
            ("-1", None),
            ("", None),
            ("1.0", None),
            (" 1", None),
            ("+-1", None),
        ] {
            assert_eq!(parse_completion_index(text), want, "{text:?}");
        }
    }

    /// JOB-67.
    #[test]
    fn a_hundred_thousand_completed_indexes_are_one_interval() {
        let set = CompletionIndexSet::default().with_indexes(0..100_000);
        assert_eq!((set.len(), set.intervals.len(), set.to_string().as_str()), (100_000, 1, "0-99999"));
    }

    proptest! {
        #[test]
        fn a_set_behaves_like_a_set(a in prop::collection::vec(0u32..60, 0..40), b in prop::collection::vec(0u32..60, 0..40)) {
            let (x, y) = (set(&a), set(&b));
            let (a, b): (BTreeSet<u32>, BTreeSet<u32>) = (a.into_iter().collect(), b.into_iter().collect());
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(&CompletionIndexSet::parse(&x.to_string(), 60), &x);
            prop_assert_eq!(x.union(&y), set(&a.union(&b).copied().collect::<Vec<_>>()));
            prop_assert_eq!(x.without_indexes(&y), set(&a.difference(&b).copied().collect::<Vec<_>>()));
            prop_assert_eq!(x.common_index_count(&y), a.intersection(&b).count());
            prop_assert_eq!(x.missing_indexes(60).collect::<Vec<_>>(), (0..60).filter(|i| !a.contains(i)).collect::<Vec<_>>());
            for i in 0..60 {
                prop_assert_eq!(x.contains(i), a.contains(&i));
            }
        }

        /// JOB-30.
        #[test]
        fn any_text_is_parsed_into_valid_indexes(text in "[0-9,+-]{0,40}", completions in 0u32..200) {
            let set = CompletionIndexSet::parse(&text, completions);
            prop_assert!(all(&set).iter().all(|i| *i < completions));
            prop_assert_eq!(CompletionIndexSet::parse(&set.to_string(), completions), set);
        }
    }
}
