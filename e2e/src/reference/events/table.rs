//! Every Event that a controller records.

use common::events::EventType::{self, Normal, Warning};

/// An Event.
pub(super) struct Event {
    /// The controller, or nothing for Events of every controller.
    pub(super) controller: &'static str,
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    /// The kind of the object that it is about.
    pub(super) object: &'static str,
    /// Empty if another row of the same reason says it.
    pub(super) when: &'static str,
    /// The file that records it, from the root of the repository.
    pub(super) file: &'static str,
}

const fn event(
    controller: &'static str,
    kind: EventType,
    reason: &'static str,
    object: &'static str,
    when: &'static str,
    file: &'static str,
) -> Event {
    Event { controller, kind, reason, object, when, file }
}

const LEADER: &str = "common/control/src/leader.rs";
const SECOND_WRITER: &str = "common/service/src/second_writer.rs";
const PODS: &str = "common/control/src/io/pods.rs";
const CLAIM: &str = "common/control/src/io/claim.rs";

/// Events of every controller.
#[rustfmt::skip]
pub(super) const COMMON: &[Event] = &[
    event("", Normal, "LeaderElection", "Lease", "A process became the leader, or it lost the Lease.", LEADER),
    event("", Normal, "ProbationBegun", "Lease", "A version that has not led before leads on probation (`--probation`).", LEADER),
    event("", Normal, "ProbationPassed", "Lease", "A version has led for the time of its probation.", LEADER),
    event("", Warning, "ProbationFailed", "Lease", "A version lost the Lease during its probation, and another version leads.", LEADER),
    event("", Warning, "SecondWriterFound", "Lease", "There is evidence that another process runs a loop of this leader. The Event is repeated each hour.", SECOND_WRITER),
    event("", Normal, "SecondWriterGone", "Lease", "There is no evidence of a second writer any more.", SECOND_WRITER),
];

const CLAIM_DENIED: &str =
    "The server denies that Pods are adopted or released: a right is missing, or a policy or a webhook forbids it.";
const POD_CREATED: &str = "A Pod was created.";
const POD_NOT_CREATED: &str = "The creation of a Pod failed, or admission changed the Pod so that it does not belong to its owner. There is no Event while the namespace is terminating.";
const POD_DELETED: &str = "A Pod was deleted.";
const POD_NOT_DELETED: &str = "The deletion of a Pod failed for another reason than a change of the Pod.";

const DEPLOYMENT: &str = "deployment-controller";
const REPLICA_SET: &str = "replicaset-controller";
const STATEFUL_SET: &str = "statefulset-controller";
const DAEMON_SET: &str = "daemonset-controller";
const JOB: &str = "job-controller";
const CRON_JOB: &str = "cronjob-controller";
const ENDPOINT_SLICE: &str = "endpointslice-controller";
const GC: &str = "gc-controller";
const NODE: &str = "node-lifecycle-controller";

const SETS: &str = "ReplicaSet, ReplicationController";
const OWNER: &str = "the owner, or the dependent";

/// Events of single controllers.
#[rustfmt::skip]
pub(super) const EVENTS: &[Event] = &[
    event(DEPLOYMENT, Normal, "ScalingReplicaSet", "Deployment", "A ReplicaSet was created with a size above 0, or its size was changed.", "deployment-controller/src/decide/create.rs"),
    event(DEPLOYMENT, Normal, "ScalingReplicaSet", "Deployment", "", "deployment-controller/src/decide/scale.rs"),
    event(DEPLOYMENT, Warning, "ReplicaSetCreateError", "Deployment", "The new ReplicaSet cannot be created.", "deployment-controller/src/decide/create.rs"),
    event(DEPLOYMENT, Warning, "SelectingAll", "Deployment", "The selector is empty. The ReplicaSets stay as they are.", "deployment-controller/src/decide.rs"),
    event(DEPLOYMENT, Normal, "DeploymentRollback", "Deployment", "The template was replaced by that of the revision that the annotation `deprecated.deployment.rollback.to` names.", "deployment-controller/src/decide/rollback.rs"),
    event(DEPLOYMENT, Warning, "DeploymentRollbackRevisionNotFound", "Deployment", "There is no ReplicaSet of the revision to roll back to, or no earlier revision.", "deployment-controller/src/decide/rollback.rs"),
    event(DEPLOYMENT, Warning, "DeploymentRollbackTemplateUnchanged", "Deployment", "The revision to roll back to has the template that the Deployment has.", "deployment-controller/src/decide/rollback.rs"),
    event(DEPLOYMENT, Warning, "FailedUpdate", "Deployment", "The server denies that ReplicaSets are adopted, released or changed, or that a rollback is done.", "deployment-controller/src/act.rs"),
    event(DEPLOYMENT, Warning, "FailedDelete", "Deployment", "The server denies the deletion of an old ReplicaSet.", "deployment-controller/src/act.rs"),

    event(REPLICA_SET, Normal, "SuccessfulCreate", SETS, POD_CREATED, PODS),
    event(REPLICA_SET, Warning, "FailedCreate", SETS, POD_NOT_CREATED, PODS),
    event(REPLICA_SET, Normal, "SuccessfulDelete", SETS, POD_DELETED, PODS),
    event(REPLICA_SET, Warning, "FailedDelete", SETS, POD_NOT_DELETED, PODS),
    event(REPLICA_SET, Warning, "FailedUpdate", SETS, CLAIM_DENIED, CLAIM),

    event(STATEFUL_SET, Normal, "SuccessfulCreate", "StatefulSet", "A Pod or a PersistentVolumeClaim was created.", "statefulset-controller/src/act/pod.rs"),
    event(STATEFUL_SET, Warning, "FailedCreate", "StatefulSet", "The creation of a Pod or a PersistentVolumeClaim failed, or another object has the name of the Pod.", "statefulset-controller/src/act/pod.rs"),
    event(STATEFUL_SET, Warning, "FailedCreate", "StatefulSet", "The server denies the creation of a ControllerRevision.", "statefulset-controller/src/act.rs"),
    event(STATEFUL_SET, Normal, "SuccessfulUpdate", "StatefulSet", "The labels or the claims of a Pod were repaired.", "statefulset-controller/src/act/pod.rs"),
    event(STATEFUL_SET, Normal, "SuccessfulUpdate", "StatefulSet", "A Pod was adopted and got the labels that it lacked.", "statefulset-controller/src/lib.rs"),
    event(STATEFUL_SET, Warning, "FailedUpdate", "StatefulSet", "A repair of a Pod or of its claims failed.", "statefulset-controller/src/act/pod.rs"),
    event(STATEFUL_SET, Warning, "FailedUpdate", "StatefulSet", "The server denies that Pods or ControllerRevisions are adopted or released: a right is missing, or a policy or a webhook forbids it.", CLAIM),
    event(STATEFUL_SET, Normal, "SuccessfulDelete", "StatefulSet", POD_DELETED, "statefulset-controller/src/act/pod.rs"),
    event(STATEFUL_SET, Warning, "FailedDelete", "StatefulSet", POD_NOT_DELETED, "statefulset-controller/src/act/pod.rs"),
    event(STATEFUL_SET, Warning, "ConflictingController", "StatefulSet", "A PersistentVolumeClaim has another controller, so the retention policy is ignored for it.", "statefulset-controller/src/act/pod.rs"),
    event(STATEFUL_SET, Warning, "TooManyClaims", "StatefulSet", "The set has more PersistentVolumeClaims than it may have. The Pods stay as they are.", "statefulset-controller/src/lib.rs"),
    event(STATEFUL_SET, Warning, "ClaimMismatch", "StatefulSet", "A PersistentVolumeClaim that exists falls short of its template, and is used as it is. Each difference is reported once by a process.", "statefulset-controller/src/lib.rs"),

    event(DAEMON_SET, Normal, "SuccessfulCreate", "DaemonSet", POD_CREATED, PODS),
    event(DAEMON_SET, Warning, "FailedCreate", "DaemonSet", POD_NOT_CREATED, PODS),
    event(DAEMON_SET, Warning, "FailedCreate", "DaemonSet", "The creation of a ControllerRevision failed.", "daemonset-controller/src/act/revisions.rs"),
    event(DAEMON_SET, Normal, "SuccessfulDelete", "DaemonSet", POD_DELETED, "daemonset-controller/src/act/pods.rs"),
    event(DAEMON_SET, Warning, "FailedDelete", "DaemonSet", POD_NOT_DELETED, "daemonset-controller/src/act/pods.rs"),
    event(DAEMON_SET, Warning, "FailedDelete", "DaemonSet", "The server denies the deletion of a ControllerRevision.", "daemonset-controller/src/act.rs"),
    event(DAEMON_SET, Warning, "FailedUpdate", "DaemonSet", "The server denies that Pods or ControllerRevisions are adopted, released or changed.", "daemonset-controller/src/act.rs"),
    event(DAEMON_SET, Warning, "FailedDaemonPod", "DaemonSet", "A Pod has failed and will be deleted.", "daemonset-controller/src/act/pods.rs"),
    event(DAEMON_SET, Normal, "SucceededDaemonPod", "DaemonSet", "A Pod has succeeded and will be deleted.", "daemonset-controller/src/act/pods.rs"),
    event(DAEMON_SET, Warning, "SelectingAll", "DaemonSet", "The selector is empty. The Pods stay as they are.", "daemonset-controller/src/lib.rs"),

    event(JOB, Normal, "SuccessfulCreate", "Job", POD_CREATED, PODS),
    event(JOB, Warning, "FailedCreate", "Job", POD_NOT_CREATED, PODS),
    event(JOB, Warning, "FailedCreate", "Job", "The server denies the creation of a Workload or a PodGroup (gate `WorkloadWithJob`).", "job-controller/src/jobs/act/gang.rs"),
    event(JOB, Normal, "SuccessfulDelete", "Job", POD_DELETED, PODS),
    event(JOB, Warning, "FailedDelete", "Job", POD_NOT_DELETED, PODS),
    event(JOB, Warning, "FailedUpdate", "Job", CLAIM_DENIED, CLAIM),
    event(JOB, Warning, "FailedUpdate", "Job", "The server denies the removal of the finalizer of Pods.", "job-controller/src/jobs/act/finalizers.rs"),
    event(JOB, Normal, "WorkloadCreated", "Job", "A Workload was created for the Job (gate `WorkloadWithJob`).", "job-controller/src/jobs/act/gang.rs"),
    event(JOB, Normal, "Suspended", "Job", "The Job was suspended.", "job-controller/src/jobs/act.rs"),
    event(JOB, Normal, "Resumed", "Job", "The Job was resumed.", "job-controller/src/jobs/act.rs"),
    event(JOB, Warning, "UnknownCompletionMode", "Job", "This version does not know the completion mode. The Job is left alone.", "job-controller/src/jobs.rs"),
    event(JOB, Normal, "Completed", "Job", "The Job is complete.", "job-controller/src/jobs/act/count.rs"),
    event(JOB, Warning, "TooManySucceededPods", "Job", "The Job is complete and has more succeeded Pods than it needs.", "job-controller/src/jobs/act/count.rs"),
    event(JOB, Warning, "BackoffLimitExceeded", "Job", "The Job failed: more Pods failed than `backoffLimit` allows.", "job-controller/src/jobs/act/count.rs"),
    event(JOB, Warning, "DeadlineExceeded", "Job", "The Job failed: it was active for longer than `activeDeadlineSeconds`.", "job-controller/src/jobs/act/count.rs"),
    event(JOB, Warning, "PodFailurePolicy", "Job", "The Job failed: a failed Pod matched a rule of `podFailurePolicy` whose action is `FailJob`.", "job-controller/src/jobs/act/count.rs"),
    event(JOB, Warning, "FailedIndexes", "Job", "The Job failed: it has failed indexes.", "job-controller/src/jobs/act/count.rs"),
    event(JOB, Warning, "MaxFailedIndexesExceeded", "Job", "The Job failed: more indexes failed than `maxFailedIndexes` allows.", "job-controller/src/jobs/act/count.rs"),

    event(CRON_JOB, Normal, "SuccessfulCreate", "CronJob", "A Job was created.", "cronjob-controller/src/act.rs"),
    event(CRON_JOB, Warning, "FailedCreate", "CronJob", "The creation of a Job failed, or another Job has its name.", "cronjob-controller/src/act.rs"),
    event(CRON_JOB, Warning, "FailedCreate", "CronJob", "No Job can be made from the template.", "cronjob-controller/src/decide/create.rs"),
    event(CRON_JOB, Normal, "SuccessfulDelete", "CronJob", "A Job was deleted: it is beyond the history limits, or another run replaces it.", "cronjob-controller/src/act.rs"),
    event(CRON_JOB, Warning, "FailedDelete", "CronJob", "The deletion of a Job failed for another reason than a change of the Job.", "cronjob-controller/src/act.rs"),
    event(CRON_JOB, Normal, "SawCompletedJob", "CronJob", "A Job of the CronJob has finished.", "cronjob-controller/src/decide/runs.rs"),
    event(CRON_JOB, Warning, "UnexpectedJob", "CronJob", "The CronJob controls an active Job that its status does not list and that is no run of its schedule.", "cronjob-controller/src/decide/record.rs"),
    event(CRON_JOB, Normal, "MissingJob", "CronJob", "A Job that the status lists as active does not exist.", "cronjob-controller/src/decide/record.rs"),
    event(CRON_JOB, Normal, "JobAlreadyActive", "CronJob", "A run is due, a Job is active, and the concurrency policy is `Forbid`.", "cronjob-controller/src/decide/create.rs"),
    event(CRON_JOB, Warning, "TooManyMissedTimes", "CronJob", "Many runs were missed.", "cronjob-controller/src/decide/create.rs"),
    event(CRON_JOB, Warning, "UnsupportedSchedule", "CronJob", "The schedule names a time zone by `TZ` or `CRON_TZ`.", "cronjob-controller/src/decide/create.rs"),
    event(CRON_JOB, Warning, "UnknownTimeZone", "CronJob", "`timeZone` is not known.", "cronjob-controller/src/decide/create.rs"),
    event(CRON_JOB, Warning, "UnparseableSchedule", "CronJob", "The schedule cannot be parsed, at a sync.", "cronjob-controller/src/decide/create.rs"),
    event(CRON_JOB, Warning, "UnParseableCronJobSchedule", "CronJob", "The schedule was changed to one that cannot be parsed.", "cronjob-controller/src/watch.rs"),
    event(CRON_JOB, Warning, "InvalidSchedule", "CronJob", "No time of the next run can be computed from the schedule.", "cronjob-controller/src/decide/create.rs"),

    event(ENDPOINT_SLICE, Warning, "FailedToUpdateEndpointSlices", "Service", "A sync of the EndpointSlices of a Service failed.", "endpointslice-controller/src/slices.rs"),
    event(ENDPOINT_SLICE, Normal, "TopologyAwareHintsEnabled", "Service", "The endpoints have got hints by the capacity of zones.", "endpointslice-controller/src/slices/decide/distribution.rs"),
    event(ENDPOINT_SLICE, Warning, "TopologyAwareHintsDisabled", "Service", "Hints by the capacity of zones were switched off, or cannot be given.", "endpointslice-controller/src/slices/decide/distribution.rs"),
    event(ENDPOINT_SLICE, Warning, "InvalidIPAddress", "Endpoints", "Addresses of Endpoints were not mirrored because they are no IP addresses.", "endpointslice-controller/src/mirroring/decide.rs"),
    event(ENDPOINT_SLICE, Warning, "TooManyAddressesToMirror", "Endpoints", "Addresses of Endpoints were not mirrored: a subset has more than `--mirroring-max-endpoints-per-subset`.", "endpointslice-controller/src/mirroring/decide.rs"),
    event(ENDPOINT_SLICE, Warning, "FailedToCreateEndpoint", "Endpoints", "The creation of Endpoints failed.", "endpointslice-controller/src/endpoints.rs"),
    event(ENDPOINT_SLICE, Warning, "FailedToUpdateEndpoint", "Endpoints", "A change of Endpoints failed.", "endpointslice-controller/src/endpoints.rs"),

    event(GC, Warning, "OwnerRefInvalidNamespace", "any dependent", "An owner reference names an object that is not in the namespace of the dependent.", "gc-controller/src/collection.rs"),
    event(GC, Warning, "FailedUpdate", OWNER, "The server denies a change of owner references.", "gc-controller/src/place.rs"),

    event(NODE, Normal, "RegisteredNode", "Node", "A node was seen for the first time by this process.", "node-lifecycle-controller/src/monitor.rs"),
    event(NODE, Normal, "RemovingNode", "Node", "A node was deleted.", "node-lifecycle-controller/src/monitor.rs"),
    event(NODE, Normal, "NodeNotReady", "Node", "The condition `Ready` of a node is no longer `True`.", "node-lifecycle-controller/src/monitor.rs"),
    event(NODE, Warning, "NodeNotReady", "Pod", "The condition `Ready` of a Pod was set to `False` because its node is not ready.", "node-lifecycle-controller/src/monitor/readiness.rs"),
    event(NODE, Warning, "ManyNodesTainted", "Namespace", "The share of nodes that have a `NoExecute` taint, or wait for it, is larger than `--node-taint-alarm-share`. The object is the namespace of the Leases of nodes.", "node-lifecycle-controller/src/monitor/tainting.rs"),
    event(NODE, Normal, "TaintManagerEviction", "Pod", "A Pod is about to be deleted because of a `NoExecute` taint, or its pending deletion was cancelled.", "node-lifecycle-controller/src/eviction/act.rs"),
];
