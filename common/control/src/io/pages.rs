//! The pages of a collection of any kind, which a sync lists or deletes.

use super::{request::Refusal, run::Answer};
use crate::{api::percent_encode, partial_object::PartialObjectPage};

/// The position in the pages of a list or of the deletion of a collection.
#[derive(Debug)]
pub struct CollectionPages {
    /// Query of the first page, such as `limit=500`.
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
        Self { query, token: String::new(), is_whole: false, is_complete: false }
    }

    /// Returns the query of the next page; `None` after the last page.
    pub fn next_query(&self) -> Option<String> {
        match (self.is_complete, self.is_whole, &*self.token) {
            (true, ..) => None,
            (_, true, _) => Some(String::new()),
            (_, _, "") => Some(self.query.to_owned()),
            (.., token) => Some(format!("{}&continue={}", self.query, percent_encode(token))),
        }
    }

    /// Whether the next page is the first one.
    pub fn is_at_start(&self) -> bool {
        self.token.is_empty()
    }

    /// Decodes the answer to a page, and advances to the next page.
    ///
    /// # Errors
    /// If the answer cannot be decoded.
    pub fn advance(&mut self, answer: &Answer) -> Result<PartialObjectPage, Refusal> {
        let page: PartialObjectPage = answer.decode()?.unwrap_or_default();
        self.token.clone_from(&page.metadata.continue_token);
        self.is_complete = self.token.is_empty();
        Ok(page)
    }

    /// Starts again without pages if the token of the next page has expired. Returns whether it has.
    pub fn restart_if_expired(&mut self, refusal: &Refusal) -> bool {
        let is_expired = !self.token.is_empty() && refusal.error.is_version_expired();
        if is_expired {
            *self = Self { is_whole: true, ..Self::new(self.query) };
        }
        is_expired
    }
}
