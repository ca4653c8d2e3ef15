//! Scenes: what the loops promise for Services and Endpoints, on any cluster.

mod endpointslice;
mod endpointslice_mirroring;
