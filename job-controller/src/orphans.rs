//! Pods that carry the tracking finalizer and that no Job counts any more: it is taken off, or they could never go.
//!
//! A loop of its own beside that of the Jobs, with a queue and workers of its own (`job_orphan_pod`).

use std::{fmt, sync::Arc};

use common::{
    controller::{Explain, Observed, Requeue, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    intern::Text,
    meta::{Meta, Uid},
    queue::QueueKey,
    sequence::{Failed, Pace, Sequence, Step, Steps, members},
    store::{ByController, IndexValue},
};
use jiff::Timestamp;

use crate::{
    JobController,
    decide::PodRef,
    objects::{CachedPod, JOBS},
    sequence::{Note, pods::Untrack},
};

/// What to look at: one Pod, or all Pods of one Job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Orphan {
    /// The Pod of that name.
    Pod {
        /// Its namespace.
        namespace: Text,
        /// Its name.
        name: Arc<str>,
    },
    /// The Pods that the Job with that uid controls, or controlled.
    Job {
        /// Its namespace.
        namespace: Text,
        /// Its name.
        name: Text,
        /// Its uid.
        uid: Uid,
    },
}

impl Orphan {
    pub(crate) fn pod(meta: &Meta) -> Self {
        Self::Pod { namespace: meta.namespace.clone(), name: Arc::clone(&meta.name) }
    }

    pub(crate) fn job(namespace: &Text, name: &str, uid: &Uid) -> Self {
        Self::Job { namespace: namespace.clone(), name: Text::new(name), uid: uid.clone() }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, name } => write!(f, "{namespace}/{name}"),
            Self::Job { namespace, name, uid } => write!(f, "{namespace}/{name}/{uid}"),
        }
    }
}

impl QueueKey for Orphan {
    fn parse(text: &str) -> Option<Self> {
        let (namespace, rest) = text.split_once('/')?;
        let namespace = Text::new(namespace);
        match rest.split_once('/') {
            Some((name, uid)) => Some(Self::Job { namespace, name: Text::new(name), uid: Uid::new(uid) }),
            None if rest.is_empty() => None,
            None => Some(Self::Pod { namespace, name: Arc::from(rest) }),
        }
    }

    fn tenant(&self) -> &str {
        match self {
            Self::Pod { namespace, .. } | Self::Job { namespace, .. } => namespace,
        }
    }
}

/// The loop. It reads the caches of the loop of Jobs.
pub(crate) struct OrphanController(pub(crate) Arc<JobController>);

/// The Pods whose finalizer is to go.
#[derive(Clone, Debug, Default)]
pub struct Strip {
    pods: Vec<PodRef>,
}

impl Explain for Strip {
    fn situation(&self) -> String {
        format!("{} Pods carry the finalizer and have no Job that counts them", self.pods.len())
    }
}

/// Takes the finalizer off every Pod. Every one is tried before the first failure is told.
fn sequence(plan: &Strip) -> impl Sequence<Note> + use<> {
    let untracks: Vec<Untrack> = plan.pods.iter().map(Untrack::of_orphan).collect();
    Steps::new(untracks, |_: &mut Vec<Untrack>, _| {
        Step::All(
            |untracks| members(untracks),
            Pace::AtOnce,
            |untracks, turn| {
                let failed = untracks.iter().find_map(|untrack| {
                    let what = || format!("removing the finalizer of orphaned pod {}", untrack.pod.meta().key());
                    untrack.refusal().map(|refusal| Failed::request(&what(), refusal))
                });
                turn.end(failed.map_or(Ok(Requeue::No), Err));
                Step::Done
            },
        )
    })
}

impl OrphanController {
    /// Whether a Pod carries the finalizer and no Job counts it any more. Upstream: `pkg/controller/job`,
    /// `handleSingleOrphanPod`.
    fn is_left(&self, pod: &CachedPod) -> bool {
        if !pod.tracked {
            return false;
        }
        let Some(owner) = pod.meta().controller() else { return true };
        if owner.kind != JOBS.kind || owner.api_version.split('/').next() != Some(JOBS.group) {
            return false;
        }
        !self.counts(&pod.meta().namespace, &owner.name, &owner.uid)
    }

    /// Whether there is a Job with that uid which counts its Pods, here or with whoever manages it. One that cannot be read
    /// may be such a one.
    fn counts(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        let jobs = self.0.jobs.store();
        match jobs.get(namespace, name) {
            Ok(Some(job)) => job.metadata.uid == *uid && (job.managed_by.is_some() || !job.is_finished()),
            Ok(None) => false,
            Err(_) => jobs.peek(namespace, name, |meta| meta.uid == *uid).unwrap_or(false),
        }
    }
}

impl Sequenced for OrphanController {
    type Key = Orphan;
    type Snapshot = Strip;
    type Plan = Strip;
    type Note = Note;

    fn observe(&self, key: &Orphan, _: Timestamp) -> Result<Observed<Strip>, Failed> {
        let store = self.0.pods.store();
        let mut pods = match key {
            Orphan::Pod { namespace, name } => store.get_readable(namespace, name).into_iter().collect(),
            Orphan::Job { namespace, uid, .. } => {
                // Finalizers that were removed just now are not removed again.
                if let Some(behind) = self.0.behind(namespace, uid) {
                    return Ok(Observed::behind(behind));
                }
                let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
                store.readable_by_index(ByController, &owner)
            }
        };
        pods.retain(|pod| self.is_left(pod));
        if let Orphan::Job { namespace, name, uid } = key
            && !self.counts(namespace, name, uid)
        {
            self.0.memory.forget(uid);
            self.0.ledger.forget(uid);
        }
        Ok(if pods.is_empty() { Observed::Gone } else { Observed::Ready(Strip { pods }) })
    }

    fn decide(strip: &Strip) -> Strip {
        strip.clone()
    }

    fn sequence<'a>(_: &'a Strip, plan: &'a Strip) -> impl Sequence<Note> + 'a {
        sequence(plan)
    }

    fn object(_: &Strip) -> (ObjectRef, Uid) {
        // Nothing is told, and nothing is noted: the Job is none of this process, or gone.
        (ObjectRef::default(), Uid::default())
    }

    fn note(&self, _: &Strip, _: Note) {}

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        Sequenced::informers(&*self.0)
    }
}
