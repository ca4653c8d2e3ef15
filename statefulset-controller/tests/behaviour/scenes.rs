//! What statefulset-controller promises for StatefulSets, on any cluster.

use testkit::{objects::owners, scene::prelude::*};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

suite! {
    Suite::new("statefulset").controller(&statefulset_controller::DEFINITION, &[]);
    EVERYWHERE.sample() =>
        pods_come_in_order_and_go_in_reverse a_rollout_replaces_from_the_highest revisions_are_stored_byte_for_byte;
    EVERYWHERE =>
        pods_are_made_of_the_template_and_their_number
        pods_come_at_once_where_they_do_not_wait
        a_partition_keeps_the_first_as_they_are on_delete_leaves_it_to_users
        the_template_of_before_is_numbered_anew history_and_undo_work_as_kubectl_does_them
        kubectl_get_and_describe_show_the_set history_is_as_long_as_the_limit
        numbers_begin_where_the_set_says a_pod_is_available_after_min_ready_seconds a_settled_set_is_left_alone;
    SIMULATED.sample() =>
        claims_know_with_whom_they_go;
    SIMULATED =>
        one_that_is_not_ready_holds_up_the_others
        a_pod_that_is_deleted_or_has_failed_comes_back a_stray_of_its_name_is_adopted
        labels_taken_away_release_and_given_back_adopt deleted_pods_leave_a_watch_with_a_deletion_timestamp
        nothing_is_made_while_the_set_is_deleted;
}

/// Waits until a set has so many Pods, all ready, and its status says so.
async fn settled_at(c: &Context, name: &str, replicas: i64) -> Result<Value, Failure> {
    c.until(&format!("StatefulSet {name} to have {replicas} available Pods"), async || {
        let set = c.get(STATEFUL_SETS, name).await.ok()?;
        let status = &set["status"];
        let counted = ["replicas", "readyReplicas", "availableReplicas"];
        let all = counted.iter().all(|field| status[field].as_i64().unwrap_or(0) == replicas);
        (all && status["observedGeneration"] == set["metadata"]["generation"]).then_some(set)
    })
    .await
}

/// Waits until all Pods of a set are of its template as well.
async fn rolled_out(c: &Context, name: &str, replicas: i64) -> Result<Value, Failure> {
    c.until(&format!("StatefulSet {name} to be rolled out"), async || {
        let set = c.get(STATEFUL_SETS, name).await.ok()?;
        let status = &set["status"];
        let updated = ["updatedReplicas", "readyReplicas"].iter().all(|f| status[f].as_i64() == Some(replicas));
        let observed = status["observedGeneration"] == set["metadata"]["generation"];
        (updated && observed && status["currentRevision"] == status["updateRevision"]).then_some(set)
    })
    .await
}

/// The Pods of the namespace by name, with their images.
async fn images(c: &Context) -> Result<Vec<String>, Failure> {
    let line = |pod: &Value| format!("{} {}", name(pod), text(&pod["spec"]["containers"][0], "image"));
    let mut images: Vec<String> = c.list(PODS).await?.iter().map(line).collect();
    images.sort();
    Ok(images)
}

/// Waits until the Pods of the namespace have these names and images.
async fn until_images(c: &Context, wanted: &[&str]) -> Outcome {
    c.until(&format!("the Pods to be {wanted:?}"), async || {
        images(c).await.is_ok_and(|images| images == wanted).then_some(())
    })
    .await
}

/// Waits until another Pod has the name of this one.
async fn until_replaced(c: &Context, before: &Value) -> Outcome {
    let is_another = |pod: &Value| pod["metadata"]["uid"] != before["metadata"]["uid"];
    c.until_object(PODS, name(before), "another Pod to take its place", is_another).await.map(drop)
}

fn strategy(partition: i64) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}})
}

fn with_claims(name: &str, policy: &str) -> Builder {
    let template = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    stateful_set(name)
        .set("spec/volumeClaimTemplates", json!([template]))
        .set("spec/persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": policy, "whenScaled": policy}))
}

/// STATEFULSET-20, STATEFULSET-22, STATEFULSET-55.
async fn pods_come_in_order_and_go_in_reverse(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(3)).await?;
    for replicas in [3, 5, 1, 0, 2] {
        c.scale(STATEFUL_SETS, "web", replicas).await?;
        settled_at(&c, "web", i64::from(replicas)).await?;
        let wanted = &["web-0 img:1", "web-1 img:1", "web-2 img:1", "web-3 img:1", "web-4 img:1"];
        until_images(&c, &wanted[..replicas as usize]).await?;
    }
    c.until_event("StatefulSet", "web", "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
        .await?;
    c.until_event("StatefulSet", "web", "Normal SuccessfulDelete Delete Pod web-4 in StatefulSet web successful").await
}

/// STATEFULSET-13, STATEFULSET-14.
async fn pods_are_made_of_the_template_and_their_number(c: Context) -> Outcome {
    let set = stateful_set("web")
        .replicas(2)
        .set("spec/template/metadata/labels/tier", "back")
        .set("spec/template/metadata/annotations/note", "kept");
    let set = c.create(STATEFUL_SETS, set).await?;
    let status = settled_at(&c, "web", 2).await?["status"].clone();
    let mut pod = c.get(PODS, "web-1").await?;
    // The node's place comes with the node.
    pod["metadata"]["labels"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("topology."));
    let meta = &pod["metadata"];
    assert_eq!(
        meta["labels"],
        json!({"app": "web", "tier": "back", "apps.kubernetes.io/pod-index": "1",
            "statefulset.kubernetes.io/pod-name": "web-1", "controller-revision-hash": status["updateRevision"]})
    );
    assert_eq!((&meta["annotations"]["note"], &meta["generateName"]), (&json!("kept"), &json!("web-")));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(meta["ownerReferences"], owner);
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-1"), &json!("web")));
    assert_eq!(status["collisionCount"], 0);
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(2)));
    Ok(())
}

/// STATEFULSET-20.
async fn one_that_is_not_ready_holds_up_the_others(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2).script("sim/ready-after", "600")).await?;
    c.until("the first Pod", async || c.get(PODS, "web-0").await.ok()).await?;
    let alone = async || images(&c).await.is_ok_and(|images| images.len() == 1);
    c.stays("alone", Duration::from_secs(2), alone).await
}

/// STATEFULSET-21.
async fn pods_come_at_once_where_they_do_not_wait(c: Context) -> Outcome {
    let set = stateful_set("web").replicas(8).set("spec/podManagementPolicy", "Parallel");
    c.create(STATEFUL_SETS, set).await?;
    settled_at(&c, "web", 8).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    rolled_out(&c, "web", 8).await?;
    c.scale(STATEFUL_SETS, "web", 1).await?;
    settled_at(&c, "web", 1).await?;
    assert_eq!(images(&c).await?, ["web-0 img:2"]);
    // Neither creations nor deletions wait for Pods to be ready.
    let gate = json!([{"conditionType": "example.com/never"}]);
    let stuck = stateful_set("stuck").replicas(4).set("spec/podManagementPolicy", "Parallel");
    c.create(STATEFUL_SETS, stuck.set("spec/template/spec/readinessGates", gate)).await?;
    for replicas in [4, 1] {
        c.scale(STATEFUL_SETS, "stuck", replicas).await?;
        c.until_status(STATEFUL_SETS, "stuck", "Pods that are not ready", |status| {
            status["replicas"] == replicas && status["readyReplicas"].as_i64().unwrap_or(0) == 0
        })
        .await?;
    }
    Ok(())
}

/// STATEFULSET-27, STATEFULSET-31.
async fn a_rollout_replaces_from_the_highest(c: Context) -> Outcome {
    // Creation times are whole seconds. Each Pod is available, and followed by the next, more than one second after its
    // creation.
    c.create(STATEFUL_SETS, stateful_set("web").replicas(3).set("spec/minReadySeconds", 2)).await?;
    let before = rolled_out(&c, "web", 3).await?["status"]["updateRevision"].clone();
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    let after = rolled_out(&c, "web", 3).await?["status"].clone();
    assert_ne!(after["updateRevision"], before);
    assert_eq!(after["currentReplicas"], 3);
    assert_eq!(images(&c).await?, ["web-0 img:2", "web-1 img:2", "web-2 img:2"]);
    let mut pods = c.list(PODS).await?;
    pods.sort_by_key(|pod| time(&pod["metadata"]["creationTimestamp"]));
    assert_eq!(pods.iter().map(name).collect::<Vec<_>>(), ["web-2", "web-1", "web-0"]);
    Ok(())
}

/// STATEFULSET-16, STATEFULSET-29.
async fn a_partition_keeps_the_first_as_they_are(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(3).set("spec/updateStrategy", strategy(2))).await?;
    rolled_out(&c, "web", 3).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    let wanted = ["web-0 img:1", "web-1 img:1", "web-2 img:2"];
    c.until_status(STATEFUL_SETS, "web", "the last Pod is updated", |status| {
        status["updatedReplicas"] == 1 && status["readyReplicas"] == 3
    })
    .await?;
    assert_eq!(images(&c).await?, wanted);
    c.delete(PODS, "web-0", "Background").await?;
    c.until("a Pod of before to come back as it was", async || {
        let ready = c.get(STATEFUL_SETS, "web").await.ok()?["status"]["readyReplicas"] == 3;
        (ready && images(&c).await.is_ok_and(|images| images == wanted)).then_some(())
    })
    .await?;
    let (current, updated) = (json!(2), json!(1));
    c.until_status(STATEFUL_SETS, "web", "the Pod of before is counted", |status| {
        status["currentReplicas"] == current && status["updatedReplicas"] == updated && status["readyReplicas"] == 3
    })
    .await?;
    let status = c.get(STATEFUL_SETS, "web").await?["status"].clone();
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    c.merge(STATEFUL_SETS, "web", json!({"spec": {"updateStrategy": strategy(0)}})).await?;
    rolled_out(&c, "web", 3).await?;
    assert_eq!(images(&c).await?, ["web-0 img:2", "web-1 img:2", "web-2 img:2"]);
    Ok(())
}

/// STATEFULSET-29, STATEFULSET-31, STATEFULSET-92.
async fn on_delete_leaves_it_to_users(c: Context) -> Outcome {
    let set = stateful_set("web").replicas(2).set("spec/updateStrategy", json!({"type": "OnDelete"}));
    c.create(STATEFUL_SETS, set).await?;
    settled_at(&c, "web", 2).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    let status = settled_at(&c, "web", 2).await?["status"].clone();
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    // A deletion that should not be would show after the status.
    let untouched = async || images(&c).await.is_ok_and(|images| images == ["web-0 img:1", "web-1 img:1"]);
    c.stays("of the old template", Duration::from_secs(3), untouched).await?;
    c.delete(PODS, "web-1", "Background").await?;
    until_images(&c, &["web-0 img:1", "web-1 img:2"]).await?;
    let status = settled_at(&c, "web", 2).await?["status"].clone();
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    c.delete(PODS, "web-0", "Background").await?;
    assert_eq!(rolled_out(&c, "web", 2).await?["status"]["currentReplicas"], 2, "the rollout is complete");
    Ok(())
}

/// STATEFULSET-34.
async fn the_template_of_before_is_numbered_anew(c: Context) -> Outcome {
    let set = c.create(STATEFUL_SETS, stateful_set("web").replicas(1)).await?;
    let first = rolled_out(&c, "web", 1).await?["status"]["updateRevision"].clone();
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    rolled_out(&c, "web", 1).await?;
    c.merge(STATEFUL_SETS, "web", image("img:1")).await?;
    let last = rolled_out(&c, "web", 1).await?["status"]["updateRevision"].clone();
    assert_eq!(first, last);
    assert_eq!(c.revisions_of(&set).await?, ["2 img:2", "3 img:1"]);
    Ok(())
}

/// What `kubectl rollout history`, `undo` and `status` read and send. STATEFULSET-33, STATEFULSET-34.
async fn history_and_undo_work_as_kubectl_does_them(c: Context) -> Outcome {
    let mut set = stateful_set("web").replicas(2).set("spec/updateStrategy", json!({"type": "RollingUpdate"})).build();
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    let set = c.create(STATEFUL_SETS, set).await?;
    rolled_out(&c, "web", 2).await?;
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}});
    c.merge(STATEFUL_SETS, "web", cause).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    rolled_out(&c, "web", 2).await?;
    assert_eq!(c.revisions_of(&set).await?, ["1 img:1 first", "2 img:2 second"]);
    // The undo: the data of the revision before the newest, as a strategic merge patch of the set.
    let all = c.list(CONTROLLER_REVISIONS).await?;
    let Some(first) = all.iter().find(|r| r["revision"] == 1) else { return c.fail("revision 1 is missing").await };
    c.client().patch(STATEFUL_SETS, c.namespace(), "web", "", PatchKind::Strategic, &first["data"]).await?;
    let status = rolled_out(&c, "web", 2).await?["status"].clone();
    assert_eq!(status["updateRevision"], first["metadata"]["name"], "the revision is used again");
    assert_eq!(images(&c).await?, ["web-0 img:1", "web-1 img:1"]);
    assert_eq!(c.revisions_of(&set).await?, ["2 img:2 second", "3 img:1 first"]);
    assert_eq!(first["metadata"]["labels"]["app"], "web", "kubectl selects revisions by the selector of the set");
    // The status: without `rollingUpdate` kubectl asks whether both revisions are the same.
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(2)));
    Ok(())
}

/// What `kubectl get` and `kubectl describe` read: the row of the table, and the Events on the set.
async fn kubectl_get_and_describe_show_the_set(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    let row = c.table_row(STATEFUL_SETS, "web").await?;
    let shown = ["Name", "Ready", "Containers", "Images"].map(|column| row[column].clone());
    assert_eq!(shown, [json!("web"), json!("2/2"), json!("c"), json!("img:1")]);
    let wanted = [
        "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
        "Normal SuccessfulCreate Create Pod web-1 in StatefulSet web successful",
    ];
    // Events are written behind the work they report.
    let events = async || c.events_of("StatefulSet", "web").await.ok().filter(|events| events.len() >= wanted.len());
    let events = c.until("the Events of both Pods", events).await?;
    assert_eq!(events, wanted);
    Ok(())
}

/// STATEFULSET-32.
async fn revisions_are_stored_byte_for_byte(c: Context) -> Outcome {
    let set = stateful_set("web").set("spec/template/spec/containers/0/args", json!(["a<b", "x&y", "\u{2028}"]));
    c.create(STATEFUL_SETS, set).await?;
    let set = settled_at(&c, "web", 1).await?;
    let name = set["status"]["updateRevision"].as_str().unwrap_or_default();
    // JSON shows any stored form as the canonical one; only this shows the bytes.
    let path = CONTROLLER_REVISIONS.path(c.namespace(), name, "");
    let body = c.read(&path, "application/vnd.kubernetes.protobuf").await?;
    let text = String::from_utf8_lossy(&body);
    let wanted = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"args":["a\u003cb","x\u0026y","\u2028"],"image":"img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
    assert!(text.contains(wanted), "{text}");
    Ok(())
}

/// STATEFULSET-38.
async fn history_is_as_long_as_the_limit(c: Context) -> Outcome {
    let set = c.create(STATEFUL_SETS, stateful_set("web").set("spec/revisionHistoryLimit", 1)).await?;
    rolled_out(&c, "web", 1).await?;
    for version in 2..5 {
        c.merge(STATEFUL_SETS, "web", image(&format!("img:{version}"))).await?;
        rolled_out(&c, "web", 1).await?;
    }
    c.until("the oldest revisions to go", async || {
        c.revisions_of(&set).await.is_ok_and(|revisions| revisions == ["3 img:3", "4 img:4"]).then_some(())
    })
    .await
}

/// STATEFULSET-40, STATEFULSET-41, STATEFULSET-43, STATEFULSET-44, STATEFULSET-47, STATEFULSET-81.
async fn claims_know_with_whom_they_go(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, with_claims("web", "Delete").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    for claim in ["data-web-0", "data-web-1"] {
        c.until_object(CLAIMS, claim, "a claim to go with the set", |claim| owners(claim) == ["StatefulSet web"])
            .await?;
    }
    c.scale(STATEFUL_SETS, "web", 1).await?;
    settled_at(&c, "web", 1).await?;
    assert_eq!(owners(&c.get(CLAIMS, "data-web-1").await?), ["Pod web-1"]);
    let before = c.get(PODS, "web-0").await?;
    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    c.merge(STATEFUL_SETS, "web", json!({"spec": {"persistentVolumeClaimRetentionPolicy": retain}})).await?;
    let first =
        c.until_object(CLAIMS, "data-web-0", "the claim to have no owner", |claim| owners(claim).is_empty()).await?;
    c.until_event("StatefulSet", "web", "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful")
        .await?;
    assert_eq!(c.get(PODS, "web-0").await?, before, "the Pod itself is not written");
    assert_eq!(first["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(first["spec"]["resources"]["requests"]["storage"], "1Gi");
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}});
    assert_eq!(before["spec"]["volumes"][0], volume);
    c.until_event(
        "StatefulSet",
        "web",
        "Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
    )
    .await?;
    // A claim that outlives its Pod is used again.
    c.scale(STATEFUL_SETS, "web", 0).await?;
    settled_at(&c, "web", 0).await?;
    c.scale(STATEFUL_SETS, "web", 1).await?;
    settled_at(&c, "web", 1).await?;
    assert_eq!(c.get(CLAIMS, "data-web-0").await?["metadata"]["uid"], first["metadata"]["uid"]);
    Ok(())
}

async fn numbers_begin_where_the_set_says(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2).set("spec/ordinals", json!({"start": 3}))).await?;
    settled_at(&c, "web", 2).await?;
    assert_eq!(images(&c).await?, ["web-3 img:1", "web-4 img:1"]);
    c.merge(STATEFUL_SETS, "web", json!({"spec": {"ordinals": {"start": 4}}})).await?;
    until_images(&c, &["web-4 img:1", "web-5 img:1"]).await
}

/// STATEFULSET-17.
async fn a_pod_that_is_deleted_or_has_failed_comes_back(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    for failed in [false, true] {
        let before = c.get(PODS, "web-0").await?;
        if failed {
            c.merge_status(PODS, "web-0", json!({"status": {"phase": "Failed"}})).await?;
        } else {
            c.delete(PODS, "web-0", "Background").await?;
        }
        until_replaced(&c, &before).await?;
        settled_at(&c, "web", 2).await?;
    }
    Ok(())
}

/// STATEFULSET-20.
async fn a_pod_is_available_after_min_ready_seconds(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2).set("spec/minReadySeconds", 3)).await?;
    c.until_status(STATEFUL_SETS, "web", "a ready Pod is not available", |status| {
        status["readyReplicas"] == 1 && status["availableReplicas"] == 0
    })
    .await?;
    assert_eq!(images(&c).await?, ["web-0 img:1"], "the next Pod waits");
    settled_at(&c, "web", 2).await?;
    Ok(())
}

/// STATEFULSET-6, STATEFULSET-7.
async fn a_stray_of_its_name_is_adopted(c: Context) -> Outcome {
    c.create(PODS, pod("web-x", "web")).await?;
    let stray = c.create(PODS, pod("web-0", "web")).await?;
    c.create(STATEFUL_SETS, stateful_set("web").set("spec/updateStrategy", json!({"type": "OnDelete"}))).await?;
    until_owned(&c, "the stray to be adopted", true).await?;
    let adopted = c.get(PODS, "web-0").await?;
    assert_eq!(adopted["metadata"]["uid"], stray["metadata"]["uid"]);
    assert_eq!(adopted["metadata"]["labels"][POD_NAME], "web-0", "the missing label is added");
    assert_eq!(c.get(PODS, "web-x").await?["metadata"].get("ownerReferences"), None, "the name has no ordinal");
    c.until_event("StatefulSet", "web", "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful").await
}

async fn until_owned(c: &Context, what: &str, owned: bool) -> Outcome {
    c.until_object(PODS, "web-0", what, |pod| pod["metadata"]["ownerReferences"][0]["kind"].is_string() == owned)
        .await
        .map(drop)
}

/// Upstream: `test/e2e/apps/statefulset.go`, "should adopt matching orphans and release non-matching pods".
/// STATEFULSET-7, STATEFULSET-79.
async fn labels_taken_away_release_and_given_back_adopt(c: Context) -> Outcome {
    // A rolling update would replace the Pod, which loses its revision.
    let set = stateful_set("web").replicas(1).set("spec/updateStrategy", json!({"type": "OnDelete"}));
    let set = c.create(STATEFUL_SETS, set).await?;
    settled_at(&c, "web", 1).await?;
    let before = c.get(PODS, "web-0").await?;
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    c.merge(PODS, "web-0", json!({"metadata": {"ownerReferences": null}})).await?;
    until_owned(&c, "the orphan to be adopted", true).await?;
    c.merge(PODS, "web-0", labels(Value::Null)).await?;
    until_owned(&c, "the Pod to be released", false).await?;
    c.until_status(STATEFUL_SETS, "web", "the Pod is not counted", |status| status["replicas"] == 0).await?;
    c.merge(PODS, "web-0", labels(set["spec"]["template"]["metadata"]["labels"].clone())).await?;
    until_owned(&c, "the Pod to be adopted with the labels of the template", true).await?;
    assert_eq!(c.get(PODS, "web-0").await?["metadata"]["labels"][POD_NAME], "web-0");
    c.until_event("StatefulSet", "web", "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful")
        .await?;
    // The label by which Pods are watched.
    c.merge(PODS, "web-0", labels(json!({POD_NAME: null}))).await?;
    let is_labelled = |pod: &Value| pod["metadata"]["labels"][POD_NAME] == "web-0";
    c.until_object(PODS, "web-0", "the label of its name to be back", is_labelled).await?;
    assert_eq!(c.get(PODS, "web-0").await?["metadata"]["uid"], before["metadata"]["uid"]);
    settled_at(&c, "web", 1).await?;
    // The watch shows it again.
    c.delete(PODS, "web-0", "Background").await?;
    until_replaced(&c, &before).await
}

/// What `common/client/src/informer/filtered.rs` relies on: a Pod that is deleted leaves a watch of labelled Pods with a
/// deletion timestamp, and a Pod that loses the label without one.
async fn deleted_pods_leave_a_watch_with_a_deletion_timestamp(c: Context) -> Outcome {
    let loose = |name: &str| pod(name, "loose").set("metadata/labels/mine", "yes");
    let first = c.create(PODS, loose("relabelled")).await?;
    c.create(PODS, loose("graceful")).await?;
    c.create(PODS, loose("forced")).await?;
    c.create(PODS, loose("unscheduled").set("spec/schedulerName", "nobody")).await?;
    c.until("Pods to be scheduled", async || {
        let scheduled = c.list(PODS).await.ok()?.into_iter().filter(|pod| pod["spec"]["nodeName"].is_string());
        (scheduled.count() == 3).then_some(())
    })
    .await?;
    c.merge(PODS, "relabelled", json!({"metadata": {"labels": {"mine": null}}})).await?;
    for (name, grace) in [("graceful", 1), ("forced", 0), ("unscheduled", 30)] {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace});
        c.client().delete(PODS, c.namespace(), name, &options).await?;
        c.until_gone(PODS, name).await?;
    }
    let version = first["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path = PODS.path(c.namespace(), "", "");
    let path = format!("{path}?watch=1&labelSelector=mine&timeoutSeconds=2&resourceVersion={version}");
    let body = c.read(&path, "application/json").await?;
    let events = body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let left = events.filter(|event| event["type"] == "DELETED").map(|event| {
        let metadata = &event["object"]["metadata"];
        (metadata["name"].as_str().unwrap_or_default().to_owned(), metadata["deletionTimestamp"].is_string())
    });
    let wanted = [("relabelled", false), ("graceful", true), ("forced", true), ("unscheduled", true)];
    assert_eq!(left.collect::<Vec<_>>(), wanted.map(|(name, deleted)| (name.to_owned(), deleted)));
    Ok(())
}

/// STATEFULSET-19.
async fn nothing_is_made_while_the_set_is_deleted(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    c.merge(STATEFUL_SETS, "web", json!({"metadata": {"finalizers": ["example.com/wait"]}})).await?;
    c.delete(STATEFUL_SETS, "web", "Background").await?;
    c.delete(PODS, "web-1", "Background").await?;
    c.until_gone(PODS, "web-1").await?;
    c.until_status(STATEFUL_SETS, "web", "one Pod less", |status| status["replicas"] == 1).await?;
    let alone = async || images(&c).await.is_ok_and(|images| images.len() == 1);
    c.stays("as it is", Duration::from_secs(2), alone).await
}

async fn a_settled_set_is_left_alone(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, with_claims("web", "Retain").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    c.left_alone(&[STATEFUL_SETS, PODS, CLAIMS, CONTROLLER_REVISIONS], async || Ok(())).await
}
