use common::ca_bundle::sha256;
use serde_json::json;

use super::*;
use crate::world::{CA, NEXT_CA, bundle, object};

fn trust_bundle(name: &str, text: &str, is_terminating: bool) -> Arc<ClusterTrustBundle> {
    let deleted = is_terminating.then_some("2026-11-21T09:00:00Z");
    let metadata = json!({"name": name, "uid": name, "deletionTimestamp": deleted});
    object(&json!({"metadata": metadata, "spec": {"signerName": SIGNER, "trustBundle": text}}))
}

fn plan(trust_bundles: &[Arc<ClusterTrustBundle>]) -> Plan {
    let trust_bundles = trust_bundles.to_vec();
    decide(&Snapshot { resource: ClusterTrustBundle::RESOURCE, trust_bundles, bundle: Some(bundle(CA)) })
}

/// What the plan creates, corrects and deletes.
fn requests(plan: &Plan) -> (bool, Option<&str>, Vec<&str>) {
    let names = plan.deleted.iter().map(|deleted| &*deleted.metadata.name);
    (plan.creates, plan.corrected.as_ref().map(|corrected| &*corrected.metadata.name), names.collect())
}

/// SERVICEACCOUNT-16.
#[test]
fn the_name_has_half_of_the_bytes_of_the_hash() {
    // The SHA-256 of the empty text begins with these bytes.
    assert_eq!(&*trust_bundle_name(&sha256(b"")), "kubernetes.io:kube-apiserver-serving:e3b0c44298fc1c149afbf4c8");
}

/// SERVICEACCOUNT-16.
#[test]
fn a_missing_object_is_created_and_a_wrong_one_corrected() {
    let name = &*trust_bundle_name(&bundle(CA).hash);
    assert_eq!(requests(&plan(&[])), (true, None, vec![]));
    assert_eq!(requests(&plan(&[trust_bundle(name, CA, false)])), (false, None, vec![]));
    assert_eq!(requests(&plan(&[trust_bundle(name, NEXT_CA, false)])), (false, Some(name), vec![]));
    // An object that is terminating keeps its name until it is gone.
    assert_eq!(requests(&plan(&[trust_bundle(name, CA, true)])), (false, None, vec![]));
    assert_eq!(requests(&plan(&[trust_bundle(name, NEXT_CA, true)])), (false, Some(name), vec![]));
}

/// SERVICEACCOUNT-17.
#[test]
fn all_other_objects_of_the_signer_are_deleted() {
    let name = &*trust_bundle_name(&bundle(CA).hash);
    let next = &*trust_bundle_name(&bundle(NEXT_CA).hash);
    let others = [trust_bundle(next, NEXT_CA, false), trust_bundle("other", CA, false), trust_bundle("late", CA, true)];
    assert_eq!(requests(&plan(&others)), (true, None, vec![next, "other"]));
    let all = [&others[..], &[trust_bundle(name, CA, false)]].concat();
    assert_eq!(requests(&plan(&all)), (false, None, vec![next, "other"]));
    let snapshot = Snapshot { resource: ClusterTrustBundle::RESOURCE, trust_bundles: all, bundle: None };
    assert_eq!(requests(&decide(&snapshot)), (false, None, vec![]));
}
