//! Suite: what statefulset-controller promises for StatefulSets.

use e2e::suite::prelude::*;
use http_body_util::BodyExt as _;
use kube::client::Body;

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        EVERYWHERE =>
            pods_come_in_order_and_go_in_reverse pods_are_made_of_the_template_and_their_number
            pods_come_at_once_where_they_do_not_wait a_rollout_replaces_from_the_highest
            a_partition_keeps_the_first_as_they_are on_delete_leaves_it_to_users
            the_template_of_before_is_numbered_anew history_and_undo_work_as_kubectl_does_them
            kubectl_get_and_describe_show_the_set revisions_are_stored_byte_for_byte history_is_as_long_as_the_limit
            numbers_begin_where_the_set_says a_pod_is_available_after_min_ready_seconds a_settled_set_is_left_alone;
        SIMULATED =>
            one_that_is_not_ready_holds_up_the_others claims_know_with_whom_they_go
            a_pod_that_is_deleted_or_has_failed_comes_back a_stray_of_its_name_is_adopted
            labels_taken_away_release_and_given_back_adopt deleted_pods_leave_a_watch_with_a_deletion_timestamp
            nothing_is_made_while_the_set_is_deleted;
        EVERYWHERE.needs(tools::needs_kubectl) =>
            kubectl_shows_the_history_and_rolls_back;
        SIMULATED.needs(tools::needs_kubectl) =>
            kubectl_waits_for_a_rollout_that_is_stuck;
    };
    Suite::new("statefulset", &[("statefulset-controller", &[])], scenes)
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
    let line = |pod: &Value| {
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        format!("{} {image}", pod["metadata"]["name"].as_str().unwrap_or_default())
    };
    let mut images: Vec<String> = c.list(PODS).await?.iter().map(line).collect();
    images.sort();
    Ok(images)
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
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

async fn pods_come_in_order_and_go_in_reverse(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(3)).await?;
    for replicas in [3, 5, 1, 0, 2] {
        c.scale(STATEFUL_SETS, "web", replicas).await?;
        settled_at(&c, "web", i64::from(replicas)).await?;
        let names: Vec<String> = (0..replicas).map(|n| format!("web-{n} img:1")).collect();
        c.until("the Pods of its numbers", async || images(&c).await.is_ok_and(|i| i == names).then_some(())).await?;
    }
    c.until_event("StatefulSet", "web", "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
        .await?;
    c.until_event("StatefulSet", "web", "Normal SuccessfulDelete Delete Pod web-4 in StatefulSet web successful").await
}

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

async fn one_that_is_not_ready_holds_up_the_others(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2).script("sim/ready-after", "600")).await?;
    c.until("the first Pod", async || c.get(PODS, "web-0").await.ok()).await?;
    let alone = async || images(&c).await.is_ok_and(|images| images.len() == 1);
    c.stays("alone", Duration::from_secs(2), alone).await
}

async fn pods_come_at_once_where_they_do_not_wait(c: Context) -> Outcome {
    let set = stateful_set("web").replicas(8).set("spec/podManagementPolicy", "Parallel");
    c.create(STATEFUL_SETS, set).await?;
    settled_at(&c, "web", 8).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    rolled_out(&c, "web", 8).await?;
    c.scale(STATEFUL_SETS, "web", 1).await?;
    settled_at(&c, "web", 1).await?;
    assert_eq!(images(&c).await?, ["web-0 img:2"]);
    Ok(())
}

async fn a_rollout_replaces_from_the_highest(c: Context) -> Outcome {
    // Creation times are told in seconds. Each Pod is available, and followed by the next, more than one second after its
    // creation.
    c.create(STATEFUL_SETS, stateful_set("web").replicas(3).set("spec/minReadySeconds", 2)).await?;
    let before = rolled_out(&c, "web", 3).await?["status"]["updateRevision"].clone();
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    let after = rolled_out(&c, "web", 3).await?["status"].clone();
    assert_ne!(after["updateRevision"], before);
    assert_eq!(after["currentReplicas"], 3);
    assert_eq!(images(&c).await?, ["web-0 img:2", "web-1 img:2", "web-2 img:2"]);
    let mut born: Vec<(String, String)> = Vec::new();
    for pod in c.list(PODS).await? {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        born.push((text("creationTimestamp"), text("name")));
    }
    born.sort();
    let names: Vec<&str> = born.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["web-2", "web-1", "web-0"], "{born:?}");
    Ok(())
}

async fn a_partition_keeps_the_first_as_they_are(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(3).set("spec/updateStrategy", strategy(2))).await?;
    rolled_out(&c, "web", 3).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    let wanted = ["web-0 img:1", "web-1 img:1", "web-2 img:2"];
    c.until_object(STATEFUL_SETS, "web", "the last Pod to be updated", |set| {
        set["status"]["updatedReplicas"] == 1 && set["status"]["readyReplicas"] == 3
    })
    .await?;
    assert_eq!(images(&c).await?, wanted);
    c.delete(PODS, "web-0", "Background").await?;
    c.until("a Pod of before to come back as it was", async || {
        let ready = c.get(STATEFUL_SETS, "web").await.ok()?["status"]["readyReplicas"] == 3;
        (ready && images(&c).await.is_ok_and(|images| images == wanted)).then_some(())
    })
    .await?;
    c.merge(STATEFUL_SETS, "web", json!({"spec": {"updateStrategy": strategy(0)}})).await?;
    rolled_out(&c, "web", 3).await?;
    Ok(())
}

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
    c.until("the new one to be of the new template", async || {
        images(&c).await.is_ok_and(|images| images == ["web-0 img:1", "web-1 img:2"]).then_some(())
    })
    .await
}

async fn revisions(c: &Context) -> Result<Vec<(i64, String)>, Failure> {
    let image = |r: &Value| {
        let image = &r["data"]["spec"]["template"]["spec"]["containers"][0]["image"];
        (r["revision"].as_i64().unwrap_or(0), image.as_str().unwrap_or_default().to_owned())
    };
    let mut list: Vec<_> = c.list(CONTROLLER_REVISIONS).await?.iter().map(image).collect();
    list.sort();
    Ok(list)
}

async fn the_template_of_before_is_numbered_anew(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(1)).await?;
    let first = rolled_out(&c, "web", 1).await?["status"]["updateRevision"].clone();
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    rolled_out(&c, "web", 1).await?;
    c.merge(STATEFUL_SETS, "web", image("img:1")).await?;
    let last = rolled_out(&c, "web", 1).await?["status"]["updateRevision"].clone();
    assert_eq!(first, last);
    assert_eq!(revisions(&c).await?, [(2, "img:2".to_owned()), (3, "img:1".to_owned())]);
    Ok(())
}

/// What `kubectl rollout history`, `undo` and `status` read and send.
async fn history_and_undo_work_as_kubectl_does_them(c: Context) -> Outcome {
    let mut set = stateful_set("web").replicas(2).set("spec/updateStrategy", json!({"type": "RollingUpdate"})).build();
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    let set = c.create(STATEFUL_SETS, set).await?;
    rolled_out(&c, "web", 2).await?;
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}});
    c.merge(STATEFUL_SETS, "web", cause).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    rolled_out(&c, "web", 2).await?;
    // The history: revisions that the set controls and its selector selects, with their causes.
    let history = async || -> Result<Vec<(i64, Value)>, Failure> {
        let all = c.list(CONTROLLER_REVISIONS).await?;
        let own = all.iter().filter(|r| {
            let owner = &r["metadata"]["ownerReferences"][0];
            owner["uid"] == set["metadata"]["uid"]
                && owner["controller"] == true
                && r["metadata"]["labels"]["app"] == "web"
        });
        let mut own: Vec<_> = own
            .map(|r| {
                let cause = r["metadata"]["annotations"]["kubernetes.io/change-cause"].clone();
                (r["revision"].as_i64().unwrap_or(0), cause)
            })
            .collect();
        own.sort_by_key(|(number, _)| *number);
        Ok(own)
    };
    assert_eq!(history().await?, [(1, json!("first")), (2, json!("second"))]);
    // The undo: the data of the revision before the newest, as a strategic merge patch of the set.
    let all = c.list(CONTROLLER_REVISIONS).await?;
    let Some(first) = all.iter().find(|r| r["revision"] == 1) else { return c.fail("revision 1 is missing").await };
    c.client().patch(STATEFUL_SETS, c.namespace(), "web", "", PatchKind::Strategic, &first["data"]).await?;
    let status = rolled_out(&c, "web", 2).await?["status"].clone();
    assert_eq!(status["updateRevision"], first["metadata"]["name"], "the revision is used again");
    assert_eq!(images(&c).await?, ["web-0 img:1", "web-1 img:1"]);
    assert_eq!(history().await?, [(2, json!("second")), (3, json!("first"))]);
    // The status: without `rollingUpdate` kubectl asks whether both revisions are the same.
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(2)));
    Ok(())
}

/// `kubectl rollout history`, `undo` and `status`, by kubectl itself.
async fn kubectl_shows_the_history_and_rolls_back(c: Context) -> Outcome {
    let mut set = stateful_set("web").replicas(2).build();
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    c.create(STATEFUL_SETS, set).await?;
    rolled_out(&c, "web", 2).await?;
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}});
    c.merge(STATEFUL_SETS, "web", cause).await?;
    c.merge(STATEFUL_SETS, "web", image("img:2")).await?;
    c.check_rollback("statefulset/web", "roll out complete: 2 new pods have been updated", "img:1").await?;
    rolled_out(&c, "web", 2).await?;
    assert_eq!(images(&c).await?, ["web-0 img:2", "web-1 img:2"]);
    Ok(())
}

async fn kubectl_waits_for_a_rollout_that_is_stuck(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2).script("sim/ready-after", "600")).await?;
    c.until("the first Pod", async || c.get(PODS, "web-0").await.ok()).await?;
    c.check_stuck_rollout("statefulset/web", "Waiting for 2 pods to be ready").await
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

async fn revisions_are_stored_byte_for_byte(c: Context) -> Outcome {
    let set = stateful_set("web").set("spec/template/spec/containers/0/args", json!(["a<b", "x&y", "\u{2028}"]));
    c.create(STATEFUL_SETS, set).await?;
    let set = settled_at(&c, "web", 1).await?;
    let name = set["status"]["updateRevision"].as_str().unwrap_or_default();
    // JSON shows any stored form as the canonical one; only this shows the bytes.
    let path = CONTROLLER_REVISIONS.path(c.namespace(), name, "");
    let request =
        http::Request::get(path).header("accept", "application/vnd.kubernetes.protobuf").body(Body::empty())?;
    let answer = c.client().kube().send(request).await?;
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await?.to_bytes();
    let text = String::from_utf8_lossy(&body);
    let wanted = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"args":["a\u003cb","x\u0026y","\u2028"],"image":"img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
    assert!(text.contains(wanted), "{text}");
    Ok(())
}

async fn history_is_as_long_as_the_limit(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").set("spec/revisionHistoryLimit", 1)).await?;
    rolled_out(&c, "web", 1).await?;
    for version in 2..5 {
        c.merge(STATEFUL_SETS, "web", image(&format!("img:{version}"))).await?;
        rolled_out(&c, "web", 1).await?;
    }
    let wanted = [(3, "img:3".to_owned()), (4, "img:4".to_owned())];
    c.until("the oldest revisions to go", async || revisions(&c).await.is_ok_and(|r| r == wanted).then_some(())).await
}

async fn claims_know_with_whom_they_go(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, with_claims("web", "Delete").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    let owners = async |claim: &str| -> Option<Vec<String>> {
        let claim = c.get(CLAIMS, claim).await.ok()?;
        let list = claim["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        Some(list.iter().map(|o| format!("{} {}", o["kind"], o["name"]).replace('"', "")).collect())
    };
    for claim in ["data-web-0", "data-web-1"] {
        c.until("a claim to go with the set", async || (owners(claim).await? == ["StatefulSet web"]).then_some(()))
            .await?;
    }
    c.scale(STATEFUL_SETS, "web", 1).await?;
    settled_at(&c, "web", 1).await?;
    assert_eq!(owners("data-web-1").await.unwrap_or_default(), ["Pod web-1"]);
    let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    c.merge(STATEFUL_SETS, "web", json!({"spec": {"persistentVolumeClaimRetentionPolicy": retain}})).await?;
    c.until("a claim to be nobody's", async || owners("data-web-0").await?.is_empty().then_some(())).await?;
    // What protects claims is not there: they would stay for ever.
    for claim in ["data-web-0", "data-web-1"] {
        c.merge(CLAIMS, claim, json!({"metadata": {"finalizers": null}})).await?;
    }
    Ok(())
}

async fn numbers_begin_where_the_set_says(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2).set("spec/ordinals", json!({"start": 3}))).await?;
    settled_at(&c, "web", 2).await?;
    assert_eq!(images(&c).await?, ["web-3 img:1", "web-4 img:1"]);
    c.merge(STATEFUL_SETS, "web", json!({"spec": {"ordinals": {"start": 4}}})).await?;
    c.until("the numbers to move", async || {
        images(&c).await.is_ok_and(|images| images == ["web-4 img:1", "web-5 img:1"]).then_some(())
    })
    .await
}

async fn a_pod_that_is_deleted_or_has_failed_comes_back(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    for failed in [false, true] {
        let before = c.get(PODS, "web-0").await?["metadata"]["uid"].clone();
        if failed {
            c.merge_status(PODS, "web-0", json!({"status": {"phase": "Failed"}})).await?;
        } else {
            c.delete(PODS, "web-0", "Background").await?;
        }
        c.until("another Pod of that name", async || {
            (c.get(PODS, "web-0").await.ok()?["metadata"]["uid"] != before).then_some(())
        })
        .await?;
        settled_at(&c, "web", 2).await?;
    }
    Ok(())
}

async fn a_pod_is_available_after_min_ready_seconds(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").set("spec/minReadySeconds", 3)).await?;
    c.until("a ready Pod that is not available", async || {
        let status = c.get(STATEFUL_SETS, "web").await.ok()?["status"].clone();
        (status["readyReplicas"] == 1 && status["availableReplicas"] == 0).then_some(())
    })
    .await?;
    settled_at(&c, "web", 1).await?;
    Ok(())
}

async fn a_stray_of_its_name_is_adopted(c: Context) -> Outcome {
    let stray = c.create(PODS, pod("web-0", "web")).await?;
    c.create(STATEFUL_SETS, stateful_set("web").set("spec/updateStrategy", json!({"type": "OnDelete"}))).await?;
    c.until("the stray to be adopted and labelled", async || {
        let pod = c.get(PODS, "web-0").await.ok()?;
        let labels = &pod["metadata"]["labels"];
        let owned = pod["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet";
        (owned && labels["statefulset.kubernetes.io/pod-name"] == "web-0").then_some(())
    })
    .await?;
    assert_eq!(c.get(PODS, "web-0").await?["metadata"]["uid"], stray["metadata"]["uid"]);
    c.until_event("StatefulSet", "web", "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful").await
}

async fn until_owned(c: &Context, what: &str, owned: bool) -> Outcome {
    c.until_object(PODS, "web-0", what, |pod| pod["metadata"]["ownerReferences"][0]["kind"].is_string() == owned)
        .await
        .map(drop)
}

/// Upstream: `test/e2e/apps/statefulset.go`, "should adopt matching orphans and release non-matching pods".
async fn labels_taken_away_release_and_given_back_adopt(c: Context) -> Outcome {
    const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
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
    c.merge(PODS, "web-0", labels(set["spec"]["template"]["metadata"]["labels"].clone())).await?;
    until_owned(&c, "the Pod to be adopted with the labels of the template", true).await?;
    // The label by which Pods are watched.
    c.merge(PODS, "web-0", labels(json!({POD_NAME: null}))).await?;
    c.until("the label of its name to be back", async || {
        (c.get(PODS, "web-0").await.ok()?["metadata"]["labels"][POD_NAME] == "web-0").then_some(())
    })
    .await?;
    assert_eq!(c.get(PODS, "web-0").await?["metadata"]["uid"], before["metadata"]["uid"]);
    settled_at(&c, "web", 1).await?;
    // The watch shows it again.
    c.delete(PODS, "web-0", "Background").await?;
    c.until("another Pod to take its place", async || {
        (c.get(PODS, "web-0").await.ok()?["metadata"]["uid"] != before["metadata"]["uid"]).then_some(())
    })
    .await
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
        c.until("the Pod to be gone", async || c.get(PODS, name).await.is_err().then_some(())).await?;
    }
    let version = first["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path = PODS.path(c.namespace(), "", "");
    let path = format!("{path}?watch=1&labelSelector=mine&timeoutSeconds=2&resourceVersion={version}");
    let answer = c.client().kube().send(http::Request::get(path).body(Body::empty())?).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    let events = body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let left = events.filter(|event| event["type"] == "DELETED").map(|event| {
        let metadata = &event["object"]["metadata"];
        (metadata["name"].as_str().unwrap_or_default().to_owned(), metadata["deletionTimestamp"].is_string())
    });
    let wanted = [("relabelled", false), ("graceful", true), ("forced", true), ("unscheduled", true)];
    assert_eq!(left.collect::<Vec<_>>(), wanted.map(|(name, deleted)| (name.to_owned(), deleted)));
    Ok(())
}

async fn nothing_is_made_while_the_set_is_deleted(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, stateful_set("web").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    c.merge(STATEFUL_SETS, "web", json!({"metadata": {"finalizers": ["example.com/wait"]}})).await?;
    c.delete(STATEFUL_SETS, "web", "Background").await?;
    c.delete(PODS, "web-1", "Background").await?;
    c.until("the Pod to go", async || c.get(PODS, "web-1").await.is_err().then_some(())).await?;
    let alone = async || images(&c).await.is_ok_and(|images| images.len() == 1);
    let stays = c.stays("as it is", Duration::from_secs(2), alone).await;
    c.merge(STATEFUL_SETS, "web", json!({"metadata": {"finalizers": null}})).await?;
    stays
}

async fn a_settled_set_is_left_alone(c: Context) -> Outcome {
    c.create(STATEFUL_SETS, with_claims("web", "Retain").replicas(2)).await?;
    settled_at(&c, "web", 2).await?;
    let state = async || -> Option<Vec<Value>> {
        let mut versions = vec![c.get(STATEFUL_SETS, "web").await.ok()?["metadata"]["resourceVersion"].clone()];
        for resource in [PODS, CLAIMS, CONTROLLER_REVISIONS] {
            versions.extend(c.list(resource).await.ok()?.iter().map(|o| o["metadata"]["resourceVersion"].clone()));
        }
        Some(versions)
    };
    // Nodes have the last word on Pods.
    c.sleep(Duration::from_secs(1)).await;
    let before = state().await;
    let outcome = c.stays("as it is", Duration::from_secs(3), async || state().await == before).await;
    for claim in ["data-web-0", "data-web-1"] {
        c.merge(CLAIMS, claim, json!({"metadata": {"finalizers": null}})).await?;
    }
    outcome
}
