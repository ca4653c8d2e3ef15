//! Memory of the processes under test, and its figures.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::Figure;

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::bench) struct Memory {
    /// Without any work.
    pub(in crate::bench) idle: u64,
    /// Right after a restart with all Pods in the cluster; zero if the workload does not measure it.
    pub(in crate::bench) filled: u64,
    /// With all objects in the cluster and nothing to do; zero if the workload does not measure it.
    pub(in crate::bench) rest: u64,
    /// The maximum.
    pub(in crate::bench) peak: u64,
    /// At the end, after all Pods are gone.
    pub(in crate::bench) after: u64,
}

impl Memory {
    /// Bytes of one cached Pod.
    fn per_pod(&self, pods: u32) -> f64 {
        (self.filled as f64 - self.idle as f64) / f64::from(pods.max(1))
    }

    fn figures(&self, prefix: &str, pods: u32) -> Vec<Figure> {
        let megabytes = |label: &str, bytes: u64| Figure::new(format!("{prefix}{label}"), 1, bytes as f64 / 1e6);
        let mut figures = vec![megabytes("MB idle", self.idle)];
        if self.filled > 0 {
            figures.push(megabytes("MB with all Pods cached", self.filled));
            figures.push(Figure::new(format!("{prefix}bytes a cached Pod"), 0, self.per_pod(pods)));
        }
        if self.rest > 0 {
            figures.push(megabytes("MB at rest", self.rest));
        }
        figures.push(megabytes("MB at most", self.peak));
        figures.push(megabytes("MB afterwards", self.after));
        figures
    }
}

impl std::iter::Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            idle: a.idle + b.idle,
            filled: a.filled + b.filled,
            rest: a.rest + b.rest,
            peak: a.peak + b.peak,
            after: a.after + b.after,
        })
    }
}

/// The figures of all processes together and, on request, of each process if there are several.
pub(super) fn figures(processes: &BTreeMap<String, Memory>, pods: u32, by_process: bool) -> Vec<Figure> {
    let mut figures = processes.values().copied().sum::<Memory>().figures("", pods);
    if by_process && processes.len() > 1 {
        figures.extend(processes.iter().flat_map(|(name, memory)| memory.figures(&format!("  {name}: "), pods)));
    }
    figures
}
