//! The table of costs that must not grow: `e2e/guards.txt`.
//!
//! A guard counts something that is the same in every run, such as allocations or requests, and compares it with the number in
//! the table. A number that is more than 5 % above the recorded one fails the guard; one that is more than 5 % below it is only
//! reported. With the environment variable [`RENEW`] set, guards write their numbers to the table instead.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// The environment variable that makes guards write the table instead of comparing with it.
pub const RENEW: &str = "NONET_RENEW_GUARDS";

/// The numbers of one path, by what they count: `allocations`, `bytes` or `requests`.
pub type Numbers = BTreeMap<String, u64>;

/// All lines of a table, by path.
type Lines = BTreeMap<String, Numbers>;

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// A line is not a path with its numbers.
    #[error("not a line of the table of guards: {0:?}")]
    Line(String),
}

/// How the numbers of a section compare with the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Numbers that are too high, and paths that are only on one side.
    pub worse: Vec<String>,
    /// Numbers that are lower than the table says.
    pub better: Vec<String>,
}

/// What the absence of a recorded path in a run means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmeasured {
    /// A guard was removed or renamed, which is a failure.
    Fails,
    /// Nothing of that kind was counted.
    IsZero,
}

/// The numbers that one test counts: a section of the table, whose paths begin with its name.
#[derive(Debug)]
pub struct Guards {
    section: &'static str,
    unmeasured: Unmeasured,
    measured: Lines,
}

impl Guards {
    /// An empty section.
    pub fn new(section: &'static str, unmeasured: Unmeasured) -> Self {
        Self { section, unmeasured, measured: Lines::new() }
    }

    /// Adds a number. `path` follows the name of the section.
    pub fn add(&mut self, path: &str, counted: &str, number: u64) {
        let numbers = self.measured.entry(format!("{}/{path}", self.section)).or_default();
        numbers.insert(counted.to_owned(), number);
    }

    /// Compares the numbers with the table, or writes them to it if [`RENEW`] is set. The result lists what is too high; what is
    /// lower than recorded is printed.
    ///
    /// # Errors
    /// If the table cannot be used.
    pub fn failures(self) -> Result<Vec<String>, TableError> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guards.txt");
        let failed = |error| TableError::File(path.clone(), error);
        let renews = std::env::var_os(RENEW).is_some();
        let mut file = File::options().read(true).write(renews).open(&path).map_err(failed)?;
        if renews {
            // Other tests write their sections at the same time.
            file.lock().map_err(failed)?;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        if renews {
            let text = self.written_to(&text)?;
            file.set_len(0).map_err(failed)?;
            file.seek(SeekFrom::Start(0)).map_err(failed)?;
            file.write_all(text.as_bytes()).map_err(failed)?;
            return Ok(Vec::new());
        }
        let Comparison { worse, better } = self.compare(&text)?;
        for line in better {
            println!("{line}; {RENEW}=1 renews the table");
        }
        Ok(worse)
    }

    fn is_mine(&self, path: &str) -> bool {
        path.strip_prefix(self.section).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Compares the numbers with the text of a table.
    ///
    /// # Errors
    /// If the text is no table.
    pub fn compare(&self, table: &str) -> Result<Comparison, TableError> {
        let recorded = read(table)?;
        let nothing = Numbers::new();
        let mut comparison = Comparison::default();
        for (path, numbers) in &self.measured {
            let known = recorded.get(path).unwrap_or(&nothing);
            for (counted, number) in numbers {
                match known.get(counted) {
                    None => comparison.worse.push(format!(
                        "{path}: {number} {counted}, which the table does not have; {RENEW}=1 adds the number"
                    )),
                    // More than 5 % apart, in whole numbers.
                    Some(old) if u128::from(*number) * 100 > u128::from(*old) * 105 => {
                        comparison.worse.push(format!("{path}: {number} {counted}, recorded are {old}"));
                    }
                    Some(old) if u128::from(*number) * 100 < u128::from(*old) * 95 => {
                        comparison.better.push(format!("{path}: {number} {counted}, recorded are {old}"));
                    }
                    Some(_) => {}
                }
            }
        }
        for (path, numbers) in recorded.iter().filter(|(path, _)| self.is_mine(path)) {
            let measured = self.measured.get(path).unwrap_or(&nothing);
            for counted in numbers.keys().filter(|counted| !measured.contains_key(*counted)) {
                match self.unmeasured {
                    Unmeasured::Fails => comparison.worse.push(format!("{path}: {counted} recorded but not measured")),
                    Unmeasured::IsZero => {
                        comparison.better.push(format!("{path}: {counted} recorded but not seen any more"));
                    }
                }
            }
        }
        Ok(comparison)
    }

    /// The text of a table with the numbers of this section replaced. The comment at the beginning stays.
    ///
    /// # Errors
    /// If the text is no table.
    pub fn written_to(&self, table: &str) -> Result<String, TableError> {
        let mut lines = read(table)?;
        lines.retain(|path, _| !self.is_mine(path));
        lines.extend(self.measured.clone());
        let mut text: String =
            table.lines().take_while(|line| line.starts_with('#')).fold(String::new(), |text, line| text + line + "\n");
        let width = lines.keys().map(String::len).max().unwrap_or_default();
        for (path, numbers) in &lines {
            // Writing into a string cannot fail.
            let _ = write!(text, "{path:width$}");
            for (counted, number) in numbers {
                let _ = write!(text, " {number:>6} {counted}");
            }
            text.push('\n');
        }
        Ok(text)
    }
}

fn read(table: &str) -> Result<Lines, TableError> {
    let wrong = |line: &str| TableError::Line(line.to_owned());
    let mut lines = Lines::new();
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (path, rest) = words.split_first().ok_or_else(|| wrong(line))?;
        let mut numbers = Numbers::new();
        for pair in rest.chunks(2) {
            let [number, counted] = pair else { return Err(wrong(line)) };
            numbers.insert((*counted).to_owned(), number.parse().map_err(|_| wrong(line))?);
        }
        if numbers.is_empty() || lines.insert((*path).to_owned(), numbers).is_some() {
            return Err(wrong(line));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A comment.\na/x  100 bytes  3 allocations\na/y    0 bytes\nb/z    7 requests\n";

    fn guards(bytes: u64, allocations: u64) -> Guards {
        let mut guards = Guards::new("a", Unmeasured::Fails);
        guards.add("x", "bytes", bytes);
        guards.add("x", "allocations", allocations);
        guards.add("y", "bytes", 0);
        guards
    }

    #[test]
    fn five_per_cent_more_pass_and_six_fail() {
        assert_eq!(guards(105, 3).compare(TABLE).unwrap(), Comparison::default());
        assert_eq!(guards(106, 3).compare(TABLE).unwrap().worse, ["a/x: 106 bytes, recorded are 100"]);
        assert_eq!(guards(100, 4).compare(TABLE).unwrap().worse, ["a/x: 4 allocations, recorded are 3"]);
    }

    #[test]
    fn a_zero_stays_zero() {
        let mut guards = guards(100, 3);
        guards.add("y", "bytes", 1);
        assert_eq!(guards.compare(TABLE).unwrap().worse, ["a/y: 1 bytes, recorded are 0"]);
    }

    #[test]
    fn lower_numbers_pass_and_are_reported() {
        assert_eq!(guards(95, 3).compare(TABLE).unwrap(), Comparison::default());
        let comparison = guards(94, 3).compare(TABLE).unwrap();
        assert_eq!(comparison.better, ["a/x: 94 bytes, recorded are 100"]);
        assert_eq!(comparison.worse, [""; 0]);
    }

    #[test]
    fn unknown_and_missing_paths_fail() {
        let mut more = guards(100, 3);
        more.add("new", "bytes", 1);
        let missing = format!("a/new: 1 bytes, which the table does not have; {RENEW}=1 adds the number");
        assert_eq!(more.compare(TABLE).unwrap().worse, [missing]);
        let nothing = |unmeasured| Guards::new("b", unmeasured).compare(TABLE).unwrap();
        assert_eq!(nothing(Unmeasured::Fails).worse, ["b/z: requests recorded but not measured"]);
        assert_eq!(nothing(Unmeasured::IsZero).better, ["b/z: requests recorded but not seen any more"]);
    }

    #[test]
    fn a_renewed_table_keeps_the_comment_and_the_other_sections() {
        let mut guards = Guards::new("a", Unmeasured::Fails);
        guards.add("w", "bytes", 5);
        assert_eq!(guards.written_to(TABLE).unwrap(), "# A comment.\na/w      5 bytes\nb/z      7 requests\n");
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for text in ["a/x", "a/x 1", "a/x one bytes", "a/x 1 bytes\na/x 2 bytes"] {
            assert!(matches!(guards(1, 1).compare(text), Err(TableError::Line(_))), "{text}");
        }
    }
}
