//! Deletes the objects of one kind in a namespace, and lists what remains.

use common::{
    discovery::DiscoveredResource,
    io::CollectionPages,
    partial_object::{ObjectPage, PartialObject},
    prelude::*,
};
use jiff::SignedDuration;

use super::{NamespaceSync, Part, SyncEnd, failure_of};
use crate::decide::content::{Failure, KindState, is_waiting};

/// Query of a page of a list.
const LISTED_PAGE: &str = "limit=500";
/// Query of the deletion of a page.
const DELETED_PAGE: &str = "propagationPolicy=Background&limit=500";
/// Number of failed deletions by name that end the deletion of a kind.
const MAX_FAILED_DELETIONS: u32 = 10;
/// Time between two lists with 404 after which a kind counts as empty.
const MIN_UNSERVED_TIME: SignedDuration = SignedDuration::from_secs(5);

impl NamespaceSync<'_> {
    /// Deletes the objects of a kind, and returns what remains. Fails with a refusal if nothing is known about the kind.
    pub(super) async fn delete_kind(&self, resource: &DiscoveredResource) -> Part<KindState> {
        if self.snapshot.findings.kinds.get(&resource.resource).is_some_and(KindState::only_waits) {
            let state = self.list_kind(resource, |_| {}).await?;
            if state.count == state.waiting {
                return Ok(state);
            }
        }
        let failure = match self.delete_collection(resource).await {
            Ok(Some(true)) => return Ok(KindState::default()),
            Ok(Some(false)) => None,
            Ok(None) => self.delete_by_name(resource, None).await?,
            Err(SyncEnd::Refused(refusal)) if !refusal.error.is_unavailable() => {
                self.delete_by_name(resource, Some(failure_of(&refusal))).await?
            }
            Err(end) => return Err(end),
        };
        let state = self.list_kind(resource, |_| {}).await?;
        // Without the verb `list`, only the failure is known.
        let is_relevant = state.count > 0 || !resource.supports(&["list"]);
        Ok(KindState { failure: failure.filter(|_| is_relevant), ..state })
    }

    /// Deletes the objects of a kind page by page. Returns whether there were none; `None` if the server has no such operation.
    async fn delete_collection(&self, resource: &DiscoveredResource) -> Part<Option<bool>> {
        let mut pages = CollectionPages::new(DELETED_PAGE);
        while let Some(query) = pages.next_query().filter(|_| resource.supports(&["deletecollection"])) {
            let is_first = pages.is_at_start();
            let request = Request::delete_collection(resource.resource.clone(), &Text::new(&self.meta().name), query);
            match self.send(request.with_metadata_answer()).await {
                Ok(answer) => {
                    // An answer that is no list does not tell what was deleted.
                    let page: ObjectPage<PartialObject> = pages.advance(&answer).unwrap_or_default();
                    let is_list = page.metadata.resource_version.is_known();
                    if is_first && is_list && page.items.is_empty() && pages.is_at_start() {
                        return Ok(Some(true));
                    }
                }
                Err(SyncEnd::Refused(refusal)) if !is_first && refusal.error.is_version_expired() => break,
                Err(SyncEnd::Refused(refusal)) if is_unsupported(&refusal) => return Ok(None),
                Err(end) => return Err(end),
            }
        }
        Ok(resource.supports(&["deletecollection"]).then_some(false))
    }

    /// Deletes each object of a kind that does not wait already. Returns the first failure.
    async fn delete_by_name(&self, resource: &DiscoveredResource, failure: Option<Failure>) -> Part<Option<Failure>> {
        let (mut objects, mut first_failure, mut failed_deletions) = (Vec::new(), failure, 0);
        self.list_kind(resource, |meta| objects.push(meta)).await?;
        for meta in objects {
            let request = Request::delete(resource.resource.clone(), &meta).with_precondition_version(None);
            let request = request.with_propagation("Background").with_role(ObjectRole::UntrackedObject);
            match self.send(request).await {
                Ok(_) => {}
                // Another object has the name if the UID differs.
                Err(SyncEnd::Refused(refusal)) if is_unsupported(&refusal) || refusal.error.is_conflict() => {}
                Err(SyncEnd::Refused(refusal)) if !refusal.error.is_unavailable() => {
                    first_failure.get_or_insert_with(|| failure_of(&refusal));
                    failed_deletions += 1;
                    if failed_deletions == MAX_FAILED_DELETIONS {
                        break;
                    }
                }
                Err(end) => return Err(end),
            }
        }
        Ok(first_failure)
    }

    /// Lists the objects of a kind. Calls `add` with each object that does not wait. A kind that cannot be listed counts as
    /// empty.
    async fn list_kind(&self, resource: &DiscoveredResource, mut add: impl FnMut(Meta) + Send) -> Part<KindState> {
        let (mut pages, mut state) = (CollectionPages::new(LISTED_PAGE), KindState::default());
        while let Some(query) = pages.next_query().filter(|_| resource.supports(&["list"])) {
            let request = Request::list(resource.resource.clone(), &Text::new(&self.meta().name), query);
            match self.send(request.with_metadata_answer()).await {
                Ok(answer) => {
                    let page: ObjectPage<PartialObject> = pages.advance(&answer).map_err(SyncEnd::Refused)?;
                    page.items.iter().for_each(|object| state.add(object));
                    let deletable = page.items.into_iter().filter(|object| !is_waiting(object));
                    deletable.for_each(|object| add(object.metadata));
                }
                Err(SyncEnd::Refused(refusal)) if pages.restart_if_expired(&refusal) => state = KindState::default(),
                Err(SyncEnd::Refused(refusal)) if refusal.error.is_method_not_allowed() => break,
                Err(SyncEnd::Refused(refusal)) if refusal.error.is_not_found() => {
                    return Ok(self.unserved_kind(resource));
                }
                Err(end) => return Err(end),
            }
        }
        Ok(state)
    }

    /// Returns the state of a kind whose list was answered with 404. A server may not serve a new kind yet that another one lists.
    fn unserved_kind(&self, resource: &DiscoveredResource) -> KindState {
        let now = self.io.now();
        let known = self.snapshot.findings.kinds.get(&resource.resource).and_then(|state| state.unserved_since);
        let is_old = known.is_some_and(|since| now.duration_since(since) >= MIN_UNSERVED_TIME);
        KindState { unserved_since: Some(known.unwrap_or(now)).filter(|_| !is_old), ..KindState::default() }
    }
}

/// Whether the server does not serve the path, or not with this method (404, 405).
fn is_unsupported(refusal: &Refusal) -> bool {
    refusal.error.is_not_found() || refusal.error.is_method_not_allowed()
}
