//! The list-and-watch loop of an informer: reads lists, follows watches, and chooses the next step.

mod set;

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;

use crate::{
    api::{Api, Call, Error, ErrorStatus, MAX_RETRY_AFTER, WatchFrames, WireFormat, percent_encode},
    client::user_agent,
    clock::Instant,
    meta::ResourceVersion,
    metrics::InformerMetrics,
    object::{Object, Resource},
    pace::WorkGuard,
    store::{CacheEntry, ChangeOrigin},
};

use super::{
    InformerConfig, InformerShared, RefreshRequest, RefreshTarget, Sink,
    accept::{
        ACCEPT_JSON, ACCEPT_METADATA, ACCEPT_METADATA_LIST, ACCEPT_PROTOBUF_METADATA, PROTOBUF_METADATA_LIST,
        accept_header, prefers_protobuf,
    },
    frames::{self, DecodedEvent},
};

/// First back-off of a failing list or watch. The back-off doubles up to [`BACKOFF_MAX`], and jitter adds up to 100 %.
/// Upstream: `reflector.go`.
const BACKOFF_BASE: Duration = Duration::from_millis(800);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Interval between warnings about a list or watch that keeps failing.
const COMPLAIN_EVERY: Duration = Duration::from_secs(30);
/// A watch that ends within this time and without an event counts as a failure.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// Maximum wait for the watch to deliver a required version, before a relist.
const CATCH_UP: Duration = Duration::from_millis(250);
/// Maximum time without events after which a watch is resumed.
const MAX_SILENCE: Duration = Duration::from_mins(11);
/// Minimum duration of a watch in seconds, and maximum of the random part that is added. Upstream: 5 and 5 minutes; each watch
/// that is opened again costs the server about as much as a write of a small object.
const WATCH_SECONDS: u64 = 1800;
/// Number of lines after which the task yields to other tasks.
const TURN: u32 = 64;
/// Why the loop stopped reading a list or a watch, which gives the next step. If the server merely closes a watch, there is no
/// `RoundEnd`, and the watch is resumed.
enum RoundEnd {
    /// Resume the watch after a pause.
    Pause(String),
    /// Relist after a pause.
    Relist(String),
    /// Relist without a pause.
    RelistNow(String),
    /// Relist after a pause, because the server no longer keeps the newest version of the cache.
    Expired(String),
    /// Relist in pages without a pause, because the streaming list failed.
    NoStreaming(String),
}

pub(super) struct Reflector<S> {
    api: Api,
    resource: Resource,
    config: InformerConfig,
    sink: Arc<S>,
    shared: Arc<InformerShared>,
    counted: InformerMetrics,
    /// Number of failures in a row, which sets the back-off.
    failures: u32,
    /// Whether the version of the server is compared with that of the cache before the watch is resumed.
    compares_version: bool,
    complained: Option<Instant>,
    /// Whether the server has ever sent a bookmark on a watch.
    bookmarks: bool,
    /// Number of watches in a row that were resumed because they delivered nothing.
    silences: u32,
    /// Time of the next replay of the cache; `None` without a resync interval.
    resync_at: Option<Instant>,
    /// Serial number of the newest refresh request for which the cache is up to date.
    met: u64,
    /// Whether the next list is requested without the cache's version as its minimum, because the server rejected that version.
    forget_version: bool,
    /// Time at which the current list was requested; `None` if the server may answer with a state from before the request.
    asked: Option<Instant>,
    /// Whether a list is read next. If not, the watch is resumed.
    wants_set: bool,
    /// Whether the next list is read in pages, and not as a streaming list.
    pages_next: bool,
    /// Minimum of the next pause, as requested by the server.
    told_to_wait: Duration,
    /// Time of the first event since the task last waited, and the count of events since then; `None` without events.
    handled: Option<(Instant, u64)>,
    /// Guard that keeps the process from sleeping while a list is read.
    filling: Option<WorkGuard>,
    /// Whether objects are read in JSON because one of them has [hidden fields](Object::has_hidden_fields).
    reads_json: bool,
}

impl<S: Sink> Reflector<S> {
    pub(super) fn new(
        api: Api,
        config: InformerConfig,
        sink: Arc<S>,
        shared: Arc<InformerShared>,
        metrics: InformerMetrics,
    ) -> Self {
        // Several loops may share one cache, so its requests carry the user agent of upstream's shared informers.
        let selector =
            if config.field_selector.is_empty() { S::Object::FIELD_SELECTOR } else { &config.field_selector };
        let resource = config.resource.clone().unwrap_or(S::Object::RESOURCE);
        let sampler = config.write_sampler.clone().filter(|sampler| sampler.is_sampled(&resource));
        let config = InformerConfig { field_selector: selector.to_owned(), write_sampler: sampler, ..config };
        let client = if config.is_metadata_only { "metadata-informers" } else { "shared-informers" };
        Self {
            api: api.with_user_agent(&user_agent(client)),
            resource,
            config,
            sink,
            shared,
            counted: metrics,
            failures: 0,
            compares_version: false,
            complained: None,
            bookmarks: false,
            silences: 0,
            resync_at: None,
            met: 0,
            forget_version: false,
            asked: None,
            wants_set: true,
            pages_next: false,
            told_to_wait: Duration::ZERO,
            handled: None,
            filling: None,
            reads_json: false,
        }
    }

    pub(super) async fn run(mut self) {
        self.resync_at = self.config.resync_interval.map(|d| self.api.clock().monotonic_now() + d);
        loop {
            let round = if self.wants_set {
                self.shared.set_phase("listing");
                self.read_list().await
            } else {
                self.shared.set_phase("watching");
                self.resume().await
            };
            self.filling = None;
            self.report_handled();
            self.counted.set_queued_object_count(0);
            let Err(end) = round else { continue };
            self.wants_set |= !matches!(end, RoundEnd::Pause(_));
            match &end {
                RoundEnd::Pause(why) | RoundEnd::Relist(why) => self.report_failure(why),
                RoundEnd::RelistNow(why) | RoundEnd::Expired(why) => {
                    tracing::debug!(resource = %self.resource, why, "Reading a full set");
                }
                RoundEnd::NoStreaming(why) => {
                    tracing::info!(resource = %self.resource, why, "Streaming list failed, reading the list in pages");
                    self.pages_next = true;
                }
            }
            // An expired version is no failure. The pause limits the number of requests to a server that reports expiry
            // repeatedly.
            if !matches!(end, RoundEnd::RelistNow(_) | RoundEnd::NoStreaming(_)) {
                self.pause().await;
            }
        }
    }

    async fn pause(&mut self) {
        self.shared.set_phase("waiting");
        let clock = self.api.clock();
        let step = BACKOFF_BASE.saturating_mul(1 << self.failures.min(6)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        let told = std::mem::take(&mut self.told_to_wait);
        clock.sleep(clock.jitter(step, 1.0).max(told)).await;
    }

    /// Sets the minimum of the next pause to `retry_after`, up to [`MAX_RETRY_AFTER`].
    fn set_minimum_pause(&mut self, retry_after: Duration) {
        self.told_to_wait = retry_after.min(MAX_RETRY_AFTER);
    }

    /// Applies the `Retry-After` of an answer to the next pause, and returns the answer.
    fn apply_retry_after<T>(&mut self, answer: Result<T, Error>) -> Result<T, Error> {
        self.set_minimum_pause(answer.as_ref().err().and_then(Error::retry_after).unwrap_or_default());
        answer
    }

    /// Records and counts a failure, and logs it as a warning at most once per [`COMPLAIN_EVERY`].
    fn report_failure(&mut self, why: &str) {
        self.counted.count_failure();
        let now = self.api.clock().monotonic_now();
        self.shared.record_failure(now, why);
        if self.complained.is_none_or(|at| now.saturating_duration_since(at) >= COMPLAIN_EVERY) {
            self.complained = Some(now);
            tracing::warn!(resource = %self.resource, err = why, "List or watch failed, trying again");
        } else {
            tracing::debug!(resource = %self.resource, err = why, "List or watch failed, trying again");
        }
    }

    async fn list(&mut self, query: &str) -> Result<(WireFormat, Bytes), Error> {
        let accept = match self.config.is_metadata_only {
            false => self.accept_whole_objects(),
            true if prefers_protobuf::<S::Object>(&self.api) => PROTOBUF_METADATA_LIST,
            true => ACCEPT_METADATA_LIST,
        };
        let answer = self.api.call_with_format(Call::list(&self.resource, &self.config.namespace, query, accept)).await;
        self.apply_retry_after(answer)
    }

    async fn watch(&mut self, query: &str) -> Result<WatchFrames, Error> {
        let accept = match self.config.is_metadata_only {
            false => self.accept_whole_objects(),
            true if prefers_protobuf::<S::Object>(&self.api) => ACCEPT_PROTOBUF_METADATA,
            true => ACCEPT_METADATA,
        };
        let answer = self.api.watch(&self.resource, &self.config.namespace, query, accept).await;
        self.apply_retry_after(answer)
    }

    fn accept_whole_objects(&self) -> &'static str {
        if self.reads_json { ACCEPT_JSON } else { accept_header::<S::Object>(&self.api) }
    }

    /// Ends the round if the object has [hidden fields](Object::has_hidden_fields), to read all objects in JSON.
    fn require_all_fields(&mut self, entry: &CacheEntry<S::Object>) -> Result<(), RoundEnd> {
        match entry {
            CacheEntry::Decoded(object) if object.has_hidden_fields() => {
                self.reads_json = true;
                let key = object.meta().key();
                Err(RoundEnd::RelistNow(format!("{key} has fields that this version does not know: reading JSON")))
            }
            CacheEntry::Decoded(_) | CacheEntry::Unreadable(_) => Ok(()),
        }
    }

    /// Returns the selectors as query parameters, each with a leading `&`.
    fn selectors(&self) -> String {
        let mut query = String::new();
        for (name, value) in
            [("labelSelector", &self.config.label_selector), ("fieldSelector", &self.config.field_selector)]
        {
            if !value.is_empty() {
                let _ = write!(query, "&{name}={}", percent_encode(value));
            }
        }
        query
    }

    /// Returns the requested duration of a watch in seconds: from half an hour up to an hour.
    fn watch_seconds(&self) -> u64 {
        WATCH_SECONDS + self.api.clock().random_below(WATCH_SECONDS as usize) as u64
    }

    /// Returns the next step after the error event that ends a watch.
    fn end_after_error(&mut self, status: ErrorStatus) -> RoundEnd {
        let ErrorStatus { code, reason, message, details, .. } = status;
        self.set_minimum_pause(Duration::from_secs(details.retry_after_seconds.into()));
        match code {
            429 => RoundEnd::Pause(message),
            410 => RoundEnd::Expired(message),
            _ => RoundEnd::Relist(format!("the watch ended with {code} {reason}: {message}")),
        }
    }

    /// Opens a watch from the newest version of the cache, and applies its events until it ends.
    async fn resume(&mut self) -> Result<(), RoundEnd> {
        if self.compares_version {
            self.compare_version().await?;
        }
        let query = format!(
            "watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}{}",
            self.sink.version(),
            self.watch_seconds(),
            self.selectors()
        );
        match self.watch(&query).await {
            Ok(lines) => self.follow(lines).await,
            Err(e) if matches!(e, Error::Unsent(_)) || e.is_too_many_requests() => {
                self.compares_version |= matches!(e, Error::Unsent(_));
                Err(RoundEnd::Pause(format!("watch: {e}")))
            }
            Err(e) if e.is_version_expired() => Err(RoundEnd::Expired(e.to_string())),
            Err(e) => Err(RoundEnd::Relist(format!("watch: {e}"))),
        }
    }

    /// Checks that the server has not lost changes that the cache contains. A restore of etcd ends all connections, and the
    /// version of the server is lower afterwards.
    async fn compare_version(&mut self) -> Result<(), RoundEnd> {
        let failed = |e: Error| RoundEnd::Pause(format!("list: {e}"));
        let version = self.newest_server_version().await.map_err(failed)?;
        self.compares_version = false;
        let cached = self.sink.version();
        if version.is_none_or(|version| version >= cached) {
            return Ok(());
        }
        let version = version.unwrap_or_default();
        let evidence = format!("the newest version of {} is {version}, the cache has version {cached}", self.resource);
        // Another API server, behind the aggregation layer, has versions of its own. Its loss concerns this cache only.
        if self.resource.is_of_kubernetes() {
            self.api.history().report_lost_changes(&evidence);
        }
        self.forget_version = true;
        Err(RoundEnd::RelistNow(evidence))
    }

    /// Returns the newest version of the server, from a list with one object; `None` if the list has no version.
    async fn newest_server_version(&mut self) -> Result<Option<ResourceVersion>, Error> {
        let (format, body) = self.list(&format!("limit=1{}", self.selectors())).await?;
        let page = frames::decode_list_page::<S::Object>(format, &body).ok();
        Ok(page.map(|page| page.version).filter(|version| version.is_known()))
    }

    /// Returns the time without events after which the watch is resumed.
    fn max_silence_now(&self) -> Duration {
        // If the server sends no bookmarks, a watch may deliver nothing for its whole duration.
        if !self.bookmarks {
            return MAX_SILENCE;
        }
        self.config.max_watch_idle_time.saturating_mul(1 << self.silences.min(16)).min(MAX_SILENCE)
    }

    /// Applies the events of a watch until it ends.
    async fn follow(&mut self, mut frames: WatchFrames) -> Result<(), RoundEnd> {
        let opened = self.api.clock().monotonic_now();
        let (mut seen, mut is_new) = (0u32, true);
        self.shared.state.lock().watches += 1;
        self.shared.set_phase("watching");
        loop {
            self.answer_refresh(&mut frames).await?;
            let silence = match seen {
                0 if is_new => VERY_SHORT,
                0 => self.max_silence_now().saturating_sub(VERY_SHORT),
                _ => self.max_silence_now(),
            };
            let line = match self.line(&mut frames, silence, true).await {
                Ok(Some(line)) => line,
                // A watch that stays open is a success, even if it delivers nothing for minutes.
                Err(NoLine::Silent) if is_new => {
                    is_new = false;
                    (self.failures, self.complained) = (0, None);
                    self.shared.record_success();
                    continue;
                }
                Ok(None) if seen == 0 && self.api.clock().monotonic_now() - opened < VERY_SHORT => {
                    return Err(RoundEnd::Pause("the server closed a watch at once".to_owned()));
                }
                Ok(None) => return Ok(()),
                Err(NoLine::RefreshWanted) => continue,
                // The next request shows whether the server answers. HTTP/2 pings show whether the connection is alive.
                Err(NoLine::Silent) => {
                    tracing::debug!(resource = %self.resource, seconds = silence.as_secs(), "Watch is silent, resuming");
                    self.silences = self.silences.saturating_add(1);
                    return Ok(());
                }
                // Only the connection broke, so the watch is resumed from the newest version. After a break in the middle of a
                // line, a pause comes first, because that line may be the cause.
                Err(NoLine::Broken(error)) if seen > 0 && !frames.has_incomplete_frame() => {
                    self.compares_version = true;
                    tracing::debug!(resource = %self.resource, err = error, "Connection of the watch broke, resuming");
                    return Ok(());
                }
                Err(NoLine::Broken(error)) => {
                    self.compares_version = true;
                    return Err(RoundEnd::Pause(error));
                }
            };
            seen += 1;
            (is_new, self.silences) = (false, 0);
            if seen.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
            let format = frames.format();
            let frame = match frames::decode_watch_frame::<S::Object>(format, &line) {
                Ok(DecodedEvent::Error(failure)) => return Err(self.end_after_error(failure)),
                // The server behind this connection lags, or it has lost changes.
                Ok(DecodedEvent::Bookmark { version, .. }) if version.is_known() && version < self.sink.version() => {
                    self.compares_version = true;
                    return Err(RoundEnd::Pause(format!("a bookmark has the old version {version}")));
                }
                Ok(frame) => frame,
                Err(e) => return Err(RoundEnd::Relist(format!("invalid event on a watch: {e}"))),
            };
            self.failures = 0;
            if self.handled.is_none() {
                self.complained = None;
                self.shared.record_success();
            }
            if let DecodedEvent::Put { entry, .. } = &frame {
                self.require_all_fields(entry)?;
            }
            self.sample(&frame, format, &line);
            self.handle(frame);
        }
    }

    fn sample(&self, event: &DecodedEvent<'_, S::Object>, format: WireFormat, line: &[u8]) {
        if let (Some(sampler), DecodedEvent::Put { entry, .. }) = (&self.config.write_sampler, event) {
            let now = self.handled.map_or_else(|| self.api.clock().monotonic_now(), |(since, _)| since);
            sampler.examine_watch_event(&self.resource, entry.meta().resource_version, format, line, now);
        }
    }

    fn handle(&mut self, event: DecodedEvent<'_, S::Object>) {
        self.handled.get_or_insert_with(|| (self.api.clock().monotonic_now(), 0)).1 += 1;
        self.bookmarks |= matches!(event, DecodedEvent::Bookmark { .. });
        event.apply_to_sink(&*self.sink);
    }

    /// Reports the events that were handled since the last wait for an event. Called when no further event is ready.
    fn report_handled(&mut self) {
        let Some((since, events)) = self.handled.take() else { return };
        let clock = self.api.clock();
        self.shared.record_events(events, clock.now());
        self.counted.record_handling_time(clock.monotonic_now() - since);
        self.api.pace().record_watch_data();
    }

    /// Returns the next line, or an error if no line arrives within `silence`. Meanwhile, replays the cache at each resync.
    ///
    /// If `refreshable`, a refresh request ends the wait with [`NoLine::RefreshWanted`].
    async fn line(
        &mut self,
        frames: &mut WatchFrames,
        silence: Duration,
        refreshable: bool,
    ) -> Result<Option<Bytes>, NoLine> {
        // A line that has arrived already needs no timer.
        let is_refresh_wanted = refreshable && self.shared.refresh.borrow().number > self.met;
        if !is_refresh_wanted && let Some(line) = frames.next_frame().now_or_never() {
            return line.map_err(|error| NoLine::Broken(error.to_string()));
        }
        self.report_handled();
        let deadline = self.api.clock().monotonic_now() + silence;
        let mut refresh = self.shared.refresh.subscribe();
        loop {
            let resync_at = self.resync_at.unwrap_or(deadline);
            if refreshable && refresh.borrow_and_update().number > self.met {
                return Err(NoLine::RefreshWanted);
            }
            tokio::select! {
                biased;
                line = frames.next_frame() => return line.map_err(|error| NoLine::Broken(error.to_string())),
                _ = refresh.changed(), if refreshable => {}
                () = tokio::time::sleep_until(resync_at), if self.resync_at.is_some() => self.resync(),
                () = self.shared.replay.notified() => self.resync(),
                () = tokio::time::sleep_until(deadline) => return Err(NoLine::Silent),
            }
        }
    }

    /// Meets a refresh request: waits up to [`CATCH_UP`] for the watch to deliver the missing events, or else relists.
    async fn answer_refresh(&mut self, frames: &mut WatchFrames) -> Result<(), RoundEnd> {
        let RefreshRequest { number, until } = *self.shared.refresh.borrow();
        if number <= self.met {
            return Ok(());
        }
        let relist_now = |why: &str| RoundEnd::RelistNow(why.to_owned());
        let version = match until {
            RefreshTarget::At(version) => version,
            RefreshTarget::Newest => {
                let answer = self.newest_server_version().await;
                let version = answer.map_err(|e| RoundEnd::Relist(format!("list: {e}")))?;
                // If this answer has no version, only a relist can meet the request.
                version.ok_or_else(|| relist_now("the list has no version"))?
            }
        };
        let deadline = self.api.clock().monotonic_now() + CATCH_UP;
        while self.sink.version() < version {
            let Ok(line) = tokio::time::timeout_at(deadline, frames.next_frame()).await else {
                return Err(relist_now("the watch has not delivered the required version in time"));
            };
            let line = line.ok().flatten();
            match line.as_deref().map(|line| frames::decode_watch_frame::<S::Object>(frames.format(), line)) {
                None | Some(Err(_) | Ok(DecodedEvent::Error(_))) => return Err(relist_now("the watch ended")),
                Some(Ok(frame)) => self.handle(frame),
            }
        }
        self.report_handled();
        self.met = number;
        self.shared.refreshed.send_replace(number);
        Ok(())
    }

    fn origin(&self) -> ChangeOrigin {
        if *self.shared.synced.borrow() { ChangeOrigin::Relist } else { ChangeOrigin::Initial }
    }

    /// Passes all objects of a list to the sink. The list meets the refresh requests up to the serial number `wanted`.
    fn complete(&mut self, set: S::Set, version: ResourceVersion, wanted: u64) {
        let origin = self.origin();
        self.apply_measured(|sink| sink.complete_set(set, version, origin));
        self.wants_set = false;
        self.counted.set_queued_object_count(0);
        {
            let mut state = self.shared.state.lock();
            state.synced = true;
            state.lists += 1;
            state.error = None;
            state.failing_since = None;
        }
        self.met = self.met.max(wanted);
        if self.asked.is_some() {
            *self.shared.set_asked.lock() = self.asked;
        }
        self.shared.refreshed.send_replace(self.met);
        self.shared.synced.send_replace(true);
    }

    /// Applies a change to the sink, and measures the duration.
    fn apply_measured(&self, change: impl FnOnce(&S)) {
        let clock = self.api.clock();
        let began = clock.monotonic_now();
        change(&self.sink);
        self.counted.record_handling_time(clock.monotonic_now() - began);
    }

    /// Replays the cache to the handlers and schedules the next replay.
    fn resync(&mut self) {
        self.resync_at = self.config.resync_interval.map(|d| self.api.clock().monotonic_now() + d);
        self.apply_measured(S::replay);
    }
}

/// Why no line was returned although the stream has not ended.
#[derive(Debug, thiserror::Error)]
enum NoLine {
    /// A refresh request ended the wait.
    #[error("a refresh of the cache was requested")]
    RefreshWanted,
    #[error("no event arrived in time")]
    Silent,
    #[error("{0}")]
    Broken(String),
}
