//! The check of a deletion after its Pod has changed.

use jiff::Timestamp;

use crate::{
    objects::{DaemonSet, PodRef},
    plan::{Deletion, Why},
    snapshot::nodes::Criteria,
};

/// Whether the reason for a deletion still applies to the changed Pod. `decided` is the time of the decision.
///
/// Only the fields that led to the deletion are compared, so clients that write annotations or conditions all the time do not
/// prevent it. A Pod that has recovered, or now has another owner or node, is left to the next sync.
pub fn still_holds(
    deletion: &Deletion,
    live: &PodRef,
    set: &DaemonSet,
    criteria: &Criteria,
    decided: Timestamp,
    now: Timestamp,
) -> bool {
    let Deletion { pod: judged, node, why } = deletion;
    let is_same = live.meta().uid == judged.meta().uid
        && live.is_controlled_by(&set.metadata.name, &set.metadata.uid)
        && set.selector.matches(&live.meta().labels)
        && live.target() == node
        && live.hash() == judged.hash()
        && live.template_generation() == judged.template_generation();
    let is_available = criteria.is_available(live, now);
    is_same
        && match why {
            Why::NotEligible | Why::Outdated => true,
            Why::Failed | Why::Succeeded => live.phase == judged.phase,
            Why::Duplicate => live.is_bound() == judged.is_bound(),
            Why::NodeVanished => !live.is_bound(),
            Why::Unavailable => !is_available,
            Why::Replaced => {
                (judged.is_ready() || !live.is_ready()) && (criteria.is_available(judged, decided) || !is_available)
            }
        }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use crate::{
        decide::rolling::criteria,
        world::{PodBuilder, now, pod, read, world},
    };

    use super::*;

    fn holds(why: Why, judged: PodBuilder, live: PodBuilder) -> bool {
        let set: Arc<DaemonSet> = read(&world(0).set);
        let on_node = |pod: PodBuilder| read(&pod.named("p1", "n1"));
        let deletion = Deletion { pod: on_node(judged), node: "n1".into(), why };
        let criteria = criteria(&set, "b", &BTreeSet::new(), 1);
        still_holds(&deletion, &on_node(live), &set, &criteria, now(), now())
    }

    /// DAEMONSET-65.
    #[test]
    fn a_changed_pod_is_deleted_only_if_the_reason_still_applies() {
        use Why::{Duplicate, Failed, NodeVanished, NotEligible, Outdated, Replaced, Succeeded, Unavailable};
        let (unready, failed) = (|| pod().unready(), || pod().phase("Failed"));
        for (why, judged, live, holds_still) in [
            (NotEligible, pod(), unready(), true),
            (NotEligible, unready(), pod(), true),
            (Outdated, pod(), unready(), true),
            (Failed, failed(), failed().label("x", "y"), true),
            (Failed, failed(), pod(), false),
            (Succeeded, pod().phase("Succeeded"), failed(), false),
            (Duplicate, pod(), unready(), true),
            (Duplicate, pod().pending(), pod(), false),
            (NodeVanished, pod().pending(), pod().pending().label("x", "y"), true),
            (NodeVanished, pod().pending(), pod(), false),
            (Unavailable, unready(), unready().label("x", "y"), true),
            (Unavailable, unready(), pod(), false),
            (Replaced, unready(), pod(), false),
            (Replaced, pod(), unready(), true),
            (Replaced, pod(), pod().label("x", "y"), true),
        ] {
            assert_eq!(holds(why, judged.clone(), live.clone()), holds_still, "{why:?} {judged:?} {live:?}");
        }
        for other in [
            pod().label("app", "other"),
            pod().of("b"),
            pod().generation("9"),
            pod().orphan(),
            pod().owner_name("other"),
        ] {
            assert!(!holds(NotEligible, pod(), other.clone()), "{other:?}");
        }
    }
}
