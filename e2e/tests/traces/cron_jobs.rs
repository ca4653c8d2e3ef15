//! Runs of CronJobs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Replay, Step,
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
        let (object, name) = (&step.object, step.name());
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
                let job = |job: &Value| {
                    json!([
                        job["kind"],
                        job["apiVersion"],
                        number(job["name"].as_str().unwrap()),
                        job["uid"].is_string()
                    ])
                };
                let active: Vec<Value> = status["active"].as_array().into_iter().flatten().map(job).collect();
                let times = ["lastScheduleTime", "lastSuccessfulTime"].map(|field| status[field].is_string());
                // Each state counts, also one that repeats the last.
                states.push(format!("{} {times:?}", json!(active)));
            }
            "events" => {
                let EventText { about, note, .. } = EventText::of(object);
                if about["kind"] == "CronJob" {
                    let word = |word: &str| {
                        let bare = word.trim_end_matches([' ', ',']);
                        let is_job = bare.starts_with("tick-");
                        if is_job { word.replace(bare, &number(bare).to_string()) } else { word.to_owned() }
                    };
                    let hidden: String = note.split_inclusive([' ', ',']).map(word).collect();
                    story.insert("Events", format!("{} {}: {hidden}", object["type"], object["reason"]));
                }
            }
            _ => {}
        }
    }
    story.set("states", states.join("\n"));
    story
}

#[tokio::test(start_paused = true)]
async fn a_job_every_minute() {
    let replay = Replay::at("cronjob-every-minute", "2026-11-21T09:40:45.2Z").await;
    replay.create("cronjobs", 85.0).await;
    replay.compare(story);
}
