//! Checks whether a Pod that has changed since the snapshot must still be deleted.

use jiff::Timestamp;

use crate::{
    objects::{DaemonSet, SharedPod},
    plan::{DeletionReason, PodDeletion},
    snapshot::nodes::PodCriteria,
};

/// Whether the reason for a deletion still applies to the changed Pod. `decided` is the time of the decision.
///
/// Only the fields that led to the deletion are compared, so clients that write annotations or conditions all the time do not
/// prevent the deletion. A Pod that has recovered, or now has another owner or node, is left to the next sync.
pub fn deletion_reason_still_applies(
    deletion: &PodDeletion,
    live_pod: &SharedPod,
    set: &DaemonSet,
    criteria: &PodCriteria,
    decided: Timestamp,
    now: Timestamp,
) -> bool {
    let PodDeletion { pod, node_name, deletion_reason } = deletion;
    let is_same = live_pod.meta().uid == pod.meta().uid
        && live_pod.is_controlled_by(&set.metadata.name, &set.metadata.uid)
        && set.selector.matches(&live_pod.meta().labels)
        && live_pod.target_node() == node_name
        && live_pod.revision_hash() == pod.revision_hash()
        && live_pod.template_generation() == pod.template_generation();
    let is_available = criteria.is_available(live_pod, now);
    is_same
        && match deletion_reason {
            DeletionReason::NodeNotEligible | DeletionReason::Outdated => true,
            DeletionReason::PodFailed | DeletionReason::PodSucceeded => live_pod.phase == pod.phase,
            DeletionReason::SurplusPod => live_pod.is_bound() == pod.is_bound(),
            DeletionReason::NodeDeleted => !live_pod.is_bound(),
            DeletionReason::OutdatedAndUnavailable => !is_available,
            DeletionReason::OutdatedAndUnneeded => {
                (pod.is_ready() || !live_pod.is_ready()) && (criteria.is_available(pod, decided) || !is_available)
            }
        }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use crate::{
        decide::rolling::pod_criteria,
        world::{PodBuilder, decode_trimmed, now, pod, set_with_pods},
    };

    use super::*;

    fn holds(deletion_reason: DeletionReason, pod: PodBuilder, live_pod: PodBuilder) -> bool {
        let set: Arc<DaemonSet> = decode_trimmed(&set_with_pods(0).set);
        let on_node = |pod: PodBuilder| decode_trimmed(&pod.build_named("p1", "n1"));
        let deletion = PodDeletion { pod: on_node(pod), node_name: "n1".into(), deletion_reason };
        let criteria = pod_criteria(&set, "b", &BTreeSet::new(), 1);
        deletion_reason_still_applies(&deletion, &on_node(live_pod), &set, &criteria, now(), now())
    }

    /// DAEMONSET-65.
    #[test]
    fn a_changed_pod_is_deleted_only_if_the_reason_still_applies() {
        use DeletionReason::{
            NodeDeleted, NodeNotEligible, Outdated, OutdatedAndUnavailable, OutdatedAndUnneeded, PodFailed,
            PodSucceeded, SurplusPod,
        };
        let (unready, failed) = (|| pod().unready(), || pod().phase("Failed"));
        for (why, judged, live, holds_still) in [
            (NodeNotEligible, pod(), unready(), true),
            (NodeNotEligible, unready(), pod(), true),
            (Outdated, pod(), unready(), true),
            (PodFailed, failed(), failed().label("x", "y"), true),
            (PodFailed, failed(), pod(), false),
            (PodSucceeded, pod().phase("Succeeded"), failed(), false),
            (SurplusPod, pod(), unready(), true),
            (SurplusPod, pod().pending(), pod(), false),
            (NodeDeleted, pod().pending(), pod().pending().label("x", "y"), true),
            (NodeDeleted, pod().pending(), pod(), false),
            (OutdatedAndUnavailable, unready(), unready().label("x", "y"), true),
            (OutdatedAndUnavailable, unready(), pod(), false),
            (OutdatedAndUnneeded, unready(), pod(), false),
            (OutdatedAndUnneeded, pod(), unready(), true),
            (OutdatedAndUnneeded, pod(), pod().label("x", "y"), true),
        ] {
            assert_eq!(holds(why, judged.clone(), live.clone()), holds_still, "{why:?} {judged:?} {live:?}");
        }
        for other in [
            pod().label("app", "other"),
            pod().revision_hash("b"),
            pod().template_generation_label("9"),
            pod().orphan(),
            pod().owner_name("other"),
        ] {
            assert!(!holds(NodeNotEligible, pod(), other.clone()), "{other:?}");
        }
    }
}
