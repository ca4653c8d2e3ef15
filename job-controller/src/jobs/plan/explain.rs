//! Explanations of a plan, for `/debug/explain`.

use std::{fmt, time::Duration};

use common::controller::Explain;

use super::{Gang, LeftAlone, Manage, OwnPod, Plan, Situation, SyncPlan};

/// The maximal number of Pods that an explanation lists by name.
const NAMED: usize = 10;

impl Explain for Plan {
    fn situation(&self) -> String {
        let job = &self.job;
        let wanted = match job.completions {
            Some(completions) if job.is_indexed() => format!("{completions} indexes"),
            Some(completions) => format!("{completions} completions"),
            None => "any completion".to_owned(),
        };
        let numbers = self.sync.as_ref().map_or_else(|_| String::new(), |sync| format!(": {}", sync.situation));
        format!("{wanted} wanted, {} Pods at once{numbers}", job.parallelism)
    }

    fn waiting(&self) -> Vec<String> {
        let SyncPlan { situation: s, gang, manage, managed, .. } = match &self.sync {
            Ok(sync) => sync,
            Err(LeftAlone::Finished) => return Vec::new(),
            Err(why) => return vec![format!("the Job is not synced: {why}")],
        };
        let mut out = Vec::new();
        match manage {
            Manage::NotAllowed(why) => out.push(format!("Pods are neither created nor deleted: {why}")),
            Manage::Deleting => out.push("the Job is terminating: the garbage collector deletes its Pods".to_owned()),
            Manage::Postpone { missing, wait } => {
                out.push(format!(
                    "{missing} Pods are missing, the next is created in {} because of failures",
                    seconds(*wait)
                ));
            }
            Manage::Create { wait: Some(wait), .. } => {
                out.push(format!("a failed index gets its next Pod in {}", seconds(*wait)));
            }
            Manage::Suspend(_) => out.push("the Job is suspended".to_owned()),
            Manage::NoIndexLeft { missing } => {
                out.push(format!("{missing} Pods are missing, but no index is left for them"));
            }
            _ => {}
        }
        if let Some(end) = &managed.end_to_write {
            if managed.terminating > 0 {
                let (terminal, count) = (end.terminal(), managed.terminating);
                out.push(format!("{terminal} ({}) once {count} terminating Pods have finished", end.reason));
            }
        } else if !s.active.is_empty() {
            out.push(format!("{} Pods are still active", s.active.len()));
        }
        if self.job.only_replaces_failed() && s.terminating > 0 && managed.end_to_write.is_none() {
            out.push(format!("{} terminating Pods are replaced once they have finished", s.terminating));
        }
        if let Gang::Ordinary(Some(why)) = gang {
            out.push(format!("Pods are scheduled one by one, not as a gang: {why}"));
        }
        out.extend(self.lying(&s.pods));
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.sync.as_ref().ok()?.requeue_after
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} succeeded, {} failed", self.succeeded, self.failed)?;
        if let Some(failed) = &self.failed_indexes {
            write!(f, ", {} indexes failed", failed.len())?;
        }
        let Self { active, ready, terminating, .. } = self;
        write!(f, "; {} Pods active, {ready} ready, {terminating} terminating", active.len())
    }
}

impl Plan {
    /// Describes the Pods of an Indexed Job that are not counted because their index is invalid; `None` without such Pods.
    fn lying(&self, pods: &[OwnPod]) -> Option<String> {
        if !self.job.is_indexed() {
            return None;
        }
        let wrong = |c: &&OwnPod| c.tracked && !self.job.has_index_of(&c.pod);
        let names: Vec<&str> = pods.iter().filter(wrong).map(|c| &*c.pod.meta().name).collect();
        let more = if names.len() > NAMED { ", ..." } else { "" };
        let shown = names[..names.len().min(NAMED)].join(", ");
        (!names.is_empty()).then(|| format!("Pods without a valid index are not counted: {shown}{more}"))
    }
}

/// Formats a wait in whole seconds, rounded up.
pub(crate) fn seconds(wait: Duration) -> String {
    format!("{}s", wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}
