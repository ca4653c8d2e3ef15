use common::{informer::Sink as _, partial_object::PartialObject};
use serde_json::{Value, json};

use super::*;
use crate::{
    objects::{CountedObject, DeviceClass, Pod, ResourceClaim},
    tally::{Tally, TallySink},
    world::{GATES, entry},
};

/// Returns a tally of these objects.
fn tally<K: CountedObject>(objects: &[Value]) -> Arc<Tally> {
    let tally = Arc::new(Tally::new(GATES, |_, _| ()));
    tally.add_namespace(&"shop".into());
    let sink = TallySink::<K>::new(Arc::clone(&tally), None);
    let mut set = sink.begin_set();
    for object in objects {
        sink.add_to_set(&mut set, entry(object), ChangeOrigin::Initial);
    }
    sink.complete_set(set, ResourceVersion::parse("1"), ChangeOrigin::Initial);
    tally
}

/// Returns a claim that the scheduler created at this second for the Pod `web`.
fn claim(name: &str, created: u32) -> Value {
    json!({"metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{created:02}Z"),
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "W", "controller": true}]}})
}

#[test]
fn a_pod_is_subtracted_from_the_claim_that_it_names_or_from_the_first() {
    // RESOURCEQUOTA-46
    let with_pod = |pod: &Value, claims: &[Value]| {
        let (classes, pods) = (tally::<DeviceClass>(&[]), tally::<Pod>(std::slice::from_ref(pod)));
        let claims = tally::<ResourceClaim>(claims);
        let (shop, mut names) = ("shop".into(), Vec::new());
        classes.read(&shop, |classes| {
            claims.read(&shop, |claims| {
                pods.read(&shop, |pods| {
                    let extended = ExtendedUsage::new(classes, claims, pods);
                    let with_pods = claims.objects().zip(extended.claims).filter(|(_, (_, pod))| pod.is_some());
                    names.extend(with_pods.map(|((name, _), _)| name.to_string()));
                })
            })
        });
        names
    };
    let web = json!({"metadata": {"name": "web", "uid": "W"}});
    let mut naming = web.clone();
    naming["status"] = json!({"extendedResourceClaimStatus": {"resourceClaimName": "b"}});
    let claims = [claim("b", 2), claim("c", 1), claim("a", 2)];
    assert_eq!(with_pod(&web, &claims), ["c"], "the first by its creation");
    assert_eq!(with_pod(&web, &[claim("b", 2), claim("a", 2)]), ["a"], "and then by its name");
    assert_eq!(with_pod(&naming, &claims), ["b"]);
    assert_eq!(with_pod(&json!({"metadata": {"name": "web", "uid": "other"}}), &claims), [""; 0]);
    let mut foreign = claim("b", 2);
    foreign["metadata"]["annotations"] = json!({});
    assert_eq!(with_pod(&naming, &[foreign]), [""; 0]);
    assert!(tally::<PartialObject>(&[]).read(&"other".into(), |_| ()).is_none());
}
