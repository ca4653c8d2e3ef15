//! Reads all objects of a resource: as a streaming list if the server supports it, otherwise as a list in pages.

use std::{fmt::Write as _, time::Duration};

use super::{Reflector, RoundEnd, TURN, VERY_SHORT};
use crate::{
    api::{Error, percent_encode},
    informer::{
        frames::{self, DecodedEvent},
        sink::Sink,
    },
};

/// Cause in the error of a server that has not reached the requested version yet.
const VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

impl<S: Sink> Reflector<S> {
    /// Reads a list. A streaming list then continues as a watch until the watch ends.
    pub(super) async fn read_list(&mut self) -> Result<(), RoundEnd> {
        let wanted = self.shared.refresh.borrow().number;
        self.asked = Some(self.api.clock().monotonic_now());
        self.filling = Some(self.api.pace().begin_work());
        if self.config.is_streaming_list_enabled && !std::mem::take(&mut self.pages_next) {
            self.read_streaming_list(wanted).await
        } else {
            self.read_list_in_pages(wanted).await
        }
    }

    /// Reads all objects from a stream, and then follows the same stream as a watch.
    async fn read_streaming_list(&mut self, wanted: u64) -> Result<(), RoundEnd> {
        let known = self.sink.version();
        let mut query = format!(
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={}",
            self.watch_seconds()
        );
        // Unless a refresh is requested, a list that is at least as new as the cache suffices.
        let forget_version = std::mem::take(&mut self.forget_version);
        if known.is_known() && wanted <= self.met && !forget_version {
            let _ = write!(query, "&resourceVersion={known}");
            self.asked = None;
        }
        query.push_str(&self.selectors());
        let mut lines = match self.watch(&query).await {
            Ok(lines) => lines,
            Err(e) if e.is_version_expired() || e.has_cause(VERSION_TOO_LARGE) => {
                self.forget_version = known.is_known();
                return Err(RoundEnd::Relist(format!("streaming list: {e}")));
            }
            // An error status may mean that the server does not support streaming lists. A busy server, or one that cannot be
            // reached, is retried.
            Err(e @ Error::Status(_)) if !e.is_too_many_requests() && e.retry_after().is_none() => {
                return Err(RoundEnd::NoStreaming(e.to_string()));
            }
            Err(e) => return Err(RoundEnd::Relist(format!("streaming list: {e}"))),
        };
        let opened = self.api.clock().monotonic_now();
        let origin = self.origin();
        let mut set = self.sink.begin_set();
        let (mut turn, mut objects, mut bytes) = (0, 0, 0);
        let relist = |why: &str| Err(RoundEnd::Relist(why.to_owned()));
        loop {
            turn += 1;
            if turn % TURN == 0 {
                tokio::task::yield_now().await;
            }
            let line = match self.line(&mut lines, self.config.max_watch_idle_time, false).await {
                Ok(Some(line)) => line,
                Ok(None) if turn == 1 && self.api.clock().monotonic_now() - opened < VERY_SHORT => {
                    return Err(RoundEnd::NoStreaming("the server closed a streaming list at once".to_owned()));
                }
                Ok(None) => return relist("the server closed a streaming list before its end"),
                Err(e) => return relist(&e.to_string()),
            };
            bytes += line.len();
            if bytes > self.config.max_list_bytes {
                return relist("the list is longer than the limit");
            }
            match frames::decode_watch_frame::<S::Object>(lines.format(), &line).map_err(RoundEnd::Relist)? {
                DecodedEvent::Put { entry, added: true } => {
                    self.require_all_fields(&entry)?;
                    self.sink.add_to_set(&mut set, entry, origin);
                    objects += 1;
                    self.counted.set_queued_object_count(objects);
                }
                DecodedEvent::Foreign { added: true, .. } | DecodedEvent::Bookmark { initial_end: false, .. } => {}
                DecodedEvent::Bookmark { version, .. } => {
                    self.complete(set, version, wanted);
                    break;
                }
                // Before the end of the list, a correct server sends only its objects. Other events make the list unreliable.
                DecodedEvent::Put { .. } | DecodedEvent::Foreign { .. } | DecodedEvent::DeletedObject(_) => {
                    return relist("an unexpected event before the end of the first set");
                }
                DecodedEvent::Error(failure) => {
                    self.set_minimum_pause(Duration::from_secs(failure.details.retry_after_seconds.into()));
                    let why = format!("streaming list: {}", failure.message);
                    return Err(match failure.code {
                        429 => RoundEnd::Relist(why),
                        code if code == 410 || failure.has_cause(VERSION_TOO_LARGE) => {
                            self.forget_version = known.is_known();
                            RoundEnd::Relist(why)
                        }
                        _ => RoundEnd::NoStreaming(why),
                    });
                }
            }
        }
        self.filling = None;
        self.follow(lines).await
    }

    /// Reads a list page by page, with all pages at the same version.
    async fn read_list_in_pages(&mut self, wanted: u64) -> Result<(), RoundEnd> {
        let origin = self.origin();
        let mut set = self.sink.begin_set();
        let (mut objects, mut bytes) = (0, 0);
        let mut token = String::new();
        let failed = |e: Error| RoundEnd::Relist(format!("list: {e}"));
        loop {
            let mut query = format!("limit={}", self.config.page_size);
            if !token.is_empty() {
                let _ = write!(query, "&continue={}", percent_encode(&token));
            }
            query.push_str(&self.selectors());
            let (format, body) = match self.list(&query).await {
                Ok(answer) => answer,
                // The server no longer keeps the version of the first page, so the whole list is read in one page.
                Err(e) if e.is_version_expired() && !token.is_empty() => {
                    (set, objects, bytes) = (self.sink.begin_set(), 0, 0);
                    let query = self.selectors();
                    self.list(query.trim_start_matches('&')).await.map_err(failed)?
                }
                Err(e) => return Err(failed(e)),
            };
            bytes += body.len();
            if bytes > self.config.max_list_bytes {
                return Err(RoundEnd::Relist("the list is longer than the limit".to_owned()));
            }
            let page = frames::decode_list_page::<S::Object>(format, &body).map_err(RoundEnd::Relist)?;
            objects += page.items.len();
            for entry in page.items {
                self.require_all_fields(&entry)?;
                self.sink.add_to_set(&mut set, entry, origin);
            }
            self.counted.set_queued_object_count(objects);
            if page.continue_token.is_empty() {
                self.complete(set, page.version, wanted);
                return Ok(());
            }
            token = page.continue_token;
            tokio::task::yield_now().await;
        }
    }
}
