//! Scenes: what the loops promise for nodes and Pods, on any cluster.

mod lost_node;
mod node_lifecycle;
mod pod_gc;
mod taint_eviction;
