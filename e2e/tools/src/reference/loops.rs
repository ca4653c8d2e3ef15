//! The page of the loops of kube-controller-manager, from the tables of the plug-in.

use common::process::built_in_flags::loop_names;
use kubectl_nonet::{
    controllers::controller_of_loop,
    remaining_loops::{ALL, LoopStart, RemainingLoop},
};

use super::markdown::{code, codes, head, section, table};

/// The page of all loops.
pub(super) fn page() -> String {
    let ours: Vec<Vec<String>> = loop_names()
        .filter_map(|name| {
            let controller = controller_of_loop(name)?.name;
            Some(vec![name.to_owned(), format!("[{controller}](../behaviour/{controller}.md)")])
        })
        .collect();
    let usual: Vec<Vec<String>> = ALL.iter().filter(|each| each.start.is_usual()).map(row).collect();
    let others: Vec<Vec<String>> = ALL.iter().filter(|each| !each.start.is_usual()).map(row).collect();
    let introduction = format!(
        "Kubernetes 1.36 has {} loops. Nonet runs {} of them. {} more run in a kube-controller-manager with its default flags or with \
            those of kubeadm, and {} run only on request, or no more. In a cluster without kube-controller-manager, no process runs \
            the loops that are not in Nonet. `kubectl nonet check --without-manager` names those that your cluster needs. A \
            kube-controller-manager can run a few of them beside Nonet: its flag `--controllers` then has their names. \
            [Operating](../operating.md#without-kube-controller-manager) has the procedure.",
        loop_names().count(),
        ours.len(),
        usual.len(),
        others.len(),
    );
    let mut page = head("The loops of kube-controller-manager", &introduction);
    let columns = ["loop", "kube-controller-manager starts it", "without it"];
    section(&mut page, "## Not in Nonet", &table(&columns, &usual));
    section(&mut page, "## Not in Nonet, and not usual", &table(&columns, &others));
    section(&mut page, "## In Nonet", &table(&["loop", "controller"], &ours));
    page
}

fn row(remaining: &RemainingLoop) -> Vec<String> {
    let start = match remaining.start {
        LoopStart::Default => "by default".to_owned(),
        LoopStart::WithFlags(flags) => format!("with {}, as kubeadm does", codes(flags.split(' '))),
        LoopStart::FlagsAlone(flags) => {
            format!("with {}, as kubeadm does, whatever `--controllers` says", codes(flags.split(' ')))
        }
        LoopStart::NamedByKubeadm => "if `--controllers` has its name, as with kubeadm".to_owned(),
        LoopStart::Named => "if `--controllers` has its name".to_owned(),
        LoopStart::Gates(gates) => format!("with the feature gate {}", codes(gates.iter().copied())),
        LoopStart::Never => "no more: it is in the cloud-controller-managers".to_owned(),
    };
    vec![code(remaining.name), start, remaining.loss.to_owned()]
}
