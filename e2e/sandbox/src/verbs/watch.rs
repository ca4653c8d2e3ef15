//! Watches: what happened from a version on, as a stream of lines or of frames.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use common::clock::Instant;
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    api::{
        names::{forbidden, quoted},
        resource::Resource,
    },
    store::{Change, Event, Expired},
    verbs::{
        core::Core,
        damage::damaged,
        faults::{Action, Subject},
        read::{Selection, bad_option},
        representation::{Representation, served},
        request::Call,
        status::{ApiError, ApiResult, ConnectionCut},
    },
};

/// How many events are looked at between two looks at everything else.
const BATCH: usize = 256;
/// Bookmarks come about once a minute.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(55);
/// The last bookmark comes that long before the end.
const FAREWELL: Duration = Duration::from_secs(2);
/// A watch that does not say lasts that long, up to twice.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

pub(crate) struct Watch {
    core: Arc<Core>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    identity: String,
    selection: Selection,
    representation: Representation,
    notify: Arc<Notify>,
    faults_changed: Arc<Notify>,
    /// Everything up to this version has been sent or passed over.
    cursor: u64,
    /// The store's version when nothing was left to send.
    reached: u64,
    /// Events that are due at once: the initial state.
    ready: VecDeque<Bytes>,
    deadline: Instant,
    bookmark: Option<Instant>,
    /// Nothing follows but what is due.
    ended: bool,
    /// What is due is followed by a broken connection.
    cut: bool,
}

/// What the options of a watch ask for.
struct WatchOptions {
    version: Option<u64>,
    initial: bool,
    bookmarks: bool,
    timeout: Option<Duration>,
}

impl WatchOptions {
    fn of(call: &Call) -> ApiResult<Self> {
        let version = call.query.text("resourceVersion");
        let matching = call.query.text("resourceVersionMatch");
        let send = call.query.flag("sendInitialEvents");
        let bookmarks = call.query.flag("allowWatchBookmarks").unwrap_or(false);
        let timeout = call.query.int("timeoutSeconds")?;
        let mut errors = Vec::new();
        if let Some(send) = send {
            if matching.is_empty() || (matching != "NotOlderThan") {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(forbidden("resourceVersionMatch", why));
            }
            if send && !bookmarks {
                let why = "sendInitialEvents is forbidden for watch unless allowWatchBookmarks is set to true";
                errors.push(forbidden("sendInitialEvents", why));
            }
        } else if !matching.is_empty() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(forbidden("resourceVersionMatch", why));
        }
        if !errors.is_empty() {
            return Err(bad_option(&errors));
        }
        let version = match version {
            "" | "0" => None,
            text => Some(text.parse::<u64>().map_err(|_| {
                let text = quoted(text);
                ApiError::unexplained(format!(
                    "resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: invalid syntax"
                ))
            })?),
        };
        let timeout = timeout.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).map(Duration::from_secs);
        Ok(Self { version, initial: send.unwrap_or(version.is_none()), bookmarks, timeout })
    }
}

impl Core {
    /// The version a streaming list has to wait for.
    pub(crate) fn watch_waits_for(call: &Call) -> ApiResult<Option<String>> {
        let options = WatchOptions::of(call)?;
        Ok(options.version.filter(|_| options.initial).map(|rv| rv.to_string()))
    }

    pub(crate) fn watch(self: &Arc<Self>, call: &Call) -> ApiResult<Watch> {
        let options = WatchOptions::of(call)?;
        let selection = Selection::of(call)?;
        let representation = Representation::of(call, self.now())?;
        let now = self.clock.monotonic_now();
        let timeout = options.timeout.unwrap_or_else(|| self.clock.jitter(DEFAULT_TIMEOUT, 1.0));
        let mut store = self.store.lock();
        let mut watch = Watch {
            core: self.clone(),
            resource: call.resource.clone(),
            namespace: call.namespace.clone(),
            identity: call.identity.clone(),
            selection,
            representation,
            notify: store.notify(&call.resource.table),
            faults_changed: self.faults.changed(),
            cursor: store.rv(),
            reached: store.rv(),
            ready: VecDeque::new(),
            deadline: now + timeout,
            bookmark: None,
            ended: false,
            cut: false,
        };
        let table = &call.resource.table;
        let mut initial = Vec::new();
        if options.initial {
            initial = store.list(table, call.namespace.as_deref(), None, None).unwrap_or_default();
        } else if let Some(version) = options.version {
            if let Err(Expired(oldest)) = store.reaches(table, version) {
                watch.end_with(&ApiError::expired(format!("too old resource version: {version} ({oldest})")));
            }
            (watch.cursor, watch.reached) = (version, version);
        }
        // Objects are encoded while others use the store.
        drop(store);
        for (_, version) in initial {
            if watch.selection.matches(&watch.resource, &version) {
                let event = watch.representation.event(&call.resource, Change::Added, &version, self.now())?;
                watch.ready.push_back(event);
            }
        }
        if options.initial && options.bookmarks {
            let bookmark = watch.bookmark_event(watch.cursor, true)?;
            watch.ready.push_back(bookmark);
        }
        if options.bookmarks {
            let next = now + self.clock.jitter(BOOKMARK_PERIOD, 0.2);
            let farewell = watch.deadline.checked_sub(FAREWELL).filter(|at| *at > now);
            watch.bookmark = Some(farewell.map_or(next, |at| at.min(next)));
        }
        Ok(watch)
    }
}

impl Watch {
    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.core.requests.add_watched(&self.identity, bytes);
    }

    /// The next piece of the stream; nothing once it has ended.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, ConnectionCut>> {
        loop {
            if self.ended {
                return match self.take_ready() {
                    Some(piece) => Some(Ok(piece)),
                    None => std::mem::take(&mut self.cut).then_some(Err(ConnectionCut)),
                };
            }
            let (changed, happened) = (self.faults_changed.clone(), self.notify.clone());
            let (changed, happened) = (changed.notified(), happened.notified());
            let core = self.core.clone();
            if core.faults.is_down() {
                self.ready.clear();
                (self.ended, self.cut) = (true, true);
                continue;
            }
            let held = core.faults.is_held(&self.identity, &self.resource.plural);
            if !held {
                if self.fault(u64::from(!self.ready.is_empty())) {
                    continue;
                }
                if let Some(piece) = self.take_ready() {
                    return Some(Ok(piece));
                }
            }
            let now = core.clock.monotonic_now();
            if now >= self.deadline {
                self.ended = true;
                return None;
            }
            let mut wake = self.deadline;
            if !held {
                match self.events(now) {
                    Step::Send(piece) => return Some(Ok(piece)),
                    Step::Again => continue,
                    Step::Until(at) => wake = wake.min(at),
                    Step::Idle => {}
                }
                if self.gone() {
                    self.ended = true;
                    return None;
                }
                if let Some(at) = self.bookmark {
                    if now >= at {
                        match self.send_bookmark(now) {
                            Ok(bookmark) => return Some(Ok(bookmark)),
                            Err(error) => self.end_with(&error),
                        }
                        continue;
                    }
                    wake = wake.min(at);
                }
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = happened => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// All initial events in pieces of decent size.
    fn take_ready(&mut self) -> Option<Bytes> {
        let first = self.ready.pop_front()?;
        if self.ready.is_empty() {
            return Some(first);
        }
        let mut piece = BytesMut::from(&*first);
        while piece.len() < 64 * 1024
            && let Some(line) = self.ready.pop_front()
        {
            piece.extend_from_slice(&line);
        }
        Some(piece.freeze())
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            identity: &self.identity,
            verb: "watch",
            plural: &self.resource.plural,
            sub: None,
            namespace: self.namespace.as_deref(),
            name: None,
        }
    }

    /// Ends the stream if a fault says so, with what the fault leaves to send.
    fn fault(&mut self, events: u64) -> bool {
        let Some(action) = self.core.faults.on_watch(&self.subject(), events) else { return false };
        self.ready.clear();
        self.ended = true;
        if let Action::ExpireWatch = action {
            let error = ApiError::expired(format!("too old resource version: {} (fault)", self.cursor));
            self.end_with(&error);
        }
        self.cut = matches!(action, Action::CutWatch | Action::HalfLine);
        self.ready.extend(damaged(&action, self.representation, &self.resource));
        true
    }

    /// Ends the stream with an event that says why.
    fn end_with(&mut self, error: &ApiError) {
        self.ready.clear();
        // A Status can be encoded in every format.
        self.ready.extend(self.representation.format.event("ERROR", &error.body()));
        self.ended = true;
    }

    /// Whether the resource is not served any more.
    fn gone(&self) -> bool {
        self.resource.is_custom()
            && self.core.registry().get(&self.resource.group, &self.resource.version, &self.resource.plural).is_none()
    }

    /// Sends what has happened since the cursor.
    fn events(&mut self, now: Instant) -> Step {
        let (found, newest) = {
            let store = self.core.store.lock();
            (store.events_after(&self.resource.table, self.cursor, BATCH), store.rv())
        };
        let events = match found {
            Ok(events) => events,
            Err(Expired(oldest)) => {
                let error = ApiError::expired(format!("too old resource version: {} ({oldest})", self.cursor));
                self.end_with(&error);
                return Step::Again;
            }
        };
        let delay = self.core.faults.delay(&self.identity, &self.resource.plural);
        let full = events.len() == BATCH;
        let mut pieces: Vec<Bytes> = Vec::new();
        let mut later = None;
        for event in &events {
            if let Some(due) = delay.map(|by| event.at + by).filter(|due| *due > now) {
                later = Some(due);
                break;
            }
            match self.encode(event) {
                None => {}
                // What was due before the fault is sent before what it leaves.
                Some(_) if self.fault(1) => break,
                Some(Ok(piece)) => pieces.push(piece),
                Some(Err(error)) => {
                    self.end_with(&error);
                    break;
                }
            }
            self.cursor = event.version.rv;
        }
        if later.is_none() && !full && !self.ended {
            self.reached = self.reached.max(newest);
        }
        match (pieces.len(), later) {
            (0, _) if self.ended => Step::Again,
            (0, Some(due)) => Step::Until(due),
            (0, None) if full => Step::Again,
            (0, None) => Step::Idle,
            (1, _) => pieces.pop().map_or(Step::Idle, Step::Send),
            _ => {
                let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
                for piece in &pieces {
                    all.extend_from_slice(piece);
                }
                Step::Send(all.freeze())
            }
        }
    }

    /// The encoded event, if this watch is to see it.
    fn encode(&mut self, event: &Event) -> Option<ApiResult<Bytes>> {
        if self.namespace.as_deref().is_some_and(|n| event.key.namespace() != Some(n)) {
            return None;
        }
        let change = if self.selection.is_everything() {
            event.change
        } else {
            let before = event.before.as_ref().filter(|v| self.selection.matches(&self.resource, v));
            let after = event.change != Change::Deleted && self.selection.matches(&self.resource, &event.version);
            match (before, after) {
                (None, true) => Change::Added,
                (Some(_), true) => Change::Modified,
                (Some(_), false) if event.change == Change::Deleted => Change::Deleted,
                // It left the selection: its last state within, with the version of the change.
                (Some(before), false) => {
                    let mut object = served(&self.resource, before);
                    crate::value::object::set_meta(&mut object, "resourceVersion", event.version.rv.to_string());
                    let now = self.core.now();
                    return Some(self.representation.event_of(&self.resource, "DELETED", object, now));
                }
                (None, false) => return None,
            }
        };
        Some(self.representation.event(&self.resource, change, &event.version, self.core.now()))
    }

    fn bookmark_event(&mut self, rv: u64, initial_end: bool) -> ApiResult<Bytes> {
        let mut object = json!({
            "kind": self.resource.kind, "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": rv.to_string()}
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.representation.event_of(&self.resource, "BOOKMARK", object, self.core.now())
    }

    fn send_bookmark(&mut self, now: Instant) -> ApiResult<Bytes> {
        let next = now + self.core.clock.jitter(BOOKMARK_PERIOD, 0.2);
        let farewell = self.deadline.checked_sub(FAREWELL).filter(|at| *at > now);
        self.bookmark = farewell.map(|at| at.min(next));
        self.bookmark_event(self.reached, false)
    }
}

/// What there is to do after a look at history.
enum Step {
    Send(Bytes),
    Again,
    Until(Instant),
    Idle,
}
