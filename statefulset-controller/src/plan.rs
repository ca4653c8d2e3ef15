//! What one sync does: claims, a revision, work on Pods in phases, a status, and what is forgotten of the history.

use std::{fmt, sync::Arc, time::Duration};

use common::{
    controller::{Explain, Explanation},
    meta::OwnerRef,
    selector::SelectorError,
};

use crate::{
    decide::revisions::Revisions,
    objects::{StatefulSet, Status},
    snapshot::{ClaimRef, PodRef, RevisionRef},
};

/// How many lines of one sort are told one by one.
const NAMED: usize = 10;

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set it is about.
    pub set: Arc<StatefulSet>,
    /// Why nothing can be done at all.
    pub problem: Option<SelectorError>,
    /// Revisions to adopt.
    pub adopt_revisions: Vec<RevisionRef>,
    /// Pods to adopt.
    pub adopt: Vec<PodRef>,
    /// Pods to release.
    pub release: Vec<PodRef>,
    /// The revisions Pods come from and go to.
    pub revisions: Revisions,
    /// What is done about Pods, if all of that succeeds.
    pub reconcile: Reconcile,
    /// The status, if that succeeds, too.
    pub status: Status,
    /// Revisions to delete.
    pub forget: Vec<RevisionRef>,
    /// When the next Pod becomes available by the passing of time.
    pub available_in: Option<Duration>,
}

/// What is done about Pods.
#[derive(Clone, Debug, Default)]
pub struct Reconcile {
    /// What is done, one phase after the other; a failure ends it.
    pub phases: Vec<Phase>,
    /// The status as Pods are now.
    pub counted: Status,
    /// How many Pods may be, and are, unavailable, where that is decided.
    pub unavailable: Option<Unavailable>,
    /// What is waited for.
    pub waiting: Vec<String>,
    /// The claims whose end is waited for.
    pub claims_to_go: Vec<String>,
}

/// How a rollout stands against its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// How many Pods may be unavailable.
    pub most: i32,
    /// How many are; nothing where the rollout had no turn.
    pub now: Option<i32>,
}

/// How the work of a phase is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One after the other.
    InOrder,
    /// Side by side, in batches of 1, 2, 4, ... up to 500; a batch with a failure is the last.
    Batches,
}

/// Work on several Pods.
#[derive(Clone, Debug)]
pub struct Phase {
    /// How it is done.
    pub pace: Pace,
    /// One a Pod.
    pub work: Vec<Work>,
}

/// Work on one Pod.
#[derive(Clone, Debug)]
pub enum Work {
    /// Creates it, after its claims.
    Create {
        /// Its number.
        ordinal: i32,
        /// Its claims that have to be there first.
        claims: Claims,
        /// Whether it is made from the update revision, or from the current one.
        from: From,
    },
    /// Deletes it.
    Delete {
        /// The Pod.
        pod: PodRef,
        /// Why.
        why: Why,
    },
    /// Sees to what it needs and does not have.
    Repair {
        /// The Pod.
        pod: PodRef,
        /// Its number.
        ordinal: i32,
        /// Claims that are missing.
        claims: Claims,
        /// Claims that somebody else manages.
        conflicting: Vec<String>,
        /// Claims that get other owners.
        owners: Vec<(ClaimRef, Vec<OwnerRef>)>,
        /// What is wrong with the Pod itself.
        wrong: Option<Wrong>,
        /// What the work is for.
        occasion: Occasion,
    },
}

/// Why a Pod's claims are looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It is pending, and may be so for want of them.
    Pending,
    /// It is wanted, and something is not as it is to be.
    Wanted,
    /// It is to go, and they may go with it.
    Condemned,
}

/// What is wrong with a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Its labels.
    pub labels: bool,
    /// Volumes that are to be claims: name of the volume, name of the claim.
    pub volumes: Vec<(String, String)>,
}

/// The claims of a Pod that are not as they have to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Missing: position of the template, name.
    pub missing: Vec<(usize, String)>,
    /// Going.
    pub going: Vec<String>,
}

/// Which revision a Pod is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The one Pods come from.
    Current,
    /// The one Pods go to.
    Update,
}

/// Why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is over.
    Over,
    /// It is not wanted.
    Condemned,
    /// It is of another revision than it is to be.
    Outdated {
        /// Whether it counts as one of the current revision.
        is_current: bool,
    },
    /// The same, and the others wait for it in vain.
    Stuck {
        /// Whether it counts as one of the current revision.
        is_current: bool,
    },
}

impl Why {
    /// Whether the count of Pods of the current revision goes down with it.
    pub fn lowers_current(self) -> bool {
        matches!(self, Self::Outdated { is_current: true } | Self::Stuck { is_current: true })
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Over => "it is over, and another one takes its place",
            Self::Condemned => "its number is not wanted",
            Self::Outdated { .. } => "it is not of the update revision",
            Self::Stuck { .. } => "it is not of the update revision, does not get ready, and the others wait for it",
        })
    }
}

impl Claims {
    /// Whether all are as they have to be.
    pub fn are_there(&self) -> bool {
        self.missing.is_empty() && self.going.is_empty()
    }

    fn lines(&self, out: &mut Vec<String>) {
        out.extend(self.missing.iter().map(|(_, name)| format!("create claim {name}")));
    }
}

impl Work {
    fn lines(&self, set: &StatefulSet, out: &mut Vec<String>) {
        match self {
            Self::Create { ordinal, claims, from } => {
                claims.lines(out);
                let from = if *from == From::Update { "update" } else { "current" };
                out.push(format!("create Pod {} from the {from} revision", set.pod_name(*ordinal)));
            }
            Self::Delete { pod, why } => out.push(format!("delete Pod {}: {why}", pod.meta().name)),
            Self::Repair { pod, claims, owners, wrong, .. } => {
                claims.lines(out);
                let name = &pod.meta().name;
                out.extend(
                    owners.iter().map(|(claim, _)| format!("write the owners of claim {}", claim.metadata.name)),
                );
                if let Some(wrong) = wrong {
                    let what = if wrong.labels { "labels" } else { "volumes" };
                    out.push(format!("update Pod {name}: its {what} are not its own"));
                }
            }
        }
    }

    /// Whether it writes anything.
    pub fn acts(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Delete { .. } => true,
            Self::Repair { claims, owners, wrong, .. } => !claims.are_there() || !owners.is_empty() || wrong.is_some(),
        }
    }
}

impl Plan {
    /// Whether the status is worth a write.
    pub fn writes_status(&self) -> bool {
        self.status.differs(&self.set.status)
    }

    fn works(&self) -> impl Iterator<Item = &Work> {
        self.reconcile.phases.iter().flat_map(|phase| &phase.work)
    }
}

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        if let Some(problem) = &self.problem {
            return Explanation { waiting: vec![problem.to_string()], ..Explanation::default() };
        }
        let counted = &self.reconcile.counted;
        let situation = format!(
            "{} Pods wanted: {} there, {} ready, {} available; {} of revision {}, {} of revision {}",
            self.set.replicas,
            counted.replicas,
            counted.ready_replicas,
            counted.available_replicas,
            counted.current_replicas,
            counted.current_revision,
            counted.updated_replicas,
            counted.update_revision,
        );
        let mut waiting = self.reconcile.waiting.clone();
        if let Some(wait) = self.available_in {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            waiting.push(format!("ready Pods are not available yet, the next in {seconds}s"));
        }
        let mut actions = Vec::new();
        actions.extend(self.adopt_revisions.iter().map(|r| format!("adopt revision {}", r.meta.name)));
        let pods = |verb: &str, pods: &[PodRef]| -> Vec<String> {
            pods.iter().map(|pod| format!("{verb} Pod {}", pod.meta().name)).collect()
        };
        actions.extend(pods("adopt", &self.adopt));
        actions.extend(pods("release", &self.release));
        actions.extend(self.revisions.step.line(&self.revisions));
        let mut work = Vec::new();
        self.works().for_each(|each| each.lines(&self.set, &mut work));
        let more = work.len().saturating_sub(NAMED);
        work.truncate(NAMED);
        actions.extend(work);
        if more > 0 {
            actions.push(format!("... and {more} more"));
        }
        if self.writes_status() {
            actions.push("write the status".to_owned());
        }
        actions
            .extend(self.forget.iter().map(|r| format!("delete revision {}: older ones than are kept", r.meta.name)));
        Explanation { situation, waiting, actions }
    }

    fn acts(&self) -> bool {
        self.problem.is_none()
            && (!self.adopt_revisions.is_empty()
                || !self.adopt.is_empty()
                || !self.release.is_empty()
                || self.revisions.step.acts()
                || self.works().any(Work::acts)
                || self.writes_status()
                || !self.forget.is_empty())
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.available_in
    }
}
