//! The cases of the alert about absent controllers for `promtool test rules`.

use super::{File, MARK, by_port, expand, template};

/// The controller that is absent at first. The foreign series of the cases have its name.
const ABSENT: &str = "gc-controller";

pub(super) fn files() -> [File; 1] {
    let others = by_port().into_iter().filter(|controller| controller.name != ABSENT);
    let (_, template) = template!("alerts/absence.yaml");
    let text = format!("# {MARK}.\n{}", expand(template, others));
    [File { path: "e2e/tests/deploy/alerts/absence.yaml".to_owned(), text }]
}
