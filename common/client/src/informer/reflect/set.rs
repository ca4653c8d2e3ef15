//! Reads full sets of objects: as a streaming list if the server supports it, otherwise in pages.

use std::{fmt::Write as _, time::Duration};

use super::{End, Reflector, TURN, VERY_SHORT};
use crate::{
    api::{Error, escape},
    informer::{
        frames::{self, Frame},
        sink::Sink,
    },
};

/// Cause in the error of a server that has not reached the requested version yet.
const VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

impl<S: Sink> Reflector<S> {
    /// Reads a full set of objects. A streaming list then continues as a watch until the watch ends.
    pub(super) async fn full_set(&mut self) -> Result<(), End> {
        let wanted = self.shared.refresh.borrow().number;
        self.asked = Some(self.api.clock().instant());
        self.filling = Some(self.api.pace().work());
        if self.config.streaming && !std::mem::take(&mut self.pages_next) {
            self.streamed(wanted).await
        } else {
            self.paged(wanted).await
        }
    }

    /// Reads a full set as a streaming list, and then follows the same stream as a watch.
    async fn streamed(&mut self, wanted: u64) -> Result<(), End> {
        let known = self.sink.version();
        let mut query = format!(
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={}",
            self.watch_seconds()
        );
        // Unless a refresh is requested, a set that is at least as new as the known version suffices.
        if known.is_known() && wanted <= self.met && !std::mem::take(&mut self.forget_version) {
            let _ = write!(query, "&resourceVersion={known}");
            self.asked = None;
        }
        query.push_str(&self.selectors());
        let mut lines = match self.watch(&query).await {
            Ok(lines) => lines,
            Err(e) if e.is_gone() || e.has_cause(VERSION_TOO_LARGE) => {
                self.forget_version = known.is_known();
                return Err(End::Relist(format!("streaming list: {e}")));
            }
            // An error status may mean that the server does not support streaming lists. A busy server, or one that cannot be
            // reached, is retried.
            Err(e @ Error::Status(_)) if !e.is_too_many_requests() && e.retry_after().is_none() => {
                return Err(End::NoStreaming(e.to_string()));
            }
            Err(e) => return Err(End::Relist(format!("streaming list: {e}"))),
        };
        let opened = self.api.clock().instant();
        let origin = self.origin();
        let mut set = self.sink.begin();
        let (mut turn, mut objects, mut bytes) = (0, 0, 0);
        let relist = |why: &str| Err(End::Relist(why.to_owned()));
        loop {
            turn += 1;
            if turn % TURN == 0 {
                tokio::task::yield_now().await;
            }
            let line = match self.line(&mut lines, self.config.silence, false).await {
                Ok(Some(line)) => line,
                Ok(None) if turn == 1 && self.api.clock().instant() - opened < VERY_SHORT => {
                    return Err(End::NoStreaming("the server closed a streaming list at once".to_owned()));
                }
                Ok(None) => return relist("the server closed a streaming list before its end"),
                Err(e) => return relist(&e.to_string()),
            };
            bytes += line.len();
            if bytes > self.config.longest {
                return relist("the list is longer than the limit");
            }
            match frames::read::<S::Object>(lines.format(), &line).map_err(End::Relist)? {
                Frame::Put { entry, added: true } => {
                    self.sink.include(&mut set, entry, origin);
                    objects += 1;
                    self.counted.queued(objects);
                }
                Frame::Foreign { added: true, .. } | Frame::Bookmark { initial_end: false, .. } => {}
                Frame::Bookmark { version, .. } => {
                    self.complete(set, version, wanted);
                    break;
                }
                // Before the end of the set, a correct server sends only its objects. Other events make the set unreliable.
                Frame::Put { .. } | Frame::Foreign { .. } | Frame::Gone(_) => {
                    return relist("an unexpected event before the end of the first set");
                }
                Frame::Error(failure) => {
                    self.heed(Duration::from_secs(failure.details.retry_after_seconds.into()));
                    let why = format!("streaming list: {}", failure.message);
                    return Err(match failure.code {
                        429 => End::Relist(why),
                        code if code == 410 || failure.has_cause(VERSION_TOO_LARGE) => {
                            self.forget_version = known.is_known();
                            End::Relist(why)
                        }
                        _ => End::NoStreaming(why),
                    });
                }
            }
        }
        self.filling = None;
        self.follow(lines).await
    }

    /// Reads a full set page by page, with all pages at the same version.
    async fn paged(&mut self, wanted: u64) -> Result<(), End> {
        let origin = self.origin();
        let mut set = self.sink.begin();
        let (mut objects, mut bytes) = (0, 0);
        let mut token = String::new();
        let failed = |e: Error| End::Relist(format!("list: {e}"));
        loop {
            let mut query = format!("limit={}", self.config.page);
            if !token.is_empty() {
                let _ = write!(query, "&continue={}", escape(&token));
            }
            query.push_str(&self.selectors());
            let (format, body) = match self.list(&query).await {
                Ok(answer) => answer,
                // The server no longer keeps the version of the first page, so the whole set is read in one page.
                Err(e) if e.is_gone() && !token.is_empty() => {
                    (set, objects, bytes) = (self.sink.begin(), 0, 0);
                    let query = self.selectors();
                    self.list(query.trim_start_matches('&')).await.map_err(failed)?
                }
                Err(e) => return Err(failed(e)),
            };
            bytes += body.len();
            if bytes > self.config.longest {
                return Err(End::Relist("the list is longer than the limit".to_owned()));
            }
            let page = frames::read_page::<S::Object>(format, &body).map_err(End::Relist)?;
            objects += page.items.len();
            for entry in page.items {
                self.sink.include(&mut set, entry, origin);
            }
            self.counted.queued(objects);
            if page.next.is_empty() {
                self.complete(set, page.version, wanted);
                return Ok(());
            }
            token = page.next;
            tokio::task::yield_now().await;
        }
    }
}
