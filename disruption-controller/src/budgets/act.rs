//! Sends the requests of a sync: reads the sizes of owners, writes the status, or closes the budget.

use std::sync::Arc;

use common::{discovery::DiscoveredResources, prelude::*};

use super::{
    BudgetController,
    decide::{
        CountedPods, FailedStep, Failure, OwnerSize, Plan, PodOwner, Scale, Snapshot, closed_status, conclude,
        find_scaled_resource,
    },
};
use crate::objects::{BUDGETS, Budget, Status};

/// Runs a sync. A forecast ends before the sizes of owners are read, because all that follows depends on the answers.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, BudgetController>) -> Result<Requeue, SyncError> {
    if snapshot.pods.as_ref().is_ok_and(|pods| pods.census.pods == 0) {
        io.record_event(EventType::Normal, "NoPods", "No matching pods found");
    }
    let conclusion = match (&plan.conclusion, &snapshot.pods) {
        (Some(conclusion), _) => conclusion.clone(),
        (None, Ok(pods)) => match read_sizes(snapshot, pods, io).await {
            Ok(Some(sizes)) => conclude(snapshot, pods, &sizes),
            Ok(None) => return Ok(Requeue::AfterPlannedDelay),
            Err(failure) => Err(failure),
        },
        (None, Err(failure)) => Err(failure.clone()),
    };
    match conclusion {
        Ok(status) => write_computed_status(snapshot, &status, io).await,
        Err(failure) => {
            report(&failure, io);
            close(snapshot, failure, io).await
        }
    }
}

/// Records the Event of a failure. A write that has failed has none.
fn report(Failure { text, step, .. }: &Failure, io: Io<'_, BudgetController>) {
    match step {
        FailedStep::SelectPods => {
            io.record_event(EventType::Warning, "NoPods", format!("Failed to get pods: {text}"));
        }
        FailedStep::CountExpectedPods => {
            let message = format!("Failed to calculate the number of expected pods: {text}");
            io.record_event(EventType::Warning, "CalculateExpectedPodCountFailed", message);
        }
        FailedStep::WriteStatus => {}
    }
}

/// Returns the sizes of all owners, in their order; `None` in a forecast. The first failure ends the reads.
async fn read_sizes(
    snapshot: &Snapshot,
    pods: &CountedPods,
    io: Io<'_, BudgetController>,
) -> Result<Option<Vec<OwnerSize>>, Failure> {
    let Some(discovered) = discover(snapshot, io).await? else { return Ok(None) };
    let mut sizes = Vec::new();
    for (owner, cached) in pods.census.owners.iter().zip(&pods.sizes) {
        match cached.clone()? {
            Some(size) => sizes.push(size),
            None => match read_scale(&snapshot.budget.metadata.namespace, owner, &discovered, io).await? {
                Some(size) => sizes.push(size),
                None => return Ok(None),
            },
        }
    }
    Ok(Some(sizes))
}

/// Returns the resources that the server serves: those of the snapshot, or newly read ones. `None` in a forecast.
async fn discover(
    snapshot: &Snapshot,
    io: Io<'_, BudgetController>,
) -> Result<Option<Arc<DiscoveredResources>>, Failure> {
    if let Some(known) = &snapshot.discovered {
        return Ok(Some(Arc::clone(known)));
    }
    io.explain_deviation("what follows depends on the discovered resources");
    let began = io.now();
    let discovered = io.discover(&BUDGETS).await.map_err(|refusal| failure_of(&refusal))?;
    let discovered = discovered.map(Arc::new);
    if let Some(discovered) = &discovered {
        io.update_memory(|controller| controller.record_discovery(began, discovered));
    }
    Ok(discovered)
}

/// Reads the size of an owner from its subresource `scale`; `None` in a forecast.
async fn read_scale(
    namespace: &Text,
    PodOwner { reference, pod }: &PodOwner,
    discovered: &DiscoveredResources,
    io: Io<'_, BudgetController>,
) -> Result<Option<OwnerSize>, Failure> {
    let resource = find_scaled_resource(discovered, reference)?;
    let request = Request::get(resource, namespace, &Arc::from(reference.name.as_str())).with_subresource("scale");
    let answer = io.send_and_decode::<Scale>(request.with_reason("the caches lack the size of this owner")).await;
    io.explain_deviation("what follows depends on the sizes of the owners");
    match answer {
        Ok(Some(scale)) => scale.size_of(&reference.uid)?.map(Some).ok_or_else(|| Failure::without_owner(pod)),
        Ok(None) => Ok(None),
        Err(refusal) if refusal.error.is_object_absent() => Err(Failure::without_owner(pod)),
        Err(refusal) => Err(failure_of(&refusal)),
    }
}

/// Returns the failure of a refused read, with the message of the server.
fn failure_of(refusal: &Refusal) -> Failure {
    let class = SyncErrorClass::Request(refusal.error.metric_label());
    Failure::of_expected_count(class, refusal.error.to_string())
}

/// Writes the computed status if the stored one says something else. If that fails, the budget is closed.
async fn write_computed_status(
    snapshot: &Snapshot,
    status: &Status,
    io: Io<'_, BudgetController>,
) -> Result<Requeue, SyncError> {
    let Snapshot { budget, pods, .. } = snapshot;
    let census = pods.as_ref().map(|pods| &pods.census);
    if census.is_ok_and(|census| census.has_unmanaged_pods) {
        io.record_event(EventType::Warning, "UnmanagedPods", unmanaged_pods(&budget.spec.selector));
    }
    if status.is_settled_by(&budget.status) {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let why =
        format!("{} evictions are allowed, and {} were", status.disruptions_allowed, budget.status.disruptions_allowed);
    match write(budget, status, why, io).await {
        Ok(()) => {
            let not_deleted = census.map(|census| &*census.not_deleted).unwrap_or_default();
            if !not_deleted.is_empty() {
                io.update_memory(|controller| controller.report_pods_not_deleted(budget, not_deleted));
            }
            Ok(Requeue::AfterPlannedDelay)
        }
        Err(refusal) if refusal.is_not_found() => Ok(Requeue::AfterPlannedDelay),
        Err(refusal) if refusal.class == RefusalClass::VersionConflict => Ok(Requeue::Conflict),
        Err(refusal) => close(snapshot, Failure { step: FailedStep::WriteStatus, ..failure_of(&refusal) }, io).await,
    }
}

fn unmanaged_pods(selector: &Selector) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of \
         the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
         \".spec.minAvailable\" field of the PDB to an integer value."
    )
}

/// Closes the budget after a failure, unless it is closed with the same message, and fails the sync.
async fn close(
    Snapshot { budget, now, .. }: &Snapshot,
    failure: Failure,
    io: Io<'_, BudgetController>,
) -> Result<Requeue, SyncError> {
    let status = closed_status(&budget.status, &failure.text, *now);
    if status != *budget.status {
        match write(budget, &status, format!("the sync has failed: {}", failure.text), io).await {
            Err(refusal) if refusal.class == RefusalClass::VersionConflict => return Ok(Requeue::Conflict),
            Err(refusal) if !refusal.is_not_found() => {
                return Err(SyncError::from_refusal("cannot close the budget", &refusal));
            }
            _ => {}
        }
    }
    Err(SyncError::new(failure.class, failure.text))
}

async fn write(budget: &Budget, status: &Status, why: String, io: Io<'_, BudgetController>) -> Result<(), Refusal> {
    let body = io.encode_status::<Budget>(budget.metadata.replacement(), status, &budget.status.undeclared);
    io.send(Request::replace_status(BUDGETS, &budget.metadata, body).with_reason(why)).await.map(drop)
}
