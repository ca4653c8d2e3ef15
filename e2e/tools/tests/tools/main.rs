//! The playground as people start it, and the files that `generate` writes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod add_a_controller;
mod playground;

#[tokio::test(start_paused = true)]
async fn written_files_are_those_of_the_code() {
    let outdated = tools::generate::outdated().await.unwrap();
    let command = tools::generate::COMMAND;
    assert!(outdated.is_empty(), "run `{command}`: these files differ from the code: {}", outdated.join(", "));
}
