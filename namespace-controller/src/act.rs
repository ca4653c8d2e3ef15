//! Sends the requests of a sync: reads the namespace and discovery, deletes the content, writes the conditions, and finalizes.

mod kind;

use std::{collections::BTreeMap, sync::Arc};

use common::{discovery::DiscoveredResource, io::Answer, prelude::*};
use serde_json::Value;

use crate::{
    NamespaceController,
    decide::{
        Snapshot,
        conditions::{TrueConditions, of_failed_discovery, of_findings, set_conditions},
        content::{Content, Failure, Findings, KindState, is_pods},
        verdict::judge,
    },
    objects::{NAMESPACES, finalizers_of, remove_finalizer, set_terminating},
};

/// Maximum number of attempts in one sync to replace the namespace, which other clients change before each attempt.
const MAX_WRITE_ATTEMPTS: u32 = 4;

/// Why a sync ends before its work is done.
pub(crate) enum SyncEnd {
    /// There is nothing left to do: the namespace is gone or is not terminating, or the process shuts down.
    Done,
    /// A request about the namespace was refused. A refused request about a kind ends only the visit of the kind.
    Refused(Refusal),
    /// Content cannot be deleted.
    Failed(Failure),
}

/// The result of a part of a sync.
type Part<T> = Result<T, SyncEnd>;

/// One sync of a terminating namespace.
pub(crate) struct NamespaceSync<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) io: Io<'a, NamespaceController>,
}

impl NamespaceSync<'_> {
    /// Runs the sync. A forecast ends after the first request, because all that follows depends on answers.
    pub(crate) async fn run(&self) -> Part<Requeue> {
        let mut live = self.read_namespace("the cache shows that it is terminating").await?;
        self.replace(&mut live, "status", set_terminating).await?;
        if finalizers_of(&live).is_empty() {
            return Err(SyncEnd::Done);
        }
        let content = match self.discover().await {
            Err(SyncEnd::Failed(failure)) => {
                self.write_conditions(&mut live, of_failed_discovery(&failure)).await?;
                return Err(SyncEnd::Failed(failure));
            }
            content => content?,
        };
        let kinds = self.delete_content(&content).await?;
        let since = self.meta().deletion_timestamp.unwrap_or(self.snapshot.now);
        let (namespace, age_seconds) = (&self.meta().name, self.io.now().duration_since(since).as_secs());
        self.write_conditions(&mut live, of_findings(namespace, &content, &kinds, age_seconds)).await?;
        let wait = judge(namespace, &content, &kinds, age_seconds);
        let visited = (!kinds.keys().any(is_pods)).then(|| Arc::clone(&content.kinds));
        let findings = Findings { visited, kinds: Arc::new(kinds) };
        self.io.update_memory(|controller| controller.memory.record_findings(&self.meta().uid, findings));
        if let Some(delay) = wait.map_err(SyncEnd::Failed)? {
            return Ok(Requeue::AfterPartialWork(delay));
        }
        self.replace(&mut live, "finalize", remove_finalizer).await?;
        Ok(Requeue::AfterPlannedDelay)
    }

    fn meta(&self) -> &Meta {
        self.snapshot.namespace.meta()
    }

    /// Sends a request. The sync ends instead if the cache no longer has the namespace, or the process shuts down.
    async fn send(&self, request: Request) -> Part<Answer> {
        let is_gone = |controller: &NamespaceController| !controller.namespaces.contains_object(self.meta());
        if self.io.observe_again(|controller| is_gone(controller).then_some(())).is_some() {
            self.io.explain_deviation("the cache no longer has the namespace");
            return Err(SyncEnd::Done);
        }
        let answer = self.io.send(request.without_retries_if_unavailable());
        self.io.await_unless_shutting_down(answer).await.ok_or(SyncEnd::Done)?.map_err(SyncEnd::Refused)
    }

    /// Reads the namespace live. The sync ends if it does not exist, has another UID, or is not terminating.
    async fn read_namespace(&self, why: &'static str) -> Part<Value> {
        let request = Request::get(NAMESPACES, &Text::default(), &self.meta().name).with_reason(why);
        let live: Value = match self.send(request).await {
            Ok(answer) => answer.decode().map_err(SyncEnd::Refused)?.unwrap_or_default(),
            Err(SyncEnd::Refused(refusal)) if refusal.error.is_object_absent() => return Err(SyncEnd::Done),
            Err(end) => return Err(end),
        };
        self.io.explain_deviation("what follows depends on the live namespace and its content");
        let metadata = &live["metadata"];
        let is_expected = metadata["uid"] == self.meta().uid.to_string() && metadata["deletionTimestamp"].is_string();
        if is_expected { Ok(live) } else { Err(SyncEnd::Done) }
    }

    /// Changes a subresource of the namespace by a PUT; sends nothing if `change` returns that there is no change. After a
    /// conflict, the namespace is read and changed again.
    async fn replace(&self, live: &mut Value, subresource: &'static str, change: fn(&mut Value) -> bool) -> Part<()> {
        let mut attempts = 0;
        while change(live) {
            attempts += 1;
            match self.send(self.put(live, subresource)).await {
                Err(SyncEnd::Refused(refusal)) if refusal.is_not_found() => return Err(SyncEnd::Done),
                Err(SyncEnd::Refused(refusal)) if refusal.error.is_conflict() && attempts < MAX_WRITE_ATTEMPTS => {
                    *live = self.read_namespace("it has changed since the last read").await?;
                }
                end => return end.map(drop),
            }
        }
        Ok(())
    }

    fn put(&self, live: &Value, subresource: &'static str) -> Request {
        let resource_version = ResourceVersion::parse(live["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        let meta = Meta { resource_version, ..self.meta().clone() };
        let verb_text = if subresource == "status" { "write the status" } else { subresource };
        let request = Request::replace(NAMESPACES, &meta, self.io.encode_body(|| live));
        request.with_subresource(subresource).with_verb_text(verb_text)
    }

    /// Writes the conditions if they have changed. A refused write does not end the sync.
    async fn write_conditions(&self, live: &mut Value, true_conditions: TrueConditions) -> Part<()> {
        if set_conditions(live, true_conditions, self.io.now()).map_err(SyncEnd::Failed)?
            && let Err(end @ (SyncEnd::Done | SyncEnd::Failed(_))) = self.send(self.put(live, "status")).await
        {
            return Err(end);
        }
        Ok(())
    }

    /// Returns the discovery of an earlier sync, or reads a new one.
    async fn discover(&self) -> Part<Content> {
        let uid = &self.meta().uid;
        let known = self.io.observe_again(|controller| Some(controller.memory.discovery_for(uid)));
        match known.ok_or(SyncEnd::Done)? {
            Ok(content) => Ok(content),
            Err(began) => {
                let discovered = self.io.discover(&NAMESPACES).await;
                let discovered = discovered.map_err(|refusal| SyncEnd::Failed(failure_of(&refusal)))?;
                let content = Content::from_discovery(&discovered.unwrap_or_default()).map_err(SyncEnd::Failed)?;
                self.io.update_memory(|controller| controller.memory.record_discovery(began, content.clone()));
                Ok(content)
            }
        }
    }

    /// Deletes the objects of all kinds, and returns the kinds that are not known to be empty. While Pods remain, only Pods are
    /// deleted. If nothing remains and the last sync has found something, the kinds that it has found empty are visited again.
    async fn delete_content(&self, content: &Content) -> Part<BTreeMap<Resource, KindState>> {
        let [known_empty, others] = self.snapshot.findings.order_of_visits(content);
        let states = self.visit(others).await?;
        if states.is_empty() && !self.snapshot.findings.kinds.is_empty() {
            return self.visit(known_empty).await;
        }
        Ok(states)
    }

    /// Visits these kinds, up to Pods that remain. A group version that does not answer is not used again in this sync.
    async fn visit(&self, discovered_resources: Vec<&DiscoveredResource>) -> Part<BTreeMap<Resource, KindState>> {
        let (mut states, mut unavailable) = (BTreeMap::new(), BTreeMap::new());
        for discovered in discovered_resources {
            let resource = &discovered.resource;
            let state = match unavailable.get(&resource.api_version()) {
                Some(failure) => KindState::failed(Failure::clone(failure)),
                None => match self.delete_kind(discovered).await {
                    Err(SyncEnd::Refused(refusal)) => {
                        if refusal.error.is_unavailable() {
                            unavailable.insert(resource.api_version(), failure_of(&refusal));
                        }
                        KindState::failed(failure_of(&refusal))
                    }
                    state => state?,
                },
            };
            if !state.is_empty() {
                states.insert(resource.clone(), state);
                if is_pods(resource) {
                    break;
                }
            }
        }
        Ok(states)
    }
}

/// Returns the failure of a refused request, with the message of the server.
fn failure_of(refusal: &Refusal) -> Failure {
    Failure { text: refusal.error.to_string(), class: SyncErrorClass::Request(refusal.error.metric_label()) }
}
