//! Gives the memory of a process's program back while the process is at rest.
//!
//! The kernel maps 64 KiB of a program around each page that is touched. After its start, a process therefore has all its code
//! mapped, of which it executes a fifth at rest. A page that is given back stays in the cache of the file system. When it is touched,
//! it is mapped again without a read.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    time::Duration,
};

use crate::clock::Clock;

/// How often the process looks whether it is at rest.
const CHECK_PERIOD: Duration = Duration::from_secs(5);
/// A process is at rest if it has used less processor time than this since the last look: a thousandth.
const RESTING: Duration = Duration::from_millis(5);
/// Processor time since the last release at which another one is worth its cost.
const WORTHWHILE: Duration = Duration::from_millis(1);

/// Releases the pages each time the process comes to rest. Never returns.
pub async fn release_pages_at_rest(clock: &Clock) {
    let (mut released, mut seen) = (Duration::ZERO, Duration::ZERO);
    loop {
        clock.sleep(CHECK_PERIOD).await;
        let used = processor_time();
        if used.saturating_sub(seen) < RESTING && used.saturating_sub(released) >= WORTHWHILE {
            match release_pages() {
                Ok(()) => released = used,
                Err(error) => tracing::debug!(%error, "Cannot give back pages of the program"),
            }
        }
        seen = used;
    }
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Unmaps the pages of all files that are mapped without the right to write and have no changed page.
fn release_pages() -> io::Result<()> {
    for Mapping { start, length } in unchanged_mappings(BufReader::new(File::open("/proc/self/smaps")?))? {
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: The mapping is read-only, and none of its pages was changed, because changed pages count as anonymous. (Relocated
        // data was writable at first.) The next access reads the same bytes from the file.
        #[expect(unsafe_code, reason = "there is no safe function for it")]
        unsafe {
            rustix::mm::madvise(start, length, rustix::mm::Advice::LinuxDontNeed)?;
        }
    }
    Ok(())
}

/// A range of addresses.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    length: usize,
}

/// Returns the mappings in a file `smaps` of `/proc` that hold only the bytes of a file.
fn unchanged_mappings(smaps: impl BufRead) -> io::Result<Vec<Mapping>> {
    let (mut mappings, mut is_candidate) = (Vec::new(), false);
    for line in smaps.lines() {
        let line = line?;
        let mut words = line.split_ascii_whitespace();
        let (Some(first), Some(second)) = (words.next(), words.next()) else { continue };
        if let Some(name) = first.strip_suffix(':') {
            if is_candidate && matches!(name, "Anonymous" | "Swap") && second != "0" {
                mappings.pop();
                is_candidate = false;
            }
            continue;
        }
        let range = first.split_once('-').and_then(|(start, end)| {
            let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).ok());
            Some(Mapping { start: start?, length: end?.checked_sub(start?)? })
        });
        let is_private_file =
            matches!(second, "r--p" | "r-xp") && words.nth(3).is_some_and(|path| path.starts_with('/'));
        is_candidate = false;
        if let (Some(range), true) = (range, is_private_file) {
            mappings.push(range);
            is_candidate = true;
        }
    }
    Ok(mappings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_without_changed_pages_are_given_back() {
        let smaps = "\
            1000-3000 r--p 00000000 fe:01 5 /bin/a\nRss: 8 kB\nAnonymous: 0 kB\nSwap: 0 kB\n\
            3000-4000 r-xp 00002000 fe:01 5 /bin/a\nAnonymous: 0 kB\nVmFlags: rd ex\n\
            4000-5000 r--p 00003000 fe:01 5 /bin/a\nRss: 4 kB\nAnonymous: 4 kB\nSwap: 0 kB\n\
            5000-6000 r--p 00003000 fe:01 5 /bin/a\nRss: 0 kB\nAnonymous: 0 kB\nSwap: 4 kB\n\
            6000-7000 rw-p 00004000 fe:01 5 /bin/a\nAnonymous: 0 kB\n\
            7000-8000 rw-p 00000000 00:00 0 [heap]\nAnonymous: 4 kB\n\
            8000-9000 r-xp 00000000 00:00 0 [vdso]\nAnonymous: 0 kB\n\
            9000-a000 r--p 00000000 00:00 0\nAnonymous: 0 kB\n\
            a000-b000 r--s 00000000 fe:01 6 /shared\nAnonymous: 0 kB\n";
        let mappings = unchanged_mappings(smaps.as_bytes()).unwrap();
        assert_eq!(mappings, [Mapping { start: 0x1000, length: 0x2000 }, Mapping { start: 0x3000, length: 0x1000 }]);
    }

    #[test]
    fn a_process_goes_on_without_its_pages() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse::<u32>().unwrap()
        };
        let before = resident();
        release_pages().unwrap();
        let after = resident();
        assert!(after < before, "{after} of {before} kB");
    }
}
