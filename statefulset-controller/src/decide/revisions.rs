//! Which revision Pods come from and which they go to.

use std::sync::Arc;

use common::{
    hash::controller_revision_hash,
    intern::Text,
    revision::{self, Data},
};
use serde_json::Value;

use crate::{
    objects::StatefulSet,
    snapshot::{RevisionRef, Snapshot},
};

/// How much of a set's name is part of the names of its revisions.
const PREFIX: usize = 223;

/// A revision that Pods are made from: one that is stored, or one that is about to be.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its name, which Pods carry.
    pub name: Text,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Stored(RevisionRef),
    New(Arc<StatefulSet>),
}

impl Revision {
    /// One that is stored.
    pub fn stored(revision: &RevisionRef) -> Self {
        Self { name: Text::new(&revision.meta.name), source: Source::Stored(Arc::clone(revision)) }
    }

    /// One of the set's template.
    fn new(set: &Arc<StatefulSet>, name: &str) -> Self {
        Self { name: Text::new(name), source: Source::New(Arc::clone(set)) }
    }

    /// The template it holds; nothing if it holds none.
    pub fn template(&self) -> Option<Value> {
        match &self.source {
            Source::Stored(revision) => revision::template_in(revision.data.text().as_bytes()),
            Source::New(set) => revision::template_in(set.data.bytes()),
        }
    }
}

/// What has to be written before Pods can be made from the update revision.
#[derive(Clone, Debug)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// An older one is the newest again.
    Renumber {
        /// The revision.
        revision: RevisionRef,
        /// Its new number.
        number: i64,
    },
    /// There is none yet.
    Create {
        /// Its number.
        number: i64,
    },
}

impl Step {
    /// Whether anything is written.
    pub fn acts(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// What is done, in words.
    pub fn line(&self, revisions: &Revisions) -> Option<String> {
        let name = &revisions.update.name;
        match self {
            Self::Nothing => None,
            Self::Renumber { number, .. } => {
                Some(format!("make revision {name} number {number}: the template is that of before"))
            }
            Self::Create { number } => Some(format!("create revision {name}, number {number}: the template is new")),
        }
    }
}

/// The revisions of a set.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// All that are stored, oldest first.
    pub stored: Vec<RevisionRef>,
    /// What has to be written.
    pub step: Step,
    /// The one Pods come from.
    pub current: Revision,
    /// The one Pods go to.
    pub update: Revision,
    /// How often a name was taken by another one.
    pub collisions: i32,
}

/// The revisions the set has, or has once they are adopted, oldest first.
pub fn sorted(snapshot: &Snapshot) -> Vec<RevisionRef> {
    let claims = &snapshot.revisions;
    let mut all: Vec<RevisionRef> = claims.keep.iter().chain(&claims.adopt).cloned().collect();
    revision::sort(&mut all);
    all
}

/// The hash of the set's template after so many collisions.
pub fn hash(set: &StatefulSet, collisions: i32) -> String {
    controller_revision_hash(set.data.bytes(), Some(collisions))
}

/// The name of a revision with that hash.
pub fn name(set: &StatefulSet, hash: &str) -> String {
    let name: &str = &set.metadata.name;
    // Names are ASCII: a cut inside a character means a name no server stores, and gives no prefix at all.
    format!("{}-{hash}", name.get(..name.len().min(PREFIX)).unwrap_or_default())
}

/// Decides which revisions those are. Upstream: `getStatefulSetRevisions`.
///
/// Equal is what holds the same bytes; a revision that differs from the template only by what a server has learnt to write, or
/// to leave out, since then is equal as well, if it is the newest: nothing is rolled out for that (kubernetes/kubernetes#134773).
pub fn choose(snapshot: &Snapshot, stored: Vec<RevisionRef>) -> Revisions {
    let set = &snapshot.set;
    let number = revision::next_revision(stored.iter().map(|r| &***r));
    let collisions = set.status.collision_count.unwrap_or(0);
    let latest = stored.last();
    let equal = stored.iter().rfind(|revision| revision.holds(&set.data));
    let same = |latest: &&RevisionRef| snapshot.limits.semantic_comparison && is_same(latest, &set.data);
    let (update, step) = match (equal, latest) {
        (Some(equal), Some(latest)) if Arc::ptr_eq(equal, latest) => (Revision::stored(latest), Step::Nothing),
        (Some(equal), _) => (Revision::stored(equal), Step::Renumber { revision: Arc::clone(equal), number }),
        (None, latest) => match latest.filter(same) {
            Some(latest) => (Revision::stored(latest), Step::Nothing),
            None => (Revision::new(set, &name(set, &hash(set, collisions))), Step::Create { number }),
        },
    };
    let recorded = &set.status.current_revision;
    let current = stored.iter().find(|revision| *revision.meta.name == **recorded);
    Revisions { current: current.map_or_else(|| update.clone(), Revision::stored), stored, step, update, collisions }
}

/// The same revisions, after the new one was stored under that name.
pub fn created(revisions: &Revisions, set: &Arc<StatefulSet>, name: &str, collisions: i32) -> Revisions {
    let update = Revision::new(set, name);
    let current =
        if revisions.current.name == revisions.update.name { update.clone() } else { revisions.current.clone() };
    Revisions { current, update, collisions, step: Step::Nothing, stored: revisions.stored.clone() }
}

/// Whether a revision holds `data` once it has today's defaults.
fn is_same(revision: &RevisionRef, data: &Data) -> bool {
    let defaulted = revision::template_in(revision.data.text().as_bytes()).map(|mut template| {
        common::template::defaults::apply_defaults(&mut template);
        template
    });
    defaulted.is_some_and(|template| data.is_of(&template))
}

#[cfg(test)]
mod tests;
