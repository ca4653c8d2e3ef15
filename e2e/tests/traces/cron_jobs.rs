//! Runs of CronJobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Step, World, recorded};

/// What two runs must have in common, minutes aside: each state of the CronJob, its Jobs as created, its Events.
fn story(steps: &[Step]) -> (Vec<String>, BTreeMap<&'static str, BTreeSet<String>>) {
    let (mut states, mut sets) = (Vec::new(), BTreeMap::<_, BTreeSet<String>>::new());
    let mut jobs: BTreeMap<String, usize> = BTreeMap::new();
    let mut number = |name: &str| {
        let next = jobs.len() + 1;
        *jobs.entry(name.to_owned()).or_insert(next)
    };
    for step in steps {
        let object = &step.object;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match step.resource.as_str() {
            "jobs" if step.created => {
                let at = number(name);
                let meta = &object["metadata"];
                let scheduled = &meta["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
                let scheduled: jiff::Timestamp = scheduled.as_str().unwrap().parse().unwrap();
                assert_eq!(name, format!("tick-{}", scheduled.as_second() / 60));
                let mut owner = meta["ownerReferences"][0].clone();
                owner["uid"].take();
                let shape = json!({"labels": meta["labels"], "note": meta["annotations"]["a"], "owner": owner,
                    "template": object["spec"]["template"]["spec"], "limit": object["spec"]["backoffLimit"]});
                sets.entry("Jobs as created").or_default().insert(format!("{at}: {shape}"));
            }
            "jobs" if step.removed => {
                sets.entry("Jobs removed").or_default().insert(number(name).to_string());
            }
            "cronjobs" => {
                let status = &object["status"];
                let active = status["active"].as_array().cloned().unwrap_or_default();
                let shown: Vec<Value> = active
                    .iter()
                    .map(|r| {
                        json!([r["kind"], r["apiVersion"], number(r["name"].as_str().unwrap()), r["uid"].is_string()])
                    })
                    .collect();
                let times = ["lastScheduleTime", "lastSuccessfulTime"].map(|field| status[field].is_string());
                states.push(format!("{} {times:?}", json!(shown)));
            }
            "events" => {
                let about =
                    if object["regarding"].is_object() { &object["regarding"] } else { &object["involvedObject"] };
                if about["kind"] == "CronJob" {
                    let note = if object["note"].is_string() { &object["note"] } else { &object["message"] };
                    let words = note.as_str().unwrap_or_default().split_inclusive([' ', ',']);
                    let hidden: String = words
                        .map(|word| {
                            let bare = word.trim_end_matches([' ', ',']);
                            if bare.starts_with("tick-") {
                                word.replace(bare, &number(bare).to_string())
                            } else {
                                word.to_owned()
                            }
                        })
                        .collect();
                    let line = format!("{} {}: {hidden}", object["type"], object["reason"]);
                    sets.entry("Events").or_default().insert(line);
                }
            }
            _ => {}
        }
    }
    (states, sets)
}

#[tokio::test(start_paused = true)]
async fn a_job_every_minute() {
    let steps = recorded("cronjob-every-minute");
    let world = World::at("cronjob-every-minute", "2026-11-21T09:40:45.2Z").await;
    world.create(&steps, "cronjobs").await;
    world.pass(85.0).await;
    assert_eq!(story(&world.steps()), story(&steps));
}
