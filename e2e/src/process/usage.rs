//! Processor time and memory of a process, from the counters of the system.

use std::{fs, time::Duration};

/// Ticks of `/proc/<pid>/stat` in a second: a constant of Linux' interface.
const TICKS: u64 = 100;

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user and system mode, to 10 ms.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident: u64,
    /// The most resident memory so far in bytes.
    pub peak: u64,
    /// Threads.
    pub threads: u64,
}

impl Usage {
    /// Of a running process; none where there is no such process or no `/proc`.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Self::read(&stat, &status)
    }

    fn read(stat: &str, status: &str) -> Option<Self> {
        // The second field is the name in parentheses, which may hold anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok());
        let ticks = number(11)? + number(12)?;
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Self {
            cpu: Duration::from_millis(ticks * 1000 / TICKS),
            resident: kilobytes("VmRSS")? * 1024,
            peak: kilobytes("VmHWM")? * 1024,
            threads: number(17)?,
        })
    }
}

/// Memory of a running process in bytes, with its share of the pages that several processes map; `None` without such a process or
/// without `/proc`.
pub fn proportional_memory(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Voluntary context switches of the running threads of a process so far: the number of times that a thread went to sleep and
/// was woken. Those of threads that have ended are not included. None where there is no such process or no `/proc`.
pub(super) fn context_switches(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    Some(statuses.filter_map(|status| voluntary_switches(&status)).sum())
}

fn voluntary_switches(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_voluntary_context_switches_are_counted() {
        let status = "Threads:\t4\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(voluntary_switches(status), Some(150));
        assert_eq!(voluntary_switches("Threads:\t4\n"), None);
        assert!(context_switches(std::process::id()).is_some());
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_confuse() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 4 0 100 1000 200 18446744073709551615";
        let status = "Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t4\n";
        let expected = Usage { cpu: Duration::from_secs(2), resident: 1 << 20, peak: 2 << 20, threads: 4 };
        assert_eq!(Usage::read(stat, status), Some(expected));
    }

    #[test]
    fn this_process_uses_memory() {
        let resident = Usage::of(std::process::id()).unwrap().resident;
        assert!((1..=resident * 2).contains(&proportional_memory(std::process::id()).unwrap()));
    }
}
