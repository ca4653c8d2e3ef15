//! The operator's choices: feature gates, tuned values, counts of workers.

use std::{collections::BTreeMap, path::Path, time::Duration};

use crate::clock::Clock;

/// A feature gate that a controller implements.
#[derive(Clone, Copy, Debug)]
pub struct FeatureGate {
    /// Name in `--feature-gates`, the same as upstream's.
    pub name: &'static str,
    /// Upstream's default in Kubernetes 1.36.
    pub is_on_by_default: bool,
    /// Whether the gate is fixed at its default (GA and locked upstream).
    pub is_locked: bool,
    /// Description in `--help`, one line.
    pub help: &'static str,
}

impl FeatureGate {
    /// Creates a gate that the operator can switch off.
    pub const fn on_by_default(name: &'static str, help: &'static str) -> Self {
        Self { name, is_on_by_default: true, is_locked: false, help }
    }

    /// Creates a gate that the operator can switch on.
    pub const fn off_by_default(name: &'static str, help: &'static str) -> Self {
        Self { name, is_on_by_default: false, is_locked: false, help }
    }

    /// Creates a gate that the operator cannot switch off.
    pub const fn always_on(name: &'static str, help: &'static str) -> Self {
        Self { name, is_on_by_default: true, is_locked: true, help }
    }
}

/// Upstream's gate for caches that know their version. Here it only switches the dependent gates `StaleControllerConsistency...`.
pub const ATOMIC_FIFO: FeatureGate = FeatureGate::on_by_default(
    "AtomicFIFO",
    "Caches know their version; if off, the gates StaleControllerConsistency... are off, too",
);

/// A setting of `--tune`: a value that upstream fixes in code.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Name in `--tune NAME=VALUE`.
    pub name: &'static str,
    /// Value unless the operator sets another value; the same as upstream's.
    pub default_value: TunableValue,
    /// Description in `--help`, one line.
    pub help: &'static str,
}

/// A value for `--tune`, with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TunableValue {
    /// A duration, in Go's notation: `1m30s`.
    Duration(Duration),
    /// A number of at least zero.
    Count(u64),
    /// A number that may be negative.
    Integer(i64),
    /// A number with a fraction.
    Ratio(f32),
    /// `true` or `false`.
    Switch(bool),
    /// The path of a file; empty for none. The text of the command line lives as long as the process.
    File(&'static str),
}

impl Tunable {
    /// Creates a setting with a duration in Go's notation, such as `1m30s`.
    pub const fn of_duration(name: &'static str, default: Duration, help: &'static str) -> Self {
        Self { name, default_value: TunableValue::Duration(default), help }
    }

    /// Creates a setting with a number of at least zero.
    pub const fn of_count(name: &'static str, default: u64, help: &'static str) -> Self {
        Self { name, default_value: TunableValue::Count(default), help }
    }

    /// Creates a setting with the values `true` and `false`.
    pub const fn of_switch(name: &'static str, default: bool, help: &'static str) -> Self {
        Self { name, default_value: TunableValue::Switch(default), help }
    }

    /// Creates a setting with the path of a file, which is empty by default.
    pub const fn of_file(name: &'static str, help: &'static str) -> Self {
        Self { name, default_value: TunableValue::File(""), help }
    }
}

/// `--kubeconfig`, for loops that read more of it than the client does. Every program has the flag.
pub const KUBECONFIG: Tunable =
    Tunable::of_file("kubeconfig", "Path of a kubeconfig; inside a cluster the Pod's own credentials are used");

/// The shortest interval between two syncs of a cached object that does not change. Every program has this setting.
///
/// Upstream: `--min-resync-period`.
pub const MIN_RESYNC_PERIOD: Tunable = Tunable::of_duration(
    "min-resync-period",
    Duration::from_hours(12),
    "How long until every object is synced again without a change, or up to twice this long; 0: never",
);

/// How long a sync waits for the caches to show a write of this process before the sync runs on caches without the write.
///
/// Upstream: `ExpectationsTimeout`.
pub const EXPECTATIONS_TIMEOUT: Tunable = Tunable::of_duration(
    "expectations-timeout",
    Duration::from_mins(5),
    "How long to wait for the cache to show a write of this process before syncing without it",
);

/// How often a leader searches the API server for traces of a second writer. Every program has this setting.
pub const SECOND_WRITER_SEARCH_PERIOD: Tunable = Tunable::of_duration(
    "second-writer-period",
    Duration::from_mins(5),
    "How often a leader searches for a second writer of its objects, for example a kube-controller-manager with the same loops; 0: never",
);

/// How long an idle process lets the events of watches accumulate. Every program has this setting. See [`crate::pace`].
pub const WATCH_BATCH_PERIOD: Tunable = Tunable::of_duration(
    "watch-batch-period",
    Duration::from_millis(20),
    "How long an idle process lets the events of watches accumulate before it handles them; 0: handles each event when it arrives",
);

/// The gate of streaming lists, in every program. If it is off, caches are filled page by page.
pub const WATCH_LIST_CLIENT: FeatureGate = FeatureGate::on_by_default(
    "WatchListClient",
    "Caches are filled by streaming lists if the server supports them; if off, page by page",
);

/// A flag with the count of a loop's workers.
#[derive(Clone, Copy, Debug)]
pub struct WorkersFlag {
    /// Name without leading dashes: `concurrent-replicaset-syncs`.
    pub name: &'static str,
    /// Count of workers unless the operator sets another count; the same as upstream's.
    pub default_worker_count: usize,
    /// The smallest accepted value. Upstream does not check the value of some flags.
    pub min_worker_count: usize,
    /// Description in `--help`, one line.
    pub help: &'static str,
}

impl WorkersFlag {
    /// Creates a flag that accepts one worker or more.
    pub const fn new(name: &'static str, default: usize, help: &'static str) -> Self {
        Self { name, default_worker_count: default, min_worker_count: 1, help }
    }
}

/// The operator's choices from the command line. Gates, settings and flags that the operator does not set have their defaults.
#[derive(Clone, Debug, Default)]
pub struct OperatorSettings {
    gates: BTreeMap<String, bool>,
    tunables: BTreeMap<String, TunableValue>,
    workers: BTreeMap<String, usize>,
    shadow: bool,
}

impl OperatorSettings {
    /// Creates settings with all defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches a feature gate on or off. A locked gate ignores the choice.
    #[must_use]
    pub fn with_feature_gate(mut self, name: &str, on: bool) -> Self {
        self.gates.insert(name.to_owned(), on);
        self
    }

    /// Overrides the default of a setting of `--tune`. A value of another type is ignored.
    #[must_use]
    pub fn with_tunable(mut self, name: &str, value: TunableValue) -> Self {
        self.tunables.insert(name.to_owned(), value);
        self
    }

    /// Sets the count of workers, as the command-line flag `flag` (without dashes) does.
    #[must_use]
    pub fn with_worker_count(mut self, flag: &str, workers: usize) -> Self {
        self.workers.insert(flag.to_owned(), workers);
        self
    }

    /// Switches shadow mode on or off. A shadow decides and counts, and writes nothing.
    #[must_use]
    pub fn with_shadow_mode(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Whether a feature gate is on, by the operator's choice or by default. A locked gate ignores the choice.
    pub fn is_feature_gate_on(&self, gate: &FeatureGate) -> bool {
        if gate.is_locked {
            gate.is_on_by_default
        } else {
            self.gates.get(gate.name).copied().unwrap_or(gate.is_on_by_default)
        }
    }

    /// Applies `read` to the operator's value, or to the default if there is no such value or `read` returns `None` for it.
    fn tuned_value<T: Default>(&self, tunable: &Tunable, read: impl Fn(TunableValue) -> Option<T>) -> T {
        self.tunables
            .get(tunable.name)
            .copied()
            .and_then(&read)
            .or_else(|| read(tunable.default_value))
            .unwrap_or_default()
    }

    /// Returns the operator's duration, or the default if the operator has set no duration.
    pub fn tuned_duration(&self, tunable: &Tunable) -> Duration {
        self.tuned_value(
            tunable,
            |value| if let TunableValue::Duration(duration) = value { Some(duration) } else { None },
        )
    }

    /// Returns the operator's count, or the default if the operator has set no count.
    pub fn tuned_count(&self, tunable: &Tunable) -> u64 {
        self.tuned_value(tunable, |value| if let TunableValue::Count(count) = value { Some(count) } else { None })
    }

    /// Returns the operator's count or the default, raised to at least one.
    pub fn tuned_nonzero_count(&self, tunable: &Tunable) -> usize {
        usize::try_from(self.tuned_count(tunable)).unwrap_or(usize::MAX).max(1)
    }

    /// Whether a sync waits until the caches show the last writes for its object: if both `gate` and [`ATOMIC_FIFO`] are on.
    pub fn waits_for_own_writes(&self, gate: &FeatureGate) -> bool {
        self.is_feature_gate_on(gate) && self.is_feature_gate_on(&ATOMIC_FIFO)
    }

    /// Returns the operator's integer, or the default if the operator has set no integer.
    pub fn tuned_integer(&self, tunable: &Tunable) -> i64 {
        self.tuned_value(tunable, |value| if let TunableValue::Integer(number) = value { Some(number) } else { None })
    }

    /// Returns the operator's ratio, or the default if the operator has set no ratio.
    pub fn tuned_ratio(&self, tunable: &Tunable) -> f32 {
        self.tuned_value(tunable, |value| if let TunableValue::Ratio(number) = value { Some(number) } else { None })
    }

    /// Whether the operator has switched a setting on, or its default is `true` and the operator has set no switch.
    pub fn is_tunable_on(&self, tunable: &Tunable) -> bool {
        self.tuned_value(tunable, |value| if let TunableValue::Switch(on) = value { Some(on) } else { None })
    }

    /// Returns the operator's path of a file; `None` if the operator has set no path, or an empty one.
    pub fn tuned_file(&self, tunable: &Tunable) -> Option<&'static Path> {
        let file =
            self.tuned_value(tunable, |value| if let TunableValue::File(file) = value { Some(file) } else { None });
        (!file.is_empty()).then(|| Path::new(file))
    }

    /// Returns the count of workers that the operator has set with a flag, or the default of the flag.
    pub fn worker_count(&self, flag: &WorkersFlag) -> usize {
        self.workers.get(flag.name).copied().unwrap_or(flag.default_worker_count)
    }

    /// Returns a random interval between resyncs, from one to two times the minimum; `None` if resyncs are off. Each call draws
    /// another random interval.
    pub fn random_resync_period(&self, clock: &Clock) -> Option<Duration> {
        let least = self.tuned_duration(&MIN_RESYNC_PERIOD);
        (!least.is_zero()).then(|| clock.jitter(least, 1.0))
    }

    /// Whether this process is a shadow, which decides and writes nothing.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }
}
