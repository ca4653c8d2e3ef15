//! Marking a Pod as not ready.

use common::{
    api::Patch,
    conditions::{FALSE, seconds},
    events::EventType,
    pods::PODS,
    sequence::{Class, Failed, Request, Role, Sequence, Step, Steps, Turn},
};
use serde_json::json;

use super::monitor::Note;
use crate::{
    decide::readiness::{Plan, Snapshot},
    objects::READY,
};

/// The request that carries out `plan`. It names the version that was judged: a Pod that changed meanwhile is judged again.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    Steps::new((snapshot, plan), |(snapshot, plan), turn: &mut Turn<Note>| {
        if !plan.marks {
            return Step::Done;
        }
        let condition = |since| json!({"type": READY, "status": FALSE, "lastTransitionTime": seconds::text(since)});
        let body = turn.body(|| json!({"status": {"conditions": [condition(turn.now)]}}));
        let request = Request::patch(PODS, &snapshot.pod.meta, Patch::Strategic, body).role(Role::Itself);
        let request = request.doing("set its condition Ready to False").because(plan.why);
        Step::Send(Request { subresource: "status", ..request }, |(snapshot, _), turn| {
            match turn.written() {
                Ok(_) => turn.tell(EventType::Warning, "NodeNotReady", "Node is not ready"),
                Err(refusal) if refusal.class == Class::Gone => {}
                Err(refusal) => {
                    let what = format!("mark Pod {} as not ready", snapshot.pod.meta.key());
                    turn.end(Err(Failed::request(&what, &refusal)));
                }
            }
            Step::Done
        })
    })
}
