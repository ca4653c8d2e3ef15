//! Each process hashes with its own random seed, so that users cannot choose names that collide in its hash maps.

use std::{
    env,
    hash::BuildHasher as _,
    process::{Command, ExitCode},
};

use common::{
    app::{self, ProgramDefinition},
    map::SeededHashState,
};

const PROGRAM: ProgramDefinition = ProgramDefinition {
    name: "hashing-controller",
    version: "1.2.3",
    about: "Hashes a name.",
    loops: &[],
    workers_flags: &[],
    feature_gates: &[],
    tunables: &[],
    single_value_flags: &[],
};

const CHILD: &str = "HASHING_CHILD";

#[test]
fn each_process_hashes_with_its_own_seed() {
    if env::var_os(CHILD).is_some() {
        let code = app::main_with_arguments(&PROGRAM, ["hashing-controller", "--version"].map(str::to_owned));
        assert_eq!(code, ExitCode::SUCCESS);
        println!("\nhash {}", SeededHashState::default().hash_one("shop/web"));
        return;
    }
    // Runs this test in a child process and returns the hash of a name that the child prints.
    let hash_of_a_process = || {
        let mut process = Command::new(env::current_exe().unwrap());
        process.args(["--exact", "each_process_hashes_with_its_own_seed", "--nocapture"]).env(CHILD, "1");
        let output = process.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.lines().find_map(|line| line.strip_prefix("hash ")).unwrap().to_owned()
    };
    assert_ne!(hash_of_a_process(), hash_of_a_process());
}
