//! The ports of a Service: their port numbers on each Pod, and the comparison with the ports of a slice.
//!
//! A Service can have ten thousand ports, and a named port can have a different number on each Pod. Building the full list of
//! ports for each Pod is too slow, so Pods are compared by the numbers of their few named ports.

use std::{collections::BTreeSet, sync::Arc};

use common::{intern::Text, intstr::IntOrString};

use crate::objects::{Pod, Service, ServicePort, SlicePort};

/// The port numbers of the named ports on a Pod, as pairs of a position in `ServicePorts::targets` and a port number, sorted by
/// position.
pub type NamedPortNumbers = [(usize, i32)];

/// The ports of a Service, with indexes that make the comparison with many Pods and slices cheap.
#[derive(Clone, Debug, Default)]
pub struct ServicePorts<'a> {
    ports: &'a [ServicePort],
    /// Name and protocol of each Pod port to which a Service port refers by name; sorted, without duplicates.
    targets: Vec<(&'a str, &'a str)>,
    /// For each Service port, the position of its Pod port in `targets`; `None` for a port with the same number on every Pod.
    target_of: Vec<Option<usize>>,
    /// For each element of `targets`, the number of Service ports that refer to it.
    uses: Vec<usize>,
    /// The number of Service ports that have the same port number on every Pod.
    fixed: usize,
    /// Positions in `ports`, sorted by the [`Identity`] of the port at each position.
    sorted: Vec<usize>,
    /// Positions in `ports`: first the ports with the same number on every Pod, then the other ports in the order of `targets`.
    by_target: Vec<usize>,
}

/// The name, protocol and application protocol that a Service port and its port in a slice have in common.
type Identity<'a> = (&'a Text, &'a Text, &'a Option<Text>);

fn service_port_identity(port: &ServicePort) -> Identity<'_> {
    (&port.name, &port.protocol, &port.app_protocol)
}

fn identity(port: &SlicePort) -> Identity<'_> {
    (&port.name, &port.protocol, &port.app_protocol)
}

/// Returns the name and protocol of the Pod port that a Service port refers to by name; `None` if it refers to a number.
fn target(port: &ServicePort) -> Option<(&str, &str)> {
    match &port.target_port {
        Some(IntOrString::Text(name)) => Some((name, &port.protocol)),
        Some(IntOrString::Int(_)) | None => None,
    }
}

/// Returns the number on every Pod of a Service port that does not refer to a Pod port by name.
fn fixed_number(port: &ServicePort) -> i32 {
    match &port.target_port {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::Text(_)) | None => port.port,
    }
}

impl<'a> ServicePorts<'a> {
    /// Builds the indexes; the cost is that of sorting the ports of the Service.
    pub fn new(service: &'a Service) -> Self {
        let ports = &*service.spec.ports;
        let targets: BTreeSet<(&str, &str)> = ports.iter().filter_map(target).collect();
        let targets: Vec<(&str, &str)> = targets.into_iter().collect();
        let target_of: Vec<Option<usize>> =
            ports.iter().map(|port| targets.binary_search(&target(port)?).ok()).collect();
        let mut uses = vec![0; targets.len()];
        target_of.iter().flatten().for_each(|target| uses[*target] += 1);
        let mut sorted: Vec<usize> = (0..ports.len()).collect();
        // The sort is stable: ports with the same identity keep the order that they have in the Service.
        sorted.sort_by_key(|at| service_port_identity(&ports[*at]));
        let mut by_target: Vec<usize> = (0..ports.len()).collect();
        by_target.sort_by_key(|at| target_of[*at]);
        let fixed = ports.len() - uses.iter().sum::<usize>();
        Self { ports, targets, target_of, uses, fixed, sorted, by_target }
    }

    /// Replaces `numbers` with the port numbers of the named ports on a Pod. Ports that the Pod does not have are omitted.
    pub fn resolve_named_ports(&self, pod: &Pod, numbers: &mut Vec<(usize, i32)>) {
        numbers.clear();
        if self.targets.len() <= pod.named_ports.len() {
            let number =
                |(at, (name, protocol)): (usize, &(&str, &str))| Some((at, pod.named_port_number(name, protocol)?));
            numbers.extend(self.targets.iter().enumerate().filter_map(number));
            return;
        }
        for port in &pod.named_ports {
            let Ok(at) = self.targets.binary_search(&(&*port.name, &*port.protocol)) else { continue };
            // If several ports of the Pod have the same name and protocol, the first of them is used.
            if numbers.last().is_none_or(|(last, _)| *last != at) {
                numbers.push((at, port.number));
            }
        }
    }

    /// Counts the Service ports that exist on a Pod with these port numbers of its named ports.
    pub fn service_port_count_on_pod(&self, numbers: &NamedPortNumbers) -> usize {
        self.fixed + numbers.iter().map(|(target, _)| self.uses[*target]).sum::<usize>()
    }

    /// Counts the Service ports that refer to the Pod port at this position in `targets`; `None` counts all other ports.
    pub fn service_port_count_of_target_port(&self, target: Option<usize>) -> usize {
        target.map_or(self.fixed, |target| self.uses[target])
    }

    /// Returns the Service ports that refer to one named Pod port, each with its port number. `target` is the position in
    /// `targets` and the port number; `None` stands for the Service ports that do not refer to a Pod port by name.
    pub fn service_ports_of_target_port(
        &self,
        target: Option<(usize, i32)>,
    ) -> impl Iterator<Item = (&'a ServicePort, i32)> {
        let position = target.map(|(target, _)| target);
        let first = self.by_target.partition_point(|at| self.target_of[*at] < position);
        let theirs = self.by_target.iter().skip(first).take(self.service_port_count_of_target_port(position));
        theirs.map(move |at| {
            let port = &self.ports[*at];
            (port, target.map_or_else(|| fixed_number(port), |(_, number)| number))
        })
    }

    /// Builds the ports of a slice for Pods with these numbers of named ports, in the order of the ports in the Service.
    pub fn build_slice_ports(&self, numbers: &NamedPortNumbers) -> Arc<[SlicePort]> {
        let number = |(port, target): (&'a ServicePort, &Option<usize>)| match target {
            None => Some((port, fixed_number(port))),
            Some(target) => {
                let at = numbers.binary_search_by_key(target, |(target, _)| *target).ok()?;
                Some((port, numbers[at].1))
            }
        };
        let mut list = Vec::with_capacity(self.service_port_count_on_pod(numbers));
        list.extend(self.ports.iter().zip(&self.target_of).filter_map(number).map(|(port, number)| SlicePort {
            name: port.name.clone(),
            port: Some(number),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        }));
        list.into()
    }

    /// Returns the numbers of named ports for which [`build_slice_ports`](Self::build_slice_ports) gives these slice ports in
    /// any order; `None` if no numbers give them.
    ///
    /// The cost grows with the number of ports in the slice, not in the Service. The result is unique, because the API server
    /// requires a different name for each port of a Service.
    pub fn named_port_numbers_of_slice(&self, ports: &[SlicePort]) -> Option<Vec<(usize, i32)>> {
        let mut theirs: Vec<&SlicePort> = ports.iter().collect();
        theirs.sort_by_key(|port| identity(port));
        let mut numbers = Vec::new();
        let mut rest = &*self.sorted;
        for port in theirs {
            let before = rest.partition_point(|at| service_port_identity(&self.ports[*at]) < identity(port));
            let (at, others) = rest.get(before..)?.split_first()?;
            rest = others;
            let own = &self.ports[*at];
            let number = port.port?;
            match self.target_of[*at] {
                _ if service_port_identity(own) != identity(port) => return None,
                Some(target) => numbers.push((target, number)),
                None if number == fixed_number(own) => {}
                None => return None,
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        let is_one_each = numbers.windows(2).all(|pair| pair[0].0 != pair[1].0);
        (is_one_each && self.service_port_count_on_pod(&numbers) == ports.len()).then_some(numbers)
    }
}
