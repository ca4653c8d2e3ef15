//! The Pod templates of the revisions that Pods are created from.

use std::collections::BTreeMap;

use common::{
    prelude::*,
    revision::{CONTROLLER_REVISIONS, RevisionWithData},
};
use serde_json::{Value, json};

use super::{SetIo, body};
use crate::{
    plan::{
        PodWork, WorkPhase,
        revisions::{Revision, RevisionRole, Revisions, TemplateSource},
    },
    snapshot::{SharedRevision, Snapshot},
};

/// The Pod templates that one phase needs, by the names of their revisions. Each template is read and parsed once.
pub(super) struct PhaseTemplates<'r> {
    revisions: &'r Revisions,
    by_name: BTreeMap<&'r str, Template>,
}

/// A Pod template; `None` if the revision holds no template, or a malformed one. If the data of the revision could not be read,
/// the class and the text of the error.
type Template = Result<Option<Value>, (SyncErrorClass, String)>;

impl<'r> PhaseTemplates<'r> {
    /// Reads the templates of all revisions from which the phase creates Pods.
    pub(super) async fn read_for_phase(
        phase: &WorkPhase,
        snapshot: &Snapshot,
        revisions: &'r Revisions,
        io: SetIo<'_>,
    ) -> Self {
        let mut by_name = BTreeMap::new();
        for work in &phase.work {
            let PodWork::Create { revision_role, .. } = work else { continue };
            let revision = revisions.get(*revision_role);
            if !by_name.contains_key(&*revision.name) {
                by_name.insert(&*revision.name, read_template(snapshot, revision, io).await);
            }
        }
        Self { revisions, by_name }
    }

    /// Returns the name and the template of the revision with this role. `pod` is the Pod to create, for the error message.
    pub(super) fn get(&self, role: RevisionRole, pod: &str) -> Result<(&'r str, &Value), SyncError> {
        let revision: &'r str = &self.revisions.get(role).name;
        match self.by_name.get(revision) {
            Some(Ok(Some(template))) => Ok((revision, template)),
            Some(Err((class, text))) => Err(SyncError::new(*class, text.clone())),
            Some(Ok(None)) | None => {
                let text = format!("cannot make Pod {pod} from revision {revision}");
                Err(SyncError::new(SyncErrorClass::Template, text))
            }
        }
    }
}

/// Returns the template of a revision, which is read from the server unless the set holds the same template.
async fn read_template(snapshot: &Snapshot, revision: &Revision, io: SetIo<'_>) -> Template {
    let Snapshot { set, owner, .. } = snapshot;
    let template = match &revision.template_source {
        TemplateSource::Stored(stored_revision) => read_stored_template(stored_revision, io).await?,
        source => source.template_in_set(),
    };
    let makes_pods = |template: &Value| body::build_pod(set, owner, 0, template.clone(), &revision.name).is_some();
    Ok(template.filter(makes_pods))
}

async fn read_stored_template(stored_revision: &SharedRevision, io: SetIo<'_>) -> Template {
    let name = &stored_revision.meta.name;
    let request = Request::get(CONTROLLER_REVISIONS, &stored_revision.meta.namespace, name)
        .with_reason("Pods are created from it");
    let answer = io.send_and_decode::<RevisionWithData>(request).await;
    match answer.map(|live| live.map(RevisionWithData::into_revision_and_template)) {
        // A forecast sends no request, and assumes that the template is usable.
        Ok(None) => Ok(Some(json!({}))),
        Ok(Some((live, template))) if live.meta.uid == stored_revision.meta.uid => Ok(template),
        Ok(Some(_)) => Err((SyncErrorClass::Gone, format!("ControllerRevision {name} was replaced by another one"))),
        Err(refusal) => {
            let error = SyncError::from_refusal(&format!("cannot read ControllerRevision {name}"), &refusal);
            Err((error.class(), error.to_string()))
        }
    }
}
