//! Chooses the Events to send: combines similar messages, counts repeats, and limits the number of Events per object.
//!
//! Upstream: `client-go/tools/record`, `EventCorrelator` with its defaults.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{EventType, InvolvedObject, RecordedEvent, ReportingLoop};
use crate::{
    clock::{Clock, Instant},
    meta::ResourceVersion,
    selector::is_dns_subdomain,
    siphash::SipHash,
};

/// Maximum number of entries of each cache of the correlator. Upstream: `maxLruCacheEntries`.
const CACHE: usize = 4096;
/// Number of different messages about one object and reason at which they are combined. Upstream: `defaultAggregateMaxEvents`.
const AGGREGATE_AT: usize = 10;
/// Time without a message about an object and reason that resets the count. Upstream: `defaultAggregateIntervalInSeconds`.
const AGGREGATE_WITHIN: Duration = Duration::from_mins(10);
/// Number of Events about one object that may be sent without a pause. Upstream: `defaultSpamBurst`.
const BURST: f64 = 25.0;
/// Time after which one more Event about an object may be sent. Upstream: `defaultSpamQPS`.
const REFILL: Duration = Duration::from_mins(5);

/// A map of limited size that evicts the least recently used entry.
#[derive(Debug)]
struct Lru<K, V> {
    entries: BTreeMap<Arc<K>, (u64, V)>,
    by_age: BTreeMap<u64, Arc<K>>,
    age: u64,
    limit: usize,
}

impl<K: Ord, V> Lru<K, V> {
    fn new(limit: usize) -> Self {
        Self { entries: BTreeMap::new(), by_age: BTreeMap::new(), age: 0, limit }
    }

    /// Returns the value under `key`, or else the result of `make`, and marks the entry as the most recently used.
    fn touch(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.age += 1;
        let age = self.age;
        let known = self.entries.get(&key).map(|(old, _)| *old);
        let key = known.and_then(|old| self.by_age.remove(&old)).unwrap_or_else(|| Arc::new(key));
        if known.is_none()
            && self.entries.len() >= self.limit
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_age.insert(age, Arc::clone(&key));
        let entry = self.entries.entry(key).or_insert_with(|| (age, make()));
        entry.0 = age;
        &mut entry.1
    }
}

/// Cache key for the limit per object: source, object and type of an Event. The version of the object is cleared.
type LimitKey = (ReportingLoop, InvolvedObject, EventType);

/// Cache key under which similar messages are combined: object and reason.
type AggregateKey = (LimitKey, Cow<'static, str>);

/// Cache key under which equal Events, or combined Events, are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RepeatKey {
    Event(AggregateKey, Digest),
    Combined(AggregateKey),
}

/// Hash of a message. The caches keep hashes, because thousands of long messages would take too much memory.
type Digest = u128;

fn digest(message: &str) -> Digest {
    let mut hash = SipHash::new([0; 2]);
    hash.update(message.as_bytes());
    hash.finish()
}

#[derive(Debug)]
struct Aggregate {
    messages: BTreeSet<Digest>,
    last: Instant,
}

/// Count, name and first time of the Event that was sent for one [`RepeatKey`].
#[derive(Clone, Debug, Default)]
struct SentRecord {
    count: u32,
    name: String,
    first: Timestamp,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// An Event that is to be created or patched.
#[derive(Clone, Debug)]
pub(super) struct OutgoingEvent {
    /// The latest occurrence of the Event.
    pub(super) event: RecordedEvent,
    pub(super) name: String,
    /// Whether `reportingComponent` has a value; it is empty in an Event that combines several messages.
    pub(super) has_reporting_component: bool,
    pub(super) count: u32,
    pub(super) first_time: Timestamp,
    /// Whether an Event with this name was sent before, so that it is patched instead of created.
    pub(super) is_repeat: bool,
}

/// Decides for each recorded Event whether it is sent, and in what form.
#[derive(Debug)]
pub(super) struct Correlator {
    clock: Clock,
    aggregates: Lru<AggregateKey, Aggregate>,
    sent: Lru<RepeatKey, SentRecord>,
    buckets: Lru<LimitKey, Bucket>,
}

impl Correlator {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, aggregates: Lru::new(CACHE), sent: Lru::new(CACHE), buckets: Lru::new(CACHE) }
    }

    /// Returns the Event to send for `event`; `None` if no Event is to be sent.
    pub(super) fn correlate(&mut self, mut event: RecordedEvent) -> Option<OutgoingEvent> {
        let now = self.clock.monotonic_now();
        let object =
            (event.source, InvolvedObject { version: ResourceVersion::UNKNOWN, ..event.object.clone() }, event.kind);
        let subject = (object.clone(), event.reason.clone());
        let message = digest(&event.message);
        let combined = self.aggregate(subject.clone(), message, now);
        // The time makes the name unique. If the name of the object cannot be part of an Event's name, the name is random.
        let mut name = format!("{}.{:x}", event.object.name, event.recorded_at.as_nanosecond());
        let repeat = if combined {
            event.message = format!("(combined from similar events): {}", event.message);
            RepeatKey::Combined(subject)
        } else {
            if !is_dns_subdomain(&name) {
                name = self.clock.random_uuid();
            }
            RepeatKey::Event(subject, message)
        };
        let sent = self.sent.touch(repeat, SentRecord::default);
        let known = sent.count > 0;
        if !known {
            *sent = SentRecord { count: 0, name, first: event.recorded_at };
        }
        // Events that are not sent are counted, too.
        sent.count += 1;
        let SentRecord { count, name, first } = sent.clone();
        self.take_token(object, now).then_some(OutgoingEvent {
            event,
            name,
            has_reporting_component: !combined,
            count,
            first_time: first,
            is_repeat: known,
        })
    }

    /// Records a message about an object and reason. Returns whether the recent messages about them have to be combined.
    fn aggregate(&mut self, key: AggregateKey, message: Digest, now: Instant) -> bool {
        let aggregate = self.aggregates.touch(key, || Aggregate { messages: BTreeSet::new(), last: now });
        if now.saturating_duration_since(aggregate.last) > AGGREGATE_WITHIN {
            aggregate.messages.clear();
        }
        aggregate.last = now;
        aggregate.messages.insert(message);
        if aggregate.messages.len() < AGGREGATE_AT {
            return false;
        }
        let one = self.clock.random_below(aggregate.messages.len());
        if let Some(one) = aggregate.messages.iter().nth(one).copied() {
            aggregate.messages.remove(&one);
        }
        true
    }

    /// Takes a token for an Event about an object. Returns whether a token was available.
    fn take_token(&mut self, key: LimitKey, now: Instant) -> bool {
        let bucket = self.buckets.touch(key, || Bucket { tokens: BURST, at: now });
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() / REFILL.as_secs_f64();
        bucket.tokens = (bucket.tokens + gained).min(BURST);
        bucket.at = now;
        let allowed = bucket.tokens >= 1.0;
        if allowed {
            bucket.tokens -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{intern::Text, meta::Uid};

    fn clock() -> Clock {
        Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap(), 5)
    }

    fn event(clock: &Clock, message: &str) -> RecordedEvent {
        event_about(clock, "web-1", message)
    }

    fn event_about(clock: &Clock, name: &str, message: &str) -> RecordedEvent {
        RecordedEvent {
            source: ReportingLoop { component: "replicaset-controller", client_name: "replicaset-controller" },
            object: InvolvedObject {
                api_version: Text::new("apps/v1"),
                kind: Text::new("ReplicaSet"),
                namespace: Text::new("ns"),
                name: Text::new(name),
                uid: Uid::new("u"),
                version: ResourceVersion::parse("7"),
            },
            kind: EventType::Normal,
            reason: Cow::Borrowed("SuccessfulCreate"),
            message: message.to_owned(),
            recorded_at: clock.now(),
        }
    }

    /// COMMON-80.
    #[tokio::test(start_paused = true)]
    async fn a_hundred_pods_make_nine_events_and_one_combined_one_that_counts_to_sixteen() {
        let clock = clock();
        let mut correlator = Correlator::new(clock.clone());
        let out: Vec<_> =
            (0..100).map(|n| correlator.correlate(event(&clock, &format!("Created pod: web-{n}")))).collect();
        let sent: Vec<_> = out.iter().flatten().collect();
        assert_eq!(sent.len(), 25);
        assert!(out[25..].iter().all(Option::is_none));
        assert!(sent[..9].iter().all(|e| e.count == 1
            && !e.is_repeat
            && e.has_reporting_component
            && e.event.message.starts_with("Created")));
        for (n, combined) in sent[9..].iter().enumerate() {
            assert_eq!(combined.count as usize, n + 1);
            assert_eq!(combined.is_repeat, n > 0);
            assert_eq!(combined.name, sent[9].name);
            assert!(!combined.has_reporting_component);
            assert_eq!(combined.event.message, format!("(combined from similar events): Created pod: web-{}", n + 9));
        }
        assert_eq!(sent[24].count, 16);
        // One more Event is allowed every five minutes, and it carries the whole count.
        clock.sleep(Duration::from_secs(301)).await;
        let late = correlator.correlate(event(&clock, "Created pod: web-100")).unwrap();
        assert_eq!(late.count, 92);
        assert!(correlator.correlate(event(&clock, "Created pod: web-101")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeat_is_counted_under_its_first_name_and_time() {
        let clock = clock();
        let mut correlator = Correlator::new(clock.clone());
        let first = correlator.correlate(event(&clock, "x")).unwrap();
        clock.sleep(Duration::from_secs(3)).await;
        let second = correlator.correlate(event(&clock, "x")).unwrap();
        assert_eq!(
            (second.count, second.is_repeat, &second.name, second.first_time),
            (2, true, &first.name, first.first_time)
        );
        assert_eq!(second.event.recorded_at, clock.now());
        assert_eq!(first.name, format!("web-1.{:x}", first.first_time.as_nanosecond()));
    }

    /// COMMON-80.
    #[tokio::test(start_paused = true)]
    async fn ten_minutes_of_silence_end_an_aggregate() {
        let clock = clock();
        let mut correlator = Correlator::new(clock.clone());
        for n in 0..9 {
            correlator.correlate(event(&clock, &n.to_string())).unwrap();
        }
        clock.sleep(Duration::from_secs(601)).await;
        assert!(correlator.correlate(event(&clock, "new")).unwrap().has_reporting_component);
        for n in 0..8 {
            assert!(correlator.correlate(event(&clock, &format!("again {n}"))).unwrap().has_reporting_component);
        }
        assert!(!correlator.correlate(event(&clock, "tenth")).unwrap().has_reporting_component);
    }

    /// COMMON-80.
    #[tokio::test(start_paused = true)]
    async fn warnings_and_other_objects_have_limits_of_their_own() {
        let clock = clock();
        let mut correlator = Correlator::new(clock.clone());
        for _ in 0..25 {
            assert!(correlator.correlate(event(&clock, "x")).is_some());
        }
        assert!(correlator.correlate(event(&clock, "x")).is_none());
        assert!(correlator.correlate(event_about(&clock, "web-2", "x")).is_some());
        assert!(correlator.correlate(RecordedEvent { kind: EventType::Warning, ..event(&clock, "x") }).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_has_a_random_name_if_the_name_of_its_object_cannot_be_part_of_it() {
        let clock = clock();
        let mut correlator = Correlator::new(clock.clone());
        let name = correlator.correlate(event_about(&clock, "system:node", "x")).unwrap().name;
        assert_eq!(name.len(), 36, "{name}");
        let name = correlator.correlate(event_about(&clock, &"a".repeat(250), "x")).unwrap().name;
        assert_eq!(name.len(), 36, "{name}");
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut lru = Lru::new(2);
        *lru.touch("a", || 0) = 1;
        *lru.touch("b", || 0) = 2;
        assert_eq!(*lru.touch("a", || 0), 1);
        *lru.touch("c", || 0) = 3;
        assert_eq!(*lru.touch("a", || 0), 1);
        assert_eq!(*lru.touch("b", || 0), 0, "the least recently used entry was evicted");
        assert_eq!(lru.entries.len(), 2);
        assert_eq!(lru.by_age.len(), 2);
    }
}
