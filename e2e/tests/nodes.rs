//! Suite: our nodes run Pods on a real API server as on the sandbox, and deleted claims go.

use e2e::suite::prelude::*;

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            a_pod_becomes_ready a_script_is_followed containers_are_restarted a_deleted_pod_ends_and_goes
            a_finalizer_holds_a_pod_with_its_final_status a_readiness_gate_is_honoured what_fits_nowhere_says_so
            a_claim_in_use_waits_for_its_pod many_pods_run_at_once;
    };
    Suite::new("nodes").scenes(scenes)
}

async fn phase(c: &Context, name: &str, phase: &str) -> Result<Value, e2e::suite::Failure> {
    c.until(&format!("Pod {name} to be {phase}"), async || {
        c.get(PODS, name).await.ok().filter(|p| p["status"]["phase"] == phase)
    })
    .await
}

async fn a_pod_becomes_ready(c: Context) -> Outcome {
    c.create(PODS, pod("p", "a")).await?;
    let pod = phase(&c, "p", "Running").await?;
    for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"] {
        assert_eq!(condition(&pod, kind).unwrap()["status"], "True", "{kind}");
    }
    let status = &pod["status"];
    assert_eq!(status["qosClass"], "BestEffort");
    assert_eq!(status["podIPs"], json!([{"ip": status["podIP"]}]));
    assert_eq!(status["hostIPs"], json!([{"ip": status["hostIP"]}]));
    assert!(pod["spec"]["nodeName"].as_str().unwrap().starts_with("node-"));
    // Older API servers do not copy the labels of the topology to Pods.
    if c.server_minor().await? >= 35 {
        assert!(pod["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap().starts_with('z'));
    }
    Ok(())
}

async fn a_script_is_followed(c: Context) -> Outcome {
    let job = pod("p", "a").set("spec/restartPolicy", "Never");
    c.create(PODS, job.script("sim/ready-after", "0.5").script("sim/exit", "42").script("sim/after", "2")).await?;
    let pod = phase(&c, "p", "Running").await?;
    assert_eq!(condition(&pod, "Ready").unwrap()["reason"], "ContainersNotReady");
    let pod = c.until("Pod p to be Ready", async || c.get(PODS, "p").await.ok().filter(is_ready)).await?;
    assert_eq!(condition(&pod, "Ready").unwrap().get("reason"), None);
    let pod = phase(&c, "p", "Failed").await?;
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 42);
    assert_eq!(condition(&pod, "Ready").unwrap()["reason"], "PodFailed");
    Ok(())
}

async fn containers_are_restarted(c: Context) -> Outcome {
    let crash = pod("p", "a").script("sim/exit", "1").script("sim/exit-times", "2").script("sim/restart-after", "0.2");
    c.create(PODS, crash).await?;
    let pod = c
        .until_object(PODS, "p", "Pod p to have been restarted twice", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 2 && is_ready(pod)
        })
        .await?;
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    Ok(())
}

async fn a_deleted_pod_ends_and_goes(c: Context) -> Outcome {
    c.create(PODS, pod("p", "a").script("sim/terminate-after", "1")).await?;
    phase(&c, "p", "Running").await?;
    c.delete(PODS, "p", "Background").await?;
    let pod = c.get(PODS, "p").await?;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    c.until("Pod p to be gone", async || c.get(PODS, "p").await.is_err().then_some(())).await
}

async fn a_finalizer_holds_a_pod_with_its_final_status(c: Context) -> Outcome {
    c.create(PODS, pod("p", "a").set("metadata/finalizers", json!(["example.com/hold"]))).await?;
    phase(&c, "p", "Running").await?;
    c.delete(PODS, "p", "Background").await?;
    let pod = phase(&c, "p", "Failed").await?;
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    c.stays("the Pod is there", Duration::from_secs(1), async || c.get(PODS, "p").await.is_ok()).await?;
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    c.until("Pod p to be gone", async || c.get(PODS, "p").await.is_err().then_some(())).await
}

async fn a_readiness_gate_is_honoured(c: Context) -> Outcome {
    c.create(PODS, pod("p", "a").set("spec/readinessGates", json!([{"conditionType": "example.com/lb"}]))).await?;
    let pod = phase(&c, "p", "Running").await?;
    assert_eq!(condition(&pod, "Ready").unwrap()["reason"], "ReadinessGatesNotReady");
    c.merge_status(PODS, "p", json!({"status": {"conditions": [{"type": "example.com/lb", "status": "True"}]}}))
        .await?;
    c.until("Pod p to be Ready", async || c.get(PODS, "p").await.ok().filter(is_ready)).await?;
    Ok(())
}

async fn what_fits_nowhere_says_so(c: Context) -> Outcome {
    c.create(PODS, pod("p", "a").set("spec/nodeSelector", json!({"example.com/none": "here"}))).await?;
    let pod = c
        .until_object(PODS, "p", "Pod p to be said not to fit", |pod| condition(pod, "PodScheduled").is_some())
        .await?;
    let scheduled = condition(&pod, "PodScheduled").unwrap();
    assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert!(scheduled["message"].as_str().unwrap().starts_with("0/6 nodes are available: 6 node(s) didn't match"));
    Ok(())
}

async fn a_claim_in_use_waits_for_its_pod(c: Context) -> Outcome {
    for name in ["used", "unused"] {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let claim =
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec});
        let claim = c.create(CLAIMS, claim).await?;
        assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    }
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "used"}}]);
    c.create(PODS, pod("p", "a").set("spec/volumes", volumes)).await?;
    phase(&c, "p", "Running").await?;
    let until_gone = async |name: &str| {
        c.until(&format!("claim {name} to be gone"), async || c.get(CLAIMS, name).await.is_err().then_some(())).await
    };
    for name in ["used", "unused"] {
        c.delete(CLAIMS, name, "Background").await?;
    }
    until_gone("unused").await?;
    c.stays("the claim of the Pod is there", Duration::from_secs(2), async || c.get(CLAIMS, "used").await.is_ok())
        .await?;
    c.delete(PODS, "p", "Background").await?;
    until_gone("used").await
}

async fn many_pods_run_at_once(c: Context) -> Outcome {
    for i in 0..200 {
        c.create(PODS, pod(&format!("p{i}"), "a")).await?;
    }
    let pods =
        c.until_list(PODS, "200 Pods to be Ready", |pods| pods.iter().filter(|p| is_ready(p)).count() == 200).await?;
    let mut addresses: Vec<_> = pods.iter().map(|p| p["status"]["podIP"].to_string()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 200);
    Ok(())
}
