//! The same for programs: the fields of `cohabit show --json`, described in docs/json.md. Matrices are the profile's
//! own and stay in its file.

use super::{ShowOptions, matrix, ranks, summary, unit};
use crate::number::sum;
use cohabit_model::Profile;
use cohabit_model::metrics::advice::Advice;
use cohabit_model::metrics::table::{Known, METRICS};
use cohabit_model::metrics::{Structure, metrics};
use cohabit_model::profile::DataObject;
use serde_json::{Value, json};

/// Totals, coverage, strongest pairs, metrics, verdict, and the hot blocks where `options.hot`.
pub fn document(profile: &Profile, options: &ShowOptions) -> Value {
    let matrix = matrix(profile, options.weight);
    let mut pairs: Vec<_> = matrix.iter().filter(|entry| entry.0 != entry.1).collect();
    pairs.sort_unstable_by_key(|&(source, destination, value)| (std::cmp::Reverse(value), source, destination));
    pairs.truncate(options.top);
    let pair = |&(source, destination, value): &(u32, u32, u64)| json!({"source": source, "destination": destination, "value": value});
    let size =
        |(class, (messages, bytes)): (&u32, &(u64, u64))| json!({"class": class, "messages": messages, "bytes": bytes});
    let metrics = metrics(matrix);
    let structure = metrics.structure();
    let meta = &profile.meta;
    let channels = &meta.unseen_channels;
    let advice = summary::advice(profile, options);
    let mut document = json!({
        "kind": meta.kind, "detector": meta.detector, "block_bytes": meta.block_bytes, "window_ns": meta.window_ns,
        "profiled_command": meta.command, "tasks": meta.tasks, "coverage": meta.coverage, "weight": unit(options.weight),
        "totals": {
            "messages": sum(profile.messages.total()),
            "bytes": sum(profile.bytes.total()),
            "invalidations": profile.invalidations.as_ref().map(|matrix| sum(matrix.total())),
            "sharing": profile.sharing.as_ref().map(|matrix| sum(matrix.total())),
        },
        "phases": profile.phase_totals().iter().map(|(messages, bytes)| json!({"messages": messages, "bytes": bytes})).collect::<Vec<_>>(),
        "message_sizes": ranks::classes(profile).iter().map(size).collect::<Vec<_>>(),
        "task_mpi_ns": profile.mpi_ns, "task_run_ns": profile.run_ns,
        "accessed_bytes": profile.accessed_bytes, "polled_bytes": profile.polled_bytes,
        "alone_bytes": profile.alone_bytes,
        "loads": profile.loads, "stores": profile.stores,
        "strongest_pairs": pairs.iter().map(pair).collect::<Vec<_>>(),
        "metrics": {
            "communicating_tasks": metrics.communicating_tasks, "pairs": metrics.pairs, "total": sum(metrics.total),
            "pair_variation": metrics.pair_variation, "imbalance": metrics.imbalance,
            "effective_partners": metrics.effective_partners, "neighbour_share": metrics.neighbour_share,
            "busiest_task": metrics.busiest.map(|busiest| busiest.0),
            "busiest_share": metrics.busiest.map(|busiest| busiest.1),
        },
        "structure": structure,
        // Of pairs that are all alike the machine decides.
        "can_gain": match (structure.can_gain() && advice != Advice::Nothing) || !channels.is_empty() || advice == Advice::Congestion {
            false if structure == Structure::Uniform && advice != Advice::Nothing => None,
            can_gain => Some(can_gain),
        },
        "verdict": summary::verdict(profile, options),
        "advice": advice,
        "advice_text": advice.sentence(),
    });
    super::time::put_window(&mut document, meta.window());
    let known = Known { profile, timeline: options.timeline.as_ref(), dram_bytes: options.dram_bytes() };
    for metric in METRICS {
        let value = (metric.value)(&known);
        document["metrics"][metric.key] = json!(value.as_ref().ok());
        if let Err(reason) = value {
            document["unknown_metrics"][metric.key] = json!(reason);
        }
    }
    if let Some(dram) = &options.dram {
        document["dram_source"] = json!({ "simulated": dram.source });
    }
    if let Some(timeline) = &options.timeline {
        document["timeline"] = super::time::document(profile, timeline);
    }
    if options.hot {
        document["hot"] = json!(meta.hot);
        let objects = meta.data.as_ref().map(|data| data.by_name().iter().map(object).collect::<Vec<_>>());
        document["data"] = json!(objects);
        document["data_messages"] = json!(meta.data.as_ref().map(|data| data.messages));
        document["data_looked_at"] = json!(meta.data.as_ref().map(|data| data.looked_at));
        document["sites"] = json!(meta.sites);
    }
    document
}

/// An object of all processes, with the messages through it that are falsely shared.
fn object(object: &DataObject) -> Value {
    let mut value = json!(object);
    value["false_sharing"] = json!(object.false_sharing());
    if let Some(fields) = value.as_object_mut() {
        fields.remove("process");
    }
    value
}
