//! What a plan says about itself.

use std::time::Duration;

use common::controller::Explain;

use super::{Claimed, Gang, LeftAlone, Manage, Plan};

/// How many Pods are named one by one.
const NAMED: usize = 10;

impl Explain for Plan {
    fn situation(&self) -> String {
        let (job, s) = (&self.job, &self.situation);
        let wanted = match job.completions {
            Some(completions) if job.is_indexed() => format!("{completions} indexes"),
            Some(completions) => format!("{completions} completions"),
            None => "any completion".to_owned(),
        };
        let given_up = s.given_up.as_ref().map_or_else(String::new, |set| format!(", {} indexes given up", set.len()));
        format!(
            "{wanted} wanted, {} Pods at once: {} succeeded, {} failed{given_up}; {} Pods active, {} ready, {} terminating",
            job.parallelism,
            s.succeeded,
            s.failed,
            s.active.len(),
            s.ready,
            s.terminating
        )
    }

    fn waiting(&self) -> Vec<String> {
        match &self.left_alone {
            Some(LeftAlone::Finished) => return Vec::new(),
            Some(why) => return vec![format!("the Job is left alone: {why}")],
            None => {}
        }
        let mut out = Vec::new();
        match &self.manage {
            Manage::NotAllowed(why) => out.push(format!("Pods are neither created nor deleted: {why}")),
            Manage::Deleting => out.push("the Job is being deleted, its Pods are the garbage collector's".to_owned()),
            Manage::Postpone { missing, wait } => {
                out.push(format!(
                    "{missing} Pods are missing, the next is created in {}: Pods failed before",
                    seconds(*wait)
                ));
            }
            Manage::Create { wait: Some(wait), .. } => {
                out.push(format!("an index that failed before gets its next Pod in {}", seconds(*wait)));
            }
            Manage::Suspend(_) => out.push("the Job is suspended".to_owned()),
            Manage::NoIndexLeft { missing } => {
                out.push(format!("{missing} Pods are missing, and there is no index left for them"));
            }
            _ => {}
        }
        let s = &self.situation;
        if let Some(end) = &self.tracked.end {
            if self.tracked.terminating > 0 {
                let (terminal, count) = (end.terminal(), self.tracked.terminating);
                out.push(format!("{terminal} ({}) as soon as {count} terminating Pods are gone", end.reason));
            }
        } else if !s.active.is_empty() {
            out.push(format!("{} Pods are still active", s.active.len()));
        }
        if self.job.only_replaces_failed() && s.terminating > 0 && self.tracked.end.is_none() {
            out.push(format!("{} terminating Pods are replaced once they are over", s.terminating));
        }
        if let Gang::Ordinary(Some(why)) = &self.gang {
            out.push(format!("Pods are scheduled one by one, not as a gang: {why}"));
        }
        out.extend(self.lying());
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

impl Plan {
    /// Pods of an Indexed Job that name no index that there is, and so count for nothing.
    fn lying(&self) -> Option<String> {
        if !self.job.is_indexed() {
            return None;
        }
        let wrong = |c: &&Claimed| c.tracked && !self.job.has_index_of(&c.pod);
        let names: Vec<&str> = self.situation.pods.iter().filter(wrong).map(|c| &*c.pod.meta().name).collect();
        let more = if names.len() > NAMED { ", ..." } else { "" };
        let shown = names[..names.len().min(NAMED)].join(", ");
        (!names.is_empty()).then(|| format!("Pods that name no index of this Job count for nothing: {shown}{more}"))
    }
}

fn seconds(wait: Duration) -> String {
    format!("{}s", wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}
