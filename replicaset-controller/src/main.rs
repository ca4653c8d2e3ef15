//! ReplicaSets and ReplicationControllers as a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&replicaset_controller::DEFINITION)
}
