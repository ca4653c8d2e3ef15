//! Command-line flags of the node monitor, with upstream's defaults where upstream has the flag.

use std::time::Duration;

use common::settings::{Tunable, TunableValue};

pub(crate) const NODE_MONITOR_PERIOD: Tunable = Tunable::of_duration(
    "node-monitor-period",
    Duration::from_secs(5),
    "The pause between two passes of the node monitor, at least 10ms",
);
pub(crate) const NODE_MONITOR_GRACE_PERIOD: Tunable = Tunable::of_duration(
    "node-monitor-grace-period",
    Duration::from_secs(50),
    "How long a node may be silent before its conditions become Unknown; several times the interval between two status reports of the kubelet",
);
pub(crate) const NODE_STARTUP_GRACE_PERIOD: Tunable = Tunable::of_duration(
    "node-startup-grace-period",
    Duration::from_secs(60),
    "How long a node that has never reported its status may be silent before its conditions become Unknown",
);
pub(crate) const NODE_EVICTION_RATE: Tunable = Tunable {
    name: "node-eviction-rate",
    default_value: TunableValue::Ratio(0.1),
    help: "Nodes per second that get a NoExecute taint in a zone that is not partially disrupted",
};
pub(crate) const SECONDARY_NODE_EVICTION_RATE: Tunable = Tunable {
    name: "secondary-node-eviction-rate",
    default_value: TunableValue::Ratio(0.01),
    help: "Nodes per second that get a NoExecute taint in a large zone that is partially disrupted; none in other zones that are partially disrupted",
};
pub(crate) const LARGE_CLUSTER_SIZE_THRESHOLD: Tunable = Tunable {
    name: "large-cluster-size-threshold",
    default_value: TunableValue::Integer(50),
    help: "A zone with more nodes than this is large",
};
pub(crate) const UNHEALTHY_ZONE_THRESHOLD: Tunable = Tunable {
    name: "unhealthy-zone-threshold",
    default_value: TunableValue::Ratio(0.55),
    help: "Share of nodes that are not ready at which a zone becomes partially disrupted, if these are at least 3 nodes",
};
pub(crate) const NODE_TAINT_ALARM_SHARE: Tunable = Tunable {
    name: "node-taint-alarm-share",
    default_value: TunableValue::Ratio(0.55),
    help: "Share of all nodes that have a NoExecute taint of the node monitor or wait for one, above which an Event is recorded before the next node is tainted; between 0 and 1, 0: never",
};
pub(crate) const NODE_TAINT_MAX_SHARE: Tunable = Tunable {
    name: "node-taint-max-share",
    default_value: TunableValue::Ratio(0.0),
    help: "Upper limit for the share of all nodes that have a NoExecute taint of the node monitor; between 0 and 1, 0: no limit",
};
