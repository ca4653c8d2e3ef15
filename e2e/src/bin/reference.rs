//! Writes the reference pages of `docs/reference/` from the definitions of the controllers.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> ExitCode {
    match e2e::reference::write().await {
        Ok(written) => {
            for path in written {
                println!("written: {path}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("reference: the pages cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
