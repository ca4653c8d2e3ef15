//! Events: what a controller tells users about an object, written as upstream's recorder writes them.
//!
//! [`Recorder::event`] never waits and never fails: it hands the Event to one sending task over a bounded queue. The sender
//! aggregates, deduplicates and filters ([`correlate`]) and owns a rate limit of its own, so that Events cannot starve the
//! writes that matter.

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
    meta::{Meta, Uid, Version},
    object::Resource,
};

use sender::Item;

pub use sender::{EVENTS, Sender, SentEvents};

/// How many Events may wait to be sent; more are dropped. Upstream: `client-go/tools/record`, `maxQueuedEvents`.
const QUEUE: usize = 1000;
/// The longest message that is recorded, in bytes. The API server takes any; thousands may wait here.
const MESSAGE: usize = 8 << 10;

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Nothing is wrong.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventType {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object an Event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Group and version.
    pub api_version: Text,
    /// Kind.
    pub kind: Text,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Uid, if known.
    pub uid: Uid,
    /// Version of the copy in hand, if it matters.
    pub version: Version,
}

impl ObjectRef {
    /// A reference to the copy of an object in hand.
    pub fn new(resource: Resource, meta: &Meta) -> Self {
        Self { version: meta.resource_version, ..Self::bare(resource, &meta.namespace, &meta.name, meta.uid.clone()) }
    }

    /// A reference without a version.
    pub fn bare(resource: Resource, namespace: &str, name: &str, uid: Uid) -> Self {
        Self {
            api_version: Text::new(&resource.api_version()),
            kind: Text::new(resource.kind),
            namespace: Text::new(namespace),
            name: Text::new(name),
            uid,
            version: Version::UNKNOWN,
        }
    }

    /// As it is written.
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

    /// Where Events about the object live.
    pub fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// The loop that Events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Component that Events name.
    pub component: &'static str,
    /// Name of the client that sends them, as the user agent has it.
    pub client: &'static str,
}

/// One call of [`Recorder::event`].
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) source: Source,
    pub(crate) object: ObjectRef,
    pub(crate) kind: EventType,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) at: Timestamp,
}

/// Gives every Event of a process a time of its own: names are made of it.
#[derive(Debug, Default)]
struct Stamp(AtomicI64);

impl Stamp {
    fn next(&self, now: Timestamp) -> Timestamp {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
        // A clock that was set back by more than an instant is believed.
        let next = |last: i64| if now <= last && last - now < 1_000_000_000 { last + 1 } else { now };
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        let (Ok(last) | Err(last)) = last;
        Timestamp::from_nanosecond(i128::from(next(last))).unwrap_or_default()
    }
}

/// Sees what is recorded: object, type, reason, message.
type Tap = dyn Fn(&ObjectRef, EventType, &str, &str) + Send + Sync;

/// Records Events of one loop. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    source: Source,
    clock: Clock,
    stamp: Arc<Stamp>,
    queue: Option<mpsc::Sender<Item>>,
    tap: Option<Arc<Tap>>,
}

impl Recorder {
    /// A recorder whose Events go nowhere.
    pub fn silent(component: &'static str, clock: Clock) -> Self {
        let source = Source { component, client: component };
        Self { source, clock, stamp: Arc::default(), queue: None, tap: None }
    }

    /// A recorder that hands every Event to `tap` and sends nothing: for tests and shadow mode.
    pub fn tapped(
        component: &'static str,
        clock: Clock,
        tap: impl Fn(&ObjectRef, EventType, &str, &str) + Send + Sync + 'static,
    ) -> Self {
        Self { tap: Some(Arc::new(tap)), ..Self::silent(component, clock) }
    }

    /// Records an Event about `object`. Never waits; when too many wait already it is dropped, which is logged.
    ///
    /// Of a message longer than [`MESSAGE`] bytes the beginning is recorded: errors quote what tenants wrote.
    pub fn event(&self, object: &ObjectRef, kind: EventType, reason: impl Into<Cow<'static, str>>, message: String) {
        let (reason, message) = (reason.into(), shortened(message));
        tracing::debug!(
            v = 3,
            %object,
            kind = %object.kind,
            apiVersion = %object.api_version,
            r#type = kind.as_str(),
            reason = &*reason,
            note = message,
            "Event occurred"
        );
        if let Some(tap) = &self.tap {
            tap(object, kind, &reason, &message);
        }
        let Some(queue) = &self.queue else { return };
        let at = self.stamp.next(self.clock.now());
        let recorded =
            Recorded { source: self.source, object: object.clone(), kind, reason: reason.clone(), message, at };
        if let Err(mpsc::error::TrySendError::Full(_)) = queue.try_send(Item::Event(recorded)) {
            tracing::error!(reason = &*reason, %object, "Unable to record event: too many queued events, dropped event");
        }
    }
}

/// The beginning of a message that is too long.
fn shortened(mut message: String) -> String {
    const DOTS: &str = "...";
    if message.len() > MESSAGE {
        message.truncate(message.floor_char_boundary(MESSAGE - DOTS.len()));
        message.push_str(DOTS);
        message.shrink_to_fit();
    }
    message
}

/// `namespace/name`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
