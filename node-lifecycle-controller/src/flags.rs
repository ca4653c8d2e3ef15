//! The flags of the node monitor.

use std::time::Duration;

use common::settings::{Tune, TuneValue};

/// The pause between two passes.
pub(crate) const NODE_MONITOR_PERIOD: Tune = Tune::duration(
    "node-monitor-period",
    Duration::from_secs(5),
    "The pause between two passes of the node monitor, at least 10ms",
);
/// How long a node that has reported a status may be silent.
pub(crate) const NODE_MONITOR_GRACE_PERIOD: Tune = Tune::duration(
    "node-monitor-grace-period",
    Duration::from_secs(50),
    "How long a node may be silent before its conditions become Unknown; several times what its kubelet lets pass between two reports",
);
/// How long a node that has never reported a status may be silent.
pub(crate) const NODE_STARTUP_GRACE_PERIOD: Tune = Tune::duration(
    "node-startup-grace-period",
    Duration::from_secs(60),
    "How long a node that has never reported its status may be silent before its conditions become Unknown",
);
/// The rate of tainting in zones that are not partially disrupted.
pub(crate) const NODE_EVICTION_RATE: Tune = Tune {
    name: "node-eviction-rate",
    default: TuneValue::Ratio(0.1),
    help: "Nodes of a zone that get a NoExecute taint a second, while the zone is not partially disrupted",
};
/// The rate of tainting in large zones that are partially disrupted.
pub(crate) const SECONDARY_NODE_EVICTION_RATE: Tune = Tune {
    name: "secondary-node-eviction-rate",
    default: TuneValue::Ratio(0.01),
    help: "Nodes of a zone that get a NoExecute taint a second, while the zone is partially disrupted; none if it is not large",
};
/// The size above which a zone is large.
pub(crate) const LARGE_CLUSTER_SIZE_THRESHOLD: Tune = Tune {
    name: "large-cluster-size-threshold",
    default: TuneValue::Integer(50),
    help: "A zone with more nodes than this is large",
};
/// The share of nodes that makes a zone partially disrupted.
pub(crate) const UNHEALTHY_ZONE_THRESHOLD: Tune = Tune {
    name: "unhealthy-zone-threshold",
    default: TuneValue::Ratio(0.55),
    help: "Share of nodes that are not ready, at least 3, from which on a zone is partially disrupted",
};
/// The share of tainted nodes that is announced.
pub(crate) const NODE_TAINT_ALARM_SHARE: Tune = Tune {
    name: "node-taint-alarm-share",
    default: TuneValue::Ratio(0.55),
    help: "When a larger share of all nodes than this has a NoExecute taint of the node monitor or waits for one, an Event says so before the next node is tainted; between 0 and 1, 0: never",
};
/// The share of tainted nodes that is never exceeded.
pub(crate) const NODE_TAINT_MAX_SHARE: Tune = Tune {
    name: "node-taint-max-share",
    default: TuneValue::Ratio(0.0),
    help: "No node gets a NoExecute taint of the node monitor if a larger share of all nodes than this would then have one; between 0 and 1, 0: no limit",
};
