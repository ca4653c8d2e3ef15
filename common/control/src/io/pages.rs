//! The pages of a collection of any kind, which a sync lists or deletes.

use serde::de::DeserializeOwned;

use super::{request::Refusal, run::Answer};
use crate::{api::percent_encode, partial_object::ObjectPage};

/// The position in the pages of a list or of the deletion of a collection.
#[derive(Debug)]
pub struct CollectionPages {
    /// The part of the query that selects the objects, such as `fieldSelector=spec.nodeName%21%3D`; empty for all objects.
    selector: &'static str,
    /// Query of the first page without the selector, such as `limit=500`.
    query: &'static str,
    /// Token of the next page; empty for the first page.
    token: String,
    /// Whether the collection is read without pages, because a token has expired.
    is_whole: bool,
    is_complete: bool,
}

impl CollectionPages {
    /// Begins with the first page. `query` has the limit, and must be encoded already.
    pub fn new(query: &'static str) -> Self {
        Self { selector: "", query, token: String::new(), is_whole: false, is_complete: false }
    }

    /// Sets the part of the query that selects the objects, which must be encoded already.
    #[must_use]
    pub fn with_selector(self, selector: &'static str) -> Self {
        Self { selector, ..self }
    }

    /// Returns the query of the next page; `None` after the last page.
    pub fn next_query(&self) -> Option<String> {
        let page = match (self.is_complete, self.is_whole, &*self.token) {
            (true, ..) => return None,
            (_, true, _) => String::new(),
            (_, _, "") => self.query.to_owned(),
            (.., token) => format!("{}&continue={}", self.query, percent_encode(token)),
        };
        let separator = if self.selector.is_empty() || page.is_empty() { "" } else { "&" };
        Some(format!("{}{separator}{page}", self.selector))
    }

    /// Whether the next page is the first one.
    pub fn is_at_start(&self) -> bool {
        self.token.is_empty()
    }

    /// Decodes the answer to a page, and advances to the next page.
    ///
    /// # Errors
    /// If the answer cannot be decoded.
    pub fn advance<T: DeserializeOwned>(&mut self, answer: &Answer) -> Result<ObjectPage<T>, Refusal> {
        let page: ObjectPage<T> = answer.decode()?.unwrap_or_default();
        self.token.clone_from(&page.metadata.continue_token);
        self.is_complete = self.token.is_empty();
        Ok(page)
    }

    /// Starts again without pages if the token of the next page has expired. Returns whether it has.
    pub fn restart_if_expired(&mut self, refusal: &Refusal) -> bool {
        let is_expired = !self.token.is_empty() && refusal.error.is_version_expired();
        if is_expired {
            *self = Self { is_whole: true, ..Self::new(self.query).with_selector(self.selector) };
        }
        is_expired
    }
}
