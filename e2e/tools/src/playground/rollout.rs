//! The progress of a rollout.

use common::{conditions, meta::NamespacedName};
use jiff::Timestamp;

use super::world::{Bounds, Census, Deployment, World};

/// The phase of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The controller has not observed the last change of the Deployment.
    Unseen,
    /// In progress.
    Progressing,
    /// Paused by the user.
    Paused,
    /// Every Pod is of the newest template and available.
    Complete,
    /// Failed, with the message of the condition.
    Failed(String),
}

impl Phase {
    /// One word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Unseen => "pending",
            Self::Progressing => "rolling",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Failed(_) => "failed",
        }
    }
}

/// One ReplicaSet of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) revision: i64,
    pub(super) image: String,
    pub(super) size: i32,
    pub(super) pods: Census,
}

impl Part {
    /// Whether it has Pods or a size above zero.
    pub(super) fn is_visible(&self) -> bool {
        self.size > 0 || self.pods != Census::default()
    }
}

/// A Deployment's rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rollout {
    pub(super) key: NamespacedName,
    pub(super) revision: String,
    pub(super) image: String,
    pub(super) wanted: i32,
    pub(super) bounds: Option<Bounds>,
    pub(super) phase: Phase,
    /// Pods of the newest template.
    pub(super) new: Census,
    /// Pods of all others.
    pub(super) old: Census,
    /// ReplicaSets, newest template first.
    pub(super) parts: Vec<Part>,
}

impl Rollout {
    /// The rollout of one Deployment, from the present objects.
    pub(super) fn of(world: &World, key: &NamespacedName, deployment: &Deployment, now: Timestamp) -> Self {
        let part = |set: &&super::world::ReplicaSet| Part {
            name: set.metadata.name.to_string(),
            revision: set.revision(),
            image: set.image().to_owned(),
            size: set.replicas(),
            pods: world.census(set, now),
        };
        let parts: Vec<Part> = world.sets_of(deployment).iter().map(part).collect();
        let image = deployment.image();
        // The newest revision is that of the current template once the controller has observed the Deployment.
        let (new, old): (Vec<&Part>, Vec<&Part>) =
            parts.iter().partition(|p| p.revision.to_string() == deployment.revision() && p.image == image);
        let sum = |parts: &[&Part]| parts.iter().map(|p| p.pods).fold(Census::default(), std::ops::Add::add);
        Self {
            key: key.clone(),
            revision: deployment.revision().to_owned(),
            image: image.to_owned(),
            wanted: deployment.replicas(),
            bounds: deployment.bounds(),
            phase: phase(deployment),
            new: sum(&new),
            old: sum(&old),
            parts,
        }
    }

    /// All Pods.
    pub(super) fn pods(&self) -> Census {
        self.new + self.old
    }

    /// Numbers in one line.
    pub(super) fn line(&self) -> String {
        let (new, all) = (self.new, self.pods());
        let states = all.line();
        let states = if states.is_empty() { "none" } else { &states };
        let revision = if self.revision.is_empty() { "-" } else { &self.revision };
        let mut line = format!(
            "revision {revision} {}: new {}/{}, old {}, ready {}, available {} | Pods: {states}",
            self.phase.word(),
            new.active(),
            self.wanted,
            self.old.active(),
            all.ready + all.available,
            all.available,
        );
        if let Phase::Failed(why) = &self.phase {
            line.push_str(" | ");
            line.push_str(why);
        }
        line
    }
}

/// Upstream: `kubectl rollout status`, and `DeploymentComplete` of the controller.
fn phase(deployment: &Deployment) -> Phase {
    let status = &deployment.status;
    if status.observed_generation < deployment.metadata.generation || deployment.revision().is_empty() {
        return Phase::Unseen;
    }
    let wanted = deployment.replicas();
    if status.updated_replicas == wanted && status.replicas == wanted && status.available_replicas == wanted {
        return Phase::Complete;
    }
    if deployment.spec.paused {
        return Phase::Paused;
    }
    match conditions::get(&status.conditions, "Progressing") {
        Some(c) if c.status == conditions::FALSE => Phase::Failed(c.message.to_string()),
        _ => Phase::Progressing,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    use super::*;

    /// A Deployment of three whose status was written for its second generation.
    fn deployment(generation: i64, updated: i32, change: impl FnOnce(&mut Value)) -> Deployment {
        let mut object = json!({
            "metadata": {"name": "web", "generation": generation, "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": {"replicas": 3},
            "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": updated, "availableReplicas": 3},
        });
        change(&mut object);
        Deployment::deserialize(&object).unwrap()
    }

    #[test]
    fn a_rollout_is_where_status_and_conditions_say() {
        assert_eq!(phase(&deployment(2, 3, |_| ())), Phase::Complete);
        assert_eq!(phase(&deployment(3, 3, |_| ())), Phase::Unseen);
        assert_eq!(phase(&deployment(2, 1, |_| ())), Phase::Progressing);
        assert_eq!(phase(&deployment(2, 1, |d| d["spec"]["paused"] = true.into())), Phase::Paused);
        let failed = deployment(2, 1, |d| {
            d["status"]["conditions"] = json!([{"type": "Progressing", "status": "False", "message": "too late"}]);
        });
        assert_eq!(phase(&failed), Phase::Failed("too late".to_owned()));
    }

    #[test]
    fn bounds_round_surge_up_and_unavailable_down() {
        let bounds = |strategy: Value| deployment(2, 3, |d| d["spec"]["strategy"] = strategy).bounds();
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "50%"}});
        assert_eq!(bounds(rolling), Some(Bounds { most: 4, least: 2 }));
        assert_eq!(bounds(json!({"type": "Recreate"})), Some(Bounds { most: 3, least: 0 }));
        assert_eq!(bounds(json!({"rollingUpdate": {"maxSurge": "x%"}})), None);
    }
}
