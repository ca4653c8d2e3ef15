//! Events: messages to users about an object, in the form of upstream's recorder.
//!
//! [`EventRecorder::record_event`] never waits and never fails: it passes the Event to one sending task over a bounded queue.
//! The task aggregates, deduplicates and filters Events ([`correlate`]). The task has its own rate limit, so that Events cannot
//! delay more important writes.

mod correlate;
mod sender;

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

use crate::{
    clock::Clock,
    intern::Text,
    meta::{Meta, ResourceVersion, Uid},
    object::Resource,
};

use sender::QueueItem;

pub use sender::{EVENTS, EventSender, SentEventNames};

/// Maximum count of unsent Events; further Events are dropped. Upstream: `client-go/tools/record`, `maxQueuedEvents`.
const QUEUE: usize = 1000;
/// Size limit of a message in bytes. The API server accepts any size, but a thousand messages may wait in memory.
const MESSAGE: usize = 8 << 10;

/// Severity of an Event, for its field `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// The Event reports no problem.
    Normal,
    /// The Event reports a problem that a user should investigate.
    Warning,
}

impl EventType {
    /// Returns the value of the field `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Reference to the object of an Event.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InvolvedObject {
    /// Group and version, such as `apps/v1`.
    pub api_version: Text,
    /// Kind of the object, such as `ReplicaSet`.
    pub kind: Text,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: Text,
    /// Name of the object. The name of an Event begins with this name if possible.
    pub name: Text,
    /// UID of the object; empty if unknown.
    pub uid: Uid,
    /// Version of the object in the controller's cache; unknown in a reference without a version.
    pub version: ResourceVersion,
}

impl InvolvedObject {
    /// Creates a reference to an object with the version of `meta`.
    pub fn new(resource: Resource, meta: &Meta) -> Self {
        Self {
            version: meta.resource_version,
            ..Self::without_version(resource, &meta.namespace, &meta.name, meta.uid.clone())
        }
    }

    /// Creates a reference without a version.
    pub fn without_version(resource: Resource, namespace: &str, name: &str, uid: Uid) -> Self {
        Self {
            api_version: Text::new(&resource.api_version()),
            kind: Text::new(resource.kind()),
            namespace: Text::new(namespace),
            name: Text::new(name),
            uid,
            version: ResourceVersion::UNKNOWN,
        }
    }

    /// Converts the reference to its API type. Empty fields are omitted.
    fn reference(&self) -> ObjectReference {
        let known = |text: String| Some(text).filter(|text| !text.is_empty());
        ObjectReference {
            api_version: Some(self.api_version.to_string()),
            kind: Some(self.kind.to_string()),
            name: Some(self.name.to_string()),
            namespace: known(self.namespace.to_string()),
            resource_version: known(self.version.to_string()),
            uid: known(self.uid.to_string()),
            field_path: None,
        }
    }

    /// Returns the namespace for the Events of the object: `default` if the object is cluster-scoped.
    pub fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// The two names of a loop that records Events: the component in its Events, and the client name in its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportingLoop {
    /// Component that the Events name, such as `replicaset-controller`.
    pub component: &'static str,
    /// Client name in the `User-Agent` header of the requests.
    pub client_name: &'static str,
}

/// The content of an Event, from one call of [`EventRecorder::record_event`].
#[derive(Clone, Debug)]
pub(crate) struct RecordedEvent {
    pub(crate) source: ReportingLoop,
    pub(crate) object: InvolvedObject,
    pub(crate) kind: EventType,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) recorded_at: Timestamp,
}

/// Source of times for the names of Events. No time is issued twice in a process.
#[derive(Debug, Default)]
struct UniqueTimes(AtomicI64);

impl UniqueTimes {
    fn next(&self, now: Timestamp) -> Timestamp {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
        // If the clock was set back by a second or more, the times continue from the new time of the clock.
        let next = |last: i64| if now <= last && last - now < 1_000_000_000 { last + 1 } else { now };
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        let (Ok(last) | Err(last)) = last;
        Timestamp::from_nanosecond(i128::from(next(last))).unwrap_or_default()
    }
}

/// Function that is called with each recorded Event: object, type, reason, message.
type Tap = dyn Fn(&InvolvedObject, EventType, &str, &str) + Send + Sync;

/// Records the Events of one loop. Cheap to clone.
#[derive(Clone)]
pub struct EventRecorder {
    source: ReportingLoop,
    clock: Clock,
    stamp: Arc<UniqueTimes>,
    queue: Option<mpsc::Sender<QueueItem>>,
    tap: Option<Arc<Tap>>,
}

impl EventRecorder {
    /// Creates a recorder that discards all Events.
    pub fn discarding_events(component: &'static str, clock: Clock) -> Self {
        let source = ReportingLoop { component, client_name: component };
        Self { source, clock, stamp: Arc::default(), queue: None, tap: None }
    }

    /// Creates a recorder that passes every Event to `tap` and sends no Event, for tests and shadow mode.
    pub fn forwarding_events_to(
        component: &'static str,
        clock: Clock,
        tap: impl Fn(&InvolvedObject, EventType, &str, &str) + Send + Sync + 'static,
    ) -> Self {
        Self { tap: Some(Arc::new(tap)), ..Self::discarding_events(component, clock) }
    }

    /// Records an Event about `object`. Never waits: if the queue is full, the Event is dropped and an error is logged.
    ///
    /// A message longer than [`MESSAGE`] bytes is cut off, because error messages may quote texts of users in full.
    pub fn record_event(
        &self,
        object: &InvolvedObject,
        event_type: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        let (reason, message) = (reason.into(), shortened(message));
        tracing::debug!(
            v = 3,
            %object,
            kind = %object.kind,
            apiVersion = %object.api_version,
            r#type = event_type.as_str(),
            reason = &*reason,
            note = message,
            "Event occurred"
        );
        if let Some(tap) = &self.tap {
            tap(object, event_type, &reason, &message);
        }
        let Some(queue) = &self.queue else { return };
        let at = self.stamp.next(self.clock.now());
        let recorded = RecordedEvent {
            source: self.source,
            object: object.clone(),
            kind: event_type,
            reason: reason.clone(),
            message,
            recorded_at: at,
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = queue.try_send(QueueItem::Event(recorded)) {
            tracing::error!(reason = &*reason, %object, "Unable to record event: too many queued events, dropped event");
        }
    }
}

/// Cuts a message to [`MESSAGE`] bytes if it is longer, and ends it with `...`.
fn shortened(mut message: String) -> String {
    const DOTS: &str = "...";
    if message.len() > MESSAGE {
        message.truncate(message.floor_char_boundary(MESSAGE - DOTS.len()));
        message.push_str(DOTS);
        message.shrink_to_fit();
    }
    message
}

/// Formats the reference as `namespace/name`, or as `name` without a namespace.
impl fmt::Display for InvolvedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
