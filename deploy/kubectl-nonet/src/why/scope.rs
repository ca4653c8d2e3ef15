//! What a question may use: the reader, the time, and the loops.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{loops::Loops, reader::Reader, tree::Branch};
use crate::{controllers, facts::to_one_line, gather::read::ListableKind};

/// Everything that is known when a tree is built.
pub(super) struct Scope {
    /// Reads objects.
    pub(super) reader: Arc<Reader>,
    /// Namespace of the object; empty for an object without a namespace.
    pub(super) namespace: String,
    /// Time of the question.
    pub(super) now: Timestamp,
    /// Events of the namespace, the newest first.
    pub(super) events: Arc<Vec<Event>>,
    /// Loops that decide about the objects of the tree.
    pub(super) loops: Arc<Loops>,
}

/// Returns when an Event happened for the last time.
pub(super) fn time_of(event: &Event) -> Timestamp {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let once = event.event_time.as_ref().map(|time| time.0);
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.or(last).or(once).or(created).unwrap_or_default()
}

/// Formats an age as `5s`, `12m`, `3h` or `9d`.
pub(super) fn age(length: SignedDuration) -> String {
    match length.as_secs().max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

impl Scope {
    /// Lists the objects of a kind in the namespace.
    pub(super) async fn list<K: ListableKind>(&self) -> Arc<Vec<K>> {
        self.reader.list(Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty()), "").await
    }

    /// Returns the age of something that happened at `time`.
    pub(super) fn since(&self, time: Timestamp) -> String {
        age(self.now.duration_since(time))
    }

    /// Returns the newest Event about an object with one of these reasons; with any reason of a warning if there are none.
    pub(super) fn newest_event(&self, uid: &str, reasons: &[&str]) -> Option<&Event> {
        self.events.iter().find(|event| {
            let is_about = event.involved_object.uid.as_deref() == Some(uid);
            let reason = event.reason.as_deref().unwrap_or_default();
            let is_wanted =
                if reasons.is_empty() { event.type_.as_deref() == Some("Warning") } else { reasons.contains(&reason) };
            is_about && is_wanted
        })
    }

    /// Returns the message of an Event in one line, and its source with its age.
    pub(super) fn quote(&self, event: &Event) -> (String, String) {
        let message = to_one_line(event.message.as_deref().unwrap_or_default());
        let by = event.source.as_ref().and_then(|source| source.component.clone()).filter(|name| !name.is_empty());
        let by = by.or_else(|| event.reporting_component.clone()).unwrap_or_default();
        let reason = event.reason.as_deref().unwrap_or_default();
        (message, format!("Event {reason} of {by}, {} ago", self.since(time_of(event))))
    }

    /// Adds what a loop decides about an object: its situation, what it waits for, and what it would do now.
    ///
    /// Returns whether the loop would do something.
    pub(super) async fn say_decision(&self, branch: &mut Branch, name: &str, metadata: &ObjectMeta) -> bool {
        let source = name.replace('-', " ");
        let needs = controllers::ALL
            .iter()
            .flat_map(|controller| controller.needs)
            .find(|(each, _)| *each == name)
            .map_or(&[][..], |(_, needs)| needs);
        if let Some(unread) = needs.iter().find(|resource| self.reader.is_unread(resource)) {
            branch.say(source, format!("decides nothing here, because {unread} cannot be read"));
            return false;
        }
        let key = format!("{}/{}", self.namespace_of(metadata), metadata.name.as_deref().unwrap_or_default());
        let Some(decision) = self.loops.decide(name, &key).await else { return false };
        branch.say(&source, decision.situation);
        for waiting in decision.waiting {
            branch.say(&source, waiting);
        }
        for action in &decision.actions {
            branch.say(&source, format!("next: {action}"));
        }
        decision.state == "acting"
    }

    /// Returns the namespace of an object of the tree.
    pub(super) fn namespace_of<'a>(&'a self, metadata: &'a ObjectMeta) -> &'a str {
        metadata.namespace.as_deref().unwrap_or(&self.namespace)
    }
}

/// Whether an owner reference of the object is a controller with this UID.
pub(super) fn is_controlled_by(metadata: &ObjectMeta, uid: &str) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid && owner.controller == Some(true))
}

/// Returns the UID of an object; empty if it has none.
pub(super) fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// Returns the name of an object; empty if it has none.
pub(super) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}
