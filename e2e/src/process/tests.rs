//! Processes, with programs that are everywhere.

use super::*;

fn shell(script: &str) -> Process {
    Launch::program("sh", Path::new("/bin/sh")).argument("-c").argument(script).start(&Clock::system()).unwrap()
}

#[tokio::test]
async fn a_process_that_ends_by_itself_is_reported_with_its_last_line() {
    let mut process = shell("echo first; echo second >&2; exit 3");
    assert_eq!(process.ended(Duration::from_secs(10)).await.unwrap().code(), Some(3));
    while process.log().len() < 2 {
        tokio::task::yield_now().await;
    }
    let error = process.check().unwrap_err().to_string();
    assert!(error.contains("second") && !error.contains('\n'), "{error}");
    assert!(process.terminate().is_err(), "there is nothing left to signal");
}

#[tokio::test]
async fn a_process_is_stopped_with_sigterm() {
    let process = shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done");
    while process.log().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(process.usage().unwrap().resident > 0);
    assert_eq!(process.stop(Duration::from_secs(10)).await.unwrap().code(), Some(7));
}

#[tokio::test]
async fn a_process_that_will_not_end_is_killed() {
    let process = shell("trap '' TERM; echo up; while :; do sleep 0.01; done");
    while process.log().is_empty() {
        tokio::task::yield_now().await;
    }
    let error = process.stop(Duration::from_millis(200)).await.unwrap_err();
    assert!(error.to_string().starts_with("sh is not ended"), "{error}");
}

#[tokio::test]
async fn a_restarted_process_is_another_one() {
    let mut process = shell("sleep 60");
    let before = process.pid();
    process.restart().unwrap();
    assert_ne!(process.pid(), before);
    process.check().unwrap();
    process.kill().unwrap();
    process.ended(Duration::from_secs(10)).await.unwrap();
}

#[tokio::test]
async fn a_witness_tells_of_an_end_that_nobody_wanted() {
    let mut wanted = shell("echo up; exec sleep 60");
    let unwanted = shell("echo bad; echo luck; exit 3");
    let (of_wanted, of_unwanted) = (wanted.witness(), unwanted.witness());
    let told = loop {
        match of_unwanted.ended().filter(|_| unwanted.log().len() == 2) {
            Some(told) => break told,
            None => tokio::task::yield_now().await,
        }
    };
    assert!(told.0.to_string().contains("exit status: 3"), "{}", told.0);
    assert_eq!(told.1, ["bad", "luck"]);
    assert!(of_wanted.ended().is_none());
    wanted.kill().unwrap();
    wanted.ended(Duration::from_secs(10)).await.unwrap();
    assert!(of_wanted.ended().is_none());
    drop(unwanted);
    assert!(of_unwanted.ended().is_none(), "a dropped process is killed, and its end is expected");
}
