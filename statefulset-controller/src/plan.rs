//! What one sync does: claims, a revision, work on Pods in phases, a status, and what is forgotten of the history.

use std::{fmt, sync::Arc, time::Duration};

use common::{
    controller::{Explain, Explanation},
    explain::Lines,
    meta::OwnerRef,
    selector::SelectorError,
};

use crate::{
    decide::revisions::Revisions,
    objects::{StatefulSet, Status},
    snapshot::{ClaimRef, PodRef, RevisionRef},
};

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set.
    pub set: Arc<StatefulSet>,
    /// Why nothing can be done at all.
    pub problem: Option<Problem>,
    /// Revisions to adopt.
    pub adopt_revisions: Vec<RevisionRef>,
    /// Pods to adopt.
    pub adopt: Vec<PodRef>,
    /// Pods to release.
    pub release: Vec<PodRef>,
    /// The current and the update revision.
    pub revisions: Revisions,
    /// The work on Pods, if everything above succeeds.
    pub reconcile: Reconcile,
    /// The status, if the work on Pods succeeds, too.
    pub status: Status,
    /// Revisions to delete.
    pub forget: Vec<RevisionRef>,
    /// When the next Pod becomes available by the passing of time.
    pub available_in: Option<Duration>,
}

/// Why nothing can be done for a set.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Problem {
    /// The selector breaks the rules.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The set has more claims than one sync can compare with its Pods.
    #[error("{pods} Pods with {templates} claims each are more than the {limit} claims that a StatefulSet may have")]
    TooManyClaims {
        /// The number of its Pods.
        pods: usize,
        /// The number of its templates of claims.
        templates: usize,
        /// The greatest number of claims.
        limit: usize,
    },
}

/// The work on Pods.
#[derive(Clone, Debug, Default)]
pub struct Reconcile {
    /// Phases that are done one after the other until one of them fails.
    pub phases: Vec<Phase>,
    /// The status that counts the Pods before this work.
    pub counted: Status,
    /// The limit of unavailable Pods and their number (gate `MaxUnavailableStatefulSet`).
    pub unavailable: Option<Unavailable>,
    /// What the sync waits for.
    pub waiting: Lines,
    /// The claims that must be gone before Pods are created.
    pub claims_to_await: Vec<String>,
    /// How many Pods are left to later syncs because this one has enough to create.
    pub deferred: i64,
}

/// Unavailable Pods against their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// How many Pods may be unavailable.
    pub limit: i32,
    /// How many Pods are unavailable; `None` if the sync did not get as far as the rolling update.
    pub now: Option<i32>,
}

/// In which order the work of a phase is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One after the other.
    InOrder,
    /// Concurrently, in batches of 1, 2, 4, ... up to 500. No batch follows one with a failure.
    Batches,
}

/// Work on several Pods.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The order.
    pub pace: Pace,
    /// One entry for each Pod.
    pub work: Vec<Work>,
}

/// Work on one Pod.
#[derive(Clone, Debug)]
pub enum Work {
    /// Creates the claims that are missing, then the Pod.
    Create {
        /// The ordinal.
        ordinal: i32,
        /// The claims that must exist first.
        claims: Claims,
        /// The revision that the Pod is made from.
        role: RevisionRole,
    },
    /// Creates some of the claims that are missing. The Pod follows in a later sync, after the others.
    CreateClaims {
        /// The ordinal.
        ordinal: i32,
        /// The claims to create.
        claims: Claims,
    },
    /// Deletes the Pod.
    Delete {
        /// The Pod.
        pod: PodRef,
        /// The reason.
        why: Why,
    },
    /// Creates or changes what an existing Pod needs.
    Repair {
        /// The Pod.
        pod: PodRef,
        /// Its ordinal.
        ordinal: i32,
        /// Claims that are missing.
        claims: Claims,
        /// Claims to report because another controller manages them.
        conflicting: Vec<String>,
        /// Claims whose owner references change, with the new references.
        owners: Vec<(ClaimRef, Vec<OwnerRef>)>,
        /// What the Pod itself lacks.
        wrong: Option<Wrong>,
        /// The occasion of the repair.
        occasion: Occasion,
    },
}

/// The occasion of a [`Work::Repair`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The Pod is pending, possibly because claims are missing.
    Pending,
    /// The Pod is in range and lacks something.
    Wanted,
    /// The Pod is out of range, and its claims may have to be deleted with it.
    Condemned,
}

/// What a Pod lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Whether labels of its identity are missing.
    pub labels: bool,
    /// Volumes that do not mount their claims: name of the volume, name of the claim.
    pub volumes: Vec<(String, String)>,
}

/// The claims of a Pod that it cannot use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Claims that do not exist, as many as one sync creates for a Pod: position of the template, name.
    pub missing: Vec<(usize, String)>,
    /// How many further claims do not exist. They are left to later syncs.
    pub deferred: usize,
    /// Claims that are terminating.
    pub terminating: Vec<String>,
}

/// The part that a revision plays for its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionRole {
    /// The revision before the rolling update.
    Current,
    /// The revision of the set's template.
    Update,
}

/// Why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has finished.
    Finished,
    /// It is out of range.
    Condemned,
    /// It has another revision than the update revision.
    Outdated {
        /// Whether it has the current revision.
        is_current: bool,
    },
    /// It has another revision than the update revision, was never ready, and blocks the others.
    Stuck {
        /// Whether it has the current revision.
        is_current: bool,
    },
}

impl Why {
    /// Whether `status.currentReplicas` is lowered by the deletion.
    pub fn lowers_current(self) -> bool {
        matches!(self, Self::Outdated { is_current: true } | Self::Stuck { is_current: true })
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "it has finished and is replaced",
            Self::Condemned => "its ordinal is out of range",
            Self::Outdated { .. } => "it does not have the update revision",
            Self::Stuck { .. } => "it does not have the update revision, was never ready, and blocks the other Pods",
        })
    }
}

impl Claims {
    /// Whether every claim exists and none is terminating.
    pub fn are_usable(&self) -> bool {
        self.missing.is_empty() && self.terminating.is_empty()
    }

    fn explain(&self, lines: &mut Lines) {
        for (_, name) in &self.missing {
            lines.push(|| format!("create claim {name}"));
        }
    }
}

impl Work {
    fn explain(&self, set: &StatefulSet, lines: &mut Lines) {
        match self {
            Self::Create { ordinal, claims, role } => {
                claims.explain(lines);
                let role = if *role == RevisionRole::Update { "update" } else { "current" };
                lines.push(|| format!("create Pod {} from the {role} revision", set.pod_name(*ordinal)));
            }
            Self::CreateClaims { ordinal, claims } => {
                claims.explain(lines);
                lines.push(|| {
                    format!("leave {} claims of Pod {} to the next syncs", claims.deferred, set.pod_name(*ordinal))
                });
            }
            Self::Delete { pod, why } => lines.push(|| format!("delete Pod {}: {why}", pod.meta().name)),
            Self::Repair { pod, claims, owners, wrong, .. } => {
                claims.explain(lines);
                for (claim, _) in owners {
                    lines.push(|| format!("change the owner references of claim {}", claim.metadata.name));
                }
                if let Some(wrong) = wrong {
                    let what = if wrong.labels { "labels of its identity" } else { "volumes of its claims" };
                    lines.push(|| format!("update Pod {}: it lacks {what}", pod.meta().name));
                }
            }
        }
    }

    /// Whether it sends a request, or fails because a claim is terminating.
    pub fn acts(&self) -> bool {
        match self {
            Self::Create { .. } | Self::CreateClaims { .. } | Self::Delete { .. } => true,
            Self::Repair { claims, owners, wrong, .. } => !claims.are_usable() || !owners.is_empty() || wrong.is_some(),
        }
    }
}

impl Plan {
    /// Whether the status is written.
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
        let mut waiting = self.reconcile.waiting.clone().into_vec();
        if self.reconcile.deferred > 0 {
            waiting.push(format!("{} more Pods are left to the next syncs", self.reconcile.deferred));
        }
        if let Some(wait) = self.available_in {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            waiting.push(format!("ready Pods are not available yet, the next in {seconds}s"));
        }
        let mut actions = Vec::new();
        let mut add = |lines: Lines| actions.extend(lines.into_vec());
        let names = |verb: &str, names: &mut dyn Iterator<Item = &str>| {
            let mut lines = Lines::default();
            names.for_each(|name| lines.push(|| format!("{verb} {name}")));
            lines
        };
        add(names("adopt revision", &mut self.adopt_revisions.iter().map(|revision| &*revision.meta.name)));
        add(names("adopt Pod", &mut self.adopt.iter().map(|pod| &*pod.meta().name)));
        add(names("release Pod", &mut self.release.iter().map(|pod| &*pod.meta().name)));
        let mut lines = Lines::default();
        if let Some(line) = self.revisions.step.line(&self.revisions) {
            lines.push(|| line);
        }
        add(lines);
        let mut lines = Lines::default();
        self.works().for_each(|work| work.explain(&self.set, &mut lines));
        add(lines);
        if self.writes_status() {
            actions.push("write the status".to_owned());
        }
        let mut lines = Lines::default();
        for revision in &self.forget {
            lines.push(|| format!("delete revision {}: the history is longer than its limit", revision.meta.name));
        }
        actions.extend(lines.into_vec());
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
