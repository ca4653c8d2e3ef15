//! The binary of the ReplicaSet and ReplicationController controllers.

use std::process::ExitCode;

fn main() -> ExitCode {
    common::app::main(&replicaset_controller::DEFINITION)
}
