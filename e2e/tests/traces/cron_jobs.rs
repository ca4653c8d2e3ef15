//! Runs of CronJobs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Step, World, recorded,
    signature::{EventText, Signature},
};

/// What two runs must have in common, minutes aside: each state of the CronJob, its Jobs as created, its Events.
fn story(steps: &[Step]) -> Signature {
    let (mut states, mut story) = (Vec::new(), Signature::default());
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
                story.insert("Jobs as created", format!("{at}: {shape}"));
            }
            "jobs" if step.removed => {
                story.insert("Jobs removed", number(name));
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
                let EventText { about, note, .. } = EventText::of(object);
                if about["kind"] == "CronJob" {
                    let words = note.split_inclusive([' ', ',']);
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
                    story.insert("Events", format!("{} {}: {hidden}", object["type"], object["reason"]));
                }
            }
            _ => {}
        }
    }
    story.set("states", states);
    story
}

#[tokio::test(start_paused = true)]
async fn a_job_every_minute() {
    let steps = recorded("cronjob-every-minute");
    let world = World::at("cronjob-every-minute", "2026-11-21T09:40:45.2Z").await;
    world.create(&steps, "cronjobs").await;
    world.pass(85.0).await;
    story(&world.steps()).assert_same(&story(&steps));
}
