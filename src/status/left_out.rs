//! What is said of GPU nodes that are to be left out, beside the verdict on the others.
//!
//! Such nodes count for nothing, so their state would show nowhere: one still in use, one that stays cordoned, and names of worker
//! pools that are perhaps misspelt.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Report;
use super::operands::{Operands, STARTING_LIMIT};
use crate::api::State;
use crate::facts::{NodeFacts, PodList, WorkFacts, first_few};
use crate::nodes::KeptOut;
use crate::plan::{NodeLabel, Plan};

/// After so many tries a label that is refused is told: one more that fails may be by chance.
const TOLD_AFTER: u32 = 2;

/// The verdict where nothing is wrong with the nodes that take part. Where none does since `spec.nodes.include` names worker pools whose
/// nodes have no GPU, a person must act; pools without any node may grow from zero.
pub fn judge(report: &Report<'_>, good: Operands) -> Operands {
    let (young, barren): (Vec<_>, Vec<_>) = pools_in_vain(report).partition(|(_, known)| report.now < *known);
    if barren.is_empty() {
        let known = young.into_iter().map(|(_, known)| known);
        return Operands {
            recheck: known.chain(good.recheck).min(),
            ..good
        };
    }
    let names = first_few(barren.iter().map(|(pool, _)| pool));
    let message = format!(
        "no GPU node takes part, since no node in {names} has a GPU, which spec.nodes.include names: name worker pools with GPUs{}",
        others(report)
    );
    Operands::not(State::Warning, "WorkerPoolWithoutGpu", message)
}

/// Worker pools that `spec.nodes.include` names although their nodes have no GPU, where no GPU node takes part, and from when on that is
/// known: a node has no label that tells of its GPU before it is set up.
fn pools_in_vain<'a>(report: &Report<'a>) -> impl Iterator<Item = (&'a str, Timestamp)> {
    let named = match report.rules.spec {
        Some(spec) if none_takes_part(report) => spec.include.as_slice(),
        _ => &[],
    };
    let pools = &report.observed.pools_without_gpu;
    named.iter().filter_map(|pool| {
        let first = pools.get(pool)?;
        Some((
            pool.as_str(),
            first.saturating_add(STARTING_LIMIT).unwrap_or(*first),
        ))
    })
}

fn none_takes_part(report: &Report<'_>) -> bool {
    let takes_part = |node: &NodeFacts| report.rules.judge(node).kept_out.is_none();
    !report.observed.gpu_nodes.iter().any(takes_part)
}

/// Where there are GPU nodes, in words that follow others.
fn others(report: &Report<'_>) -> String {
    let pools = pools(report);
    if pools.is_empty() {
        return String::new();
    }
    format!("; there are GPU nodes in {}", first_few(pools.iter()))
}

/// What else there is to know, in words that follow others.
pub fn note(report: &Report<'_>) -> Option<String> {
    if report.deleting.is_some() || matches!(report.plan, Plan::Hold(_)) {
        return None;
    }
    let notes = [
        refused(report),
        in_use(report),
        cordoned(report),
        without_nodes(report),
    ];
    let notes: Vec<_> = notes.into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Nodes whose labels cannot be changed, with one of the reasons.
fn refused(report: &Report<'_>) -> Option<String> {
    let nodes = report.observed.gpu_nodes.iter();
    let nodes: Vec<_> = nodes.chain(&report.observed.former_gpu_nodes).collect();
    let is_there = |label: &NodeLabel| nodes.iter().any(|node| node.uid == label.uid);
    let tried = report.labelled.more_than(TOLD_AFTER);
    let refused = tried.filter_map(|(label, error)| Some((label, error.as_ref()?)));
    let refused: Vec<_> = refused.filter(|(label, _)| is_there(label)).collect();
    let (_, error) = refused.first()?;
    let names = first_few(refused.iter().map(|(label, _)| &label.node));
    Some(format!(
        "the labels of nodes {names} cannot be changed, which is tried again: {error}"
    ))
}

/// Nodes that are left out later, and what for.
fn in_use(report: &Report<'_>) -> Option<String> {
    let observed = report.observed;
    let wanted = observed.nodes_in_reach().filter(|node| !node.leaving);
    let wanted = wanted.filter(|node| report.rules.judge(node).kept_out == Some(KeptOut::BySpec));
    let (used, what_for): (Vec<_>, _) = match (&observed.gpu_work, &observed.maintenance) {
        (Some(work), _) => {
            let used: Vec<_> = wanted
                .filter(|node| work.is_used(&node.name) == Some(true))
                .collect();
            let what_for = match work {
                WorkFacts::Read(pods) | WorkFacts::Remembered(pods) => {
                    let pods = pods
                        .iter()
                        .filter(|pod| used.iter().any(|node| node.name == pod.node));
                    let pods: Vec<_> = pods.cloned().collect();
                    format!("waits for {}", PodList(&pods))
                }
                WorkFacts::Unreadable(why) => format!("waits, since GPU work cannot be read: {why}"),
            };
            (used, what_for)
        }
        (None, Some(Ok(window))) if !window.contains(report.now) => (
            wanted.collect(),
            format!("waits for the maintenance window {window}"),
        ),
        (None, Some(Err(why))) => (
            wanted.collect(),
            format!("waits, since the maintenance window is not known: {why}"),
        ),
        (None, _) => return None,
    };
    let names = first_few(used.iter().map(|node| &node.name));
    (!used.is_empty()).then(|| format!("leaving out GPU nodes {names} {what_for}"))
}

/// Nodes that are left out and that nobody uncordons any more.
fn cordoned(report: &Report<'_>) -> Option<String> {
    let nodes = report.observed.gpu_nodes.iter();
    let cordoned = nodes.filter(|node| node.is_kept_off() && !node.schedulable && !node.leaving);
    let names: Vec<_> = cordoned.map(|node| &node.name).collect();
    let words = || {
        format!(
            "left out and cordoned: {}, use kubectl uncordon if Pods are to run there",
            first_few(names.iter())
        )
    };
    (!names.is_empty()).then(words)
}

/// Worker pools that the spec names and that have no GPU node, where there are any.
fn without_nodes(report: &Report<'_>) -> Option<String> {
    let spec = report.rules.spec?;
    let pools = pools(report);
    let named: BTreeSet<_> = spec.include.iter().chain(&spec.exclude).collect();
    let missing: Vec<_> = named
        .into_iter()
        .filter(|pool| !pools.contains(pool.as_str()))
        .collect();
    let told = pools_in_vain(report).any(|(_, known)| report.now >= known);
    if missing.is_empty() || pools.is_empty() || told {
        return None;
    }
    let missing = first_few(missing.iter());
    Some(if !spec.include.is_empty() && none_takes_part(report) {
        format!(
            "no GPU node is in {missing}, which spec.nodes names: correct the names, or wait if these pools have no nodes yet{}",
            others(report)
        )
    } else {
        format!("no GPU node is in {missing}, which spec.nodes names")
    })
}

/// Worker pools of the GPU nodes.
fn pools<'a>(report: &Report<'a>) -> BTreeSet<&'a str> {
    let nodes = report.observed.gpu_nodes.iter();
    nodes.filter_map(|node| node.pool.as_deref()).collect()
}
