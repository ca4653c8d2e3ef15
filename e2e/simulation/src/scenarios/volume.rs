//! Storage in use, and ephemeral claims: the suite, and what users do at any moment.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    interferences::{at_once, later, one_of},
    volume_invariants::{CLAIMS, INVARIANTS, PODS, PROMISES},
};
use crate::{
    json::{is_deleting, name},
    scenario::{Deeds, Interference, Suite, Target, What},
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "volume",
    programs: &[&volume_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("volume.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "mount", act: mount },
        Interference { name: "delete-claim", act: delete_claim },
        Interference { name: "delete-mounted-claim", act: delete_mounted_claim },
        Interference { name: "strip", act: strip },
        Interference { name: "delete-pod", act: delete_pod },
    ],
};

fn one_claim(world: &World, luck: u64) -> Option<String> {
    let claims = world.list(CLAIMS).filter(|claim| !is_deleting(claim));
    one_of(claims.map(|claim| name(claim).to_owned()).collect(), luck)
}

/// Returns a Pod on a node that uses a claim.
fn user_of(claim: &str, luck: u64) -> (String, Value) {
    let pod = format!("late-{}", luck % 1000);
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    let spec = json!({"nodeName": "node-2", "containers": [{"name": "c", "image": "img:1"}], "volumes": [volume]});
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec});
    (pod, object)
}

/// A Pod with a node uses a claim for a minute.
fn mount(world: &World, luck: u64) -> Deeds {
    let (pod, object) = user_of(&one_claim(world, luck)?, luck);
    later(What::Create(object), 60, What::delete(PODS, &pod))
}

fn delete_claim(world: &World, luck: u64) -> Deeds {
    at_once([What::delete(CLAIMS, &one_claim(world, luck)?)])
}

/// A Pod with a node uses a claim that is deleted at the same time.
fn delete_mounted_claim(world: &World, luck: u64) -> Deeds {
    let claim = one_claim(world, luck)?;
    let (pod, object) = user_of(&claim, luck);
    let mut deeds = at_once([What::Create(object), What::delete(CLAIMS, &claim)])?;
    deeds.push((Duration::from_secs(60), What::delete(PODS, &pod)));
    Some(deeds)
}

/// A user removes the finalizers of a claim that is not terminating.
fn strip(world: &World, luck: u64) -> Deeds {
    let claim = Target::new(CLAIMS, &one_claim(world, luck)?);
    at_once([What::Merge(claim, json!({"metadata": {"finalizers": null}}))])
}

fn delete_pod(world: &World, luck: u64) -> Deeds {
    let pods = world.list(PODS).filter(|pod| !is_deleting(pod));
    at_once([What::delete(PODS, &one_of(pods.map(|pod| name(pod).to_owned()).collect(), luck)?)])
}
