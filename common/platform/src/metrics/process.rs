//! `process_*`: memory, CPU time and file descriptors of the process, read from `/proc`.

use std::{fs, sync::atomic::AtomicU64};

use super::{MetricFamily, Metrics, Stability::Unstated};

/// Clock ticks per second in `/proc`. Linux fixes this value for user space on every architecture in use.
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;
/// Bytes per kB, the unit of memory sizes in `/proc/self/status`.
const KB: f64 = 1024.0;

/// A counter of seconds with a fractional part.
type Seconds = prometheus_client::metrics::counter::Counter<f64, AtomicU64>;

pub(super) fn register_process_metrics(metrics: &Metrics, started: jiff::Timestamp) {
    let gauge = |name, help| metrics.gauge(name, Unstated, help, &[]).with_label_values(&[]);
    let resident = gauge("process_resident_memory_bytes", "Resident memory size in bytes.");
    let virtual_memory = gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.");
    let open_fds = gauge("process_open_fds", "Number of open file descriptors.");
    let max_fds = gauge("process_max_fds", "Maximum number of open file descriptors.");
    let start = gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.");
    start.set(started.as_millisecond() as f64 / 1000.0);
    let help = "Total user and system CPU time spent in seconds.";
    let cpu: MetricFamily<Seconds> = metrics.family("process_cpu_seconds_total", Unstated, help, &[], Seconds::default);
    let cpu = cpu.with_label_values(&[]);
    metrics.run_before_each_scrape(move || {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(kb) = field(&status, "VmRSS:") {
            resident.set(kb * KB);
        }
        if let Some(kb) = field(&status, "VmSize:") {
            virtual_memory.set(kb * KB);
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // One of the entries is the descriptor with which `/proc/self/fd` itself is read.
            open_fds.set(entries.count().saturating_sub(1) as f64);
        }
        if let Some(limit) = field(&fs::read_to_string("/proc/self/limits").unwrap_or_default(), "Max open files") {
            max_fds.set(limit);
        }
        if let Some(seconds) = cpu_seconds(&fs::read_to_string("/proc/self/stat").unwrap_or_default()) {
            cpu.inc_by((seconds - cpu.get()).max(0.0));
        }
    });
}

/// Returns the first number after `name` in the first line that begins with `name`.
fn field(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Returns user plus system time in seconds from `/proc/<pid>/stat`. The command field may contain blanks and parentheses.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / CLOCK_TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_after_a_command_with_parentheses() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 100 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (x) S 1"), None);
    }

    #[test]
    fn serves_memory_files_and_start_time_of_this_process() {
        let metrics = Metrics::new();
        metrics.serve_process_metrics(jiff::Timestamp::from_second(1_700_000_000).unwrap());
        let text = metrics.render_prometheus();
        let value = |name: &str| -> f64 {
            text.lines()
                .find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
                .unwrap_or_else(|| panic!("{name}: {text}"))
        };
        assert!(value("process_resident_memory_bytes ") > 100_000.0);
        assert!(value("process_open_fds ") >= 3.0);
        assert!(value("process_max_fds ") >= value("process_open_fds "));
        assert!(value("process_start_time_seconds ") > 1.6e9);
        assert!(text.contains("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total "), "{text}");
    }
}
