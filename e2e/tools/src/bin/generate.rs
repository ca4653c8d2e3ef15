//! Writes the files that follow from the table of controllers: manifests, lists and the pages of `docs/reference/`.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> ExitCode {
    match tools::generate::write().await {
        Ok(changed) => {
            for path in changed {
                println!("changed: {path}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("generate: the files cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
