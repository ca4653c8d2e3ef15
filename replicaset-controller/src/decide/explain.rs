//! What a plan says about itself.

use std::time::Duration;

use common::{conditions, controller::Explain};

use super::{Failing, Manage, Plan, PodRef, failure::REPLICA_FAILURE};

impl Explain for Plan {
    fn situation(&self) -> String {
        let s = &self.status;
        let terminating = s.terminating_replicas.map_or_else(String::new, |n| format!(", {n} terminating"));
        format!(
            "{} Pods wanted: {} active, {} ready, {} available{terminating}",
            self.set.replicas, s.replicas, s.ready_replicas, s.available_replicas
        )
    }

    fn waiting(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(problem) = self.set.selector.problem() {
            return vec![problem.to_string()];
        }
        match &self.manage {
            Manage::NotAllowed(why) => out.push(format!("Pods are neither created nor deleted: {why}")),
            Manage::Impossible(problem) => out.push(format!("no Pod can be created: {problem}")),
            Manage::Later(Failing { pods, left }) => {
                out.push(format!("{pods} Pods failed without ever being ready: next creation in {}", seconds(*left)));
            }
            Manage::Nothing | Manage::Create { .. } | Manage::Delete { .. } => {}
        }
        let s = &self.status;
        let unready = s.replicas - s.ready_replicas;
        if unready > 0 {
            let more = if self.unready.len() < unready.unsigned_abs() as usize { ", ..." } else { "" };
            let names: Vec<&str> = self.unready.iter().map(name).collect();
            out.push(format!("{unready} of {} Pods are not ready: {}{more}", s.replicas, names.join(", ")));
        }
        if let Some(wait) = self.available_in {
            let early = s.ready_replicas - s.available_replicas;
            out.push(format!("{early} ready Pods are not available yet, the next in {}", seconds(wait)));
        }
        // The stored one: the planned one does not know yet how it will go.
        if let Some(c) = conditions::get(&self.set.status.conditions, REPLICA_FAILURE) {
            out.push(format!("{}: {}", c.reason, c.message));
        }
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

fn name(pod: &PodRef) -> &str {
    &pod.meta().name
}

fn seconds(wait: Duration) -> String {
    format!("{}s", wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}
