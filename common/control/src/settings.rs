//! What an operator can turn: feature gates, tuned values, workers.

use std::{collections::BTreeMap, time::Duration};

use crate::clock::Clock;

/// A feature gate a controller knows.
#[derive(Clone, Copy, Debug)]
pub struct FeatureGate {
    /// Upstream's name.
    pub name: &'static str,
    /// Position in 1.36 unless switched.
    pub default: bool,
    /// Whether the gate can no longer be switched (GA, locked).
    pub locked: bool,
    /// One line for the help text.
    pub help: &'static str,
}

impl FeatureGate {
    /// A gate that is on unless switched off.
    pub const fn on(name: &'static str, help: &'static str) -> Self {
        Self { name, default: true, locked: false, help }
    }

    /// A gate that is off unless switched on.
    pub const fn off(name: &'static str, help: &'static str) -> Self {
        Self { name, default: false, locked: false, help }
    }

    /// A gate that is on and can no longer be switched.
    pub const fn locked(name: &'static str, help: &'static str) -> Self {
        Self { name, default: true, locked: true, help }
    }
}

/// A gate of upstream's caches that the gates `StaleControllerConsistency...` depend on; it has no other effect here.
pub const ATOMIC_FIFO: FeatureGate = FeatureGate::on(
    "AtomicFIFO",
    "Caches know the version they have reached; off switches the gates StaleControllerConsistency... off, too",
);

/// A value that upstream fixes in code and that can be set with `--tune`.
#[derive(Clone, Copy, Debug)]
pub struct Tune {
    /// Name.
    pub name: &'static str,
    /// Upstream's value.
    pub default: TuneValue,
    /// One line for the help text.
    pub help: &'static str,
}

/// The value of a [`Tune`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TuneValue {
    /// A duration, written as Go writes them.
    Duration(Duration),
    /// A count.
    Count(u64),
    /// A count that may be negative.
    Integer(i64),
    /// A number with a fraction.
    Ratio(f32),
    /// On or off.
    Switch(bool),
}

impl Tune {
    /// A duration.
    pub const fn duration(name: &'static str, default: Duration, help: &'static str) -> Self {
        Self { name, default: TuneValue::Duration(default), help }
    }

    /// A count.
    pub const fn count(name: &'static str, default: u64, help: &'static str) -> Self {
        Self { name, default: TuneValue::Count(default), help }
    }

    /// A switch.
    pub const fn switch(name: &'static str, default: bool, help: &'static str) -> Self {
        Self { name, default: TuneValue::Switch(default), help }
    }
}

/// How often every cached object is looked at again although nothing happened: every program has this flag.
///
/// Upstream: `--min-resync-period`.
pub const MIN_RESYNC_PERIOD: Tune = Tune::duration(
    "min-resync-period",
    Duration::from_hours(12),
    "Look at every object again after this long, or up to twice that, although nothing happened to it; 0: never",
);

/// How long to wait for the caches to show a write of this process before syncing without it.
///
/// Upstream: `ExpectationsTimeout`.
pub const EXPECTATIONS_TIMEOUT: Tune = Tune::duration(
    "expectations-timeout",
    Duration::from_mins(5),
    "How long to wait for the cache to show a write of this process before syncing without it",
);

/// How often a leader asks the API server for signs of a second writer: every program has this value.
pub const SECOND_WRITER_PERIOD: Tune = Tune::duration(
    "second-writer-period",
    Duration::from_mins(5),
    "How often a leader looks for a second writer of its objects, for example a kube-controller-manager whose loops are still on; 0: never",
);

/// How long a process without work of its own lets events of watches gather: every program has this value. See [`crate::pace`].
pub const WATCH_BATCH_PERIOD: Tune = Tune::duration(
    "watch-batch-period",
    Duration::from_millis(20),
    "How long events of watches may gather while none of them brings work and no answer is awaited; 0: each is handled when it arrives",
);

/// The gate of streaming lists: every program has it. Off, caches are filled page by page.
pub const WATCH_LIST_CLIENT: FeatureGate = FeatureGate::on(
    "WatchListClient",
    "Caches are filled by streaming lists where the server has them; off: page by page",
);

/// A flag that sets how many workers a loop has.
#[derive(Clone, Copy, Debug)]
pub struct WorkersFlag {
    /// Name without dashes in front: `concurrent-replicaset-syncs`.
    pub name: &'static str,
    /// Upstream's default.
    pub default: usize,
    /// The smallest value accepted (upstream does not check some).
    pub min: usize,
    /// One line for the help text.
    pub help: &'static str,
}

impl WorkersFlag {
    /// A flag whose smallest value is one worker.
    pub const fn new(name: &'static str, default: usize, help: &'static str) -> Self {
        Self { name, default, min: 1, help }
    }
}

/// The operator's choices, after flags are read. Unknown names give the defaults the caller passes.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    gates: BTreeMap<String, bool>,
    tunes: BTreeMap<String, TuneValue>,
    workers: BTreeMap<String, usize>,
    shadow: bool,
}

impl Settings {
    /// Nothing switched.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a feature gate.
    #[must_use]
    pub fn with_gate(mut self, name: &str, on: bool) -> Self {
        self.gates.insert(name.to_owned(), on);
        self
    }

    /// Sets a tuned value.
    #[must_use]
    pub fn with_tune(mut self, name: &str, value: TuneValue) -> Self {
        self.tunes.insert(name.to_owned(), value);
        self
    }

    /// Sets the number of workers behind a flag.
    #[must_use]
    pub fn with_workers(mut self, flag: &str, workers: usize) -> Self {
        self.workers.insert(flag.to_owned(), workers);
        self
    }

    /// Computes and counts, writes nothing.
    #[must_use]
    pub fn with_shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Whether the gate is on.
    pub fn gate(&self, gate: &FeatureGate) -> bool {
        if gate.locked { gate.default } else { self.gates.get(gate.name).copied().unwrap_or(gate.default) }
    }

    /// What `read` finds in the value of a tune, or else in its default.
    fn value<T: Default>(&self, tune: &Tune, read: impl Fn(TuneValue) -> Option<T>) -> T {
        self.tunes.get(tune.name).copied().and_then(&read).or_else(|| read(tune.default)).unwrap_or_default()
    }

    /// The duration behind a tune; its default where it is no duration.
    pub fn duration(&self, tune: &Tune) -> Duration {
        self.value(tune, |value| if let TuneValue::Duration(duration) = value { Some(duration) } else { None })
    }

    /// The count behind a tune; its default where it is no count.
    pub fn count(&self, tune: &Tune) -> u64 {
        self.value(tune, |value| if let TuneValue::Count(count) = value { Some(count) } else { None })
    }

    /// The count behind a tune as the size of something that has at least one member.
    pub fn size(&self, tune: &Tune) -> usize {
        usize::try_from(self.count(tune)).unwrap_or(usize::MAX).max(1)
    }

    /// Whether a sync waits until the caches show what was last written for its object: `gate` is on, and [`ATOMIC_FIFO`].
    pub fn reads_own_writes(&self, gate: &FeatureGate) -> bool {
        self.gate(gate) && self.gate(&ATOMIC_FIFO)
    }

    /// The number behind a tune; its default where it is no such number.
    pub fn integer(&self, tune: &Tune) -> i64 {
        self.value(tune, |value| if let TuneValue::Integer(number) = value { Some(number) } else { None })
    }

    /// The number behind a tune; its default where it is no such number.
    pub fn ratio(&self, tune: &Tune) -> f32 {
        self.value(tune, |value| if let TuneValue::Ratio(number) = value { Some(number) } else { None })
    }

    /// The position behind a tune; its default where it is no switch.
    pub fn switch(&self, tune: &Tune) -> bool {
        self.value(tune, |value| if let TuneValue::Switch(on) = value { Some(on) } else { None })
    }

    /// The number of workers behind a flag.
    pub fn workers(&self, flag: &WorkersFlag) -> usize {
        self.workers.get(flag.name).copied().unwrap_or(flag.default)
    }

    /// How long the caches of one process wait between resyncs, drawn anew at every call; none if they never do.
    pub fn resync_period(&self, clock: &Clock) -> Option<Duration> {
        let least = self.duration(&MIN_RESYNC_PERIOD);
        (!least.is_zero()).then(|| clock.jitter(least, 1.0))
    }

    /// Whether only to compute and count.
    pub fn shadow(&self) -> bool {
        self.shadow
    }
}
