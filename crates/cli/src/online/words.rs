//! What an online session decided, in words.

use super::Log;
use super::tasks::Tasks;
use cohabit_online::gain::Gain;
use cohabit_online::ledger::Restored;
use cohabit_online::progress::Effect;
use std::time::Duration;

/// Tells what a cohabit that was killed had left.
pub fn tell_restored(log: &mut Log, restored: &Restored) {
    let text = restored_text(restored);
    if !text.is_empty() {
        log.tell(Duration::ZERO, "restored", format!("what a killed cohabit had left: {text}"), Vec::new());
    }
}

/// What was put back, in words; empty where nothing was.
pub fn restored_text(restored: &Restored) -> String {
    let mut parts = Vec::new();
    match restored.threads {
        0 => {}
        1 => parts.push("1 thread has its affinity back".to_owned()),
        count => parts.push(format!("{count} threads have their affinity back")),
    }
    let settings = restored.settings.iter().map(|(path, value)| format!("{} is {value} again", path.display()));
    parts.extend(settings);
    parts.extend(restored.failed.iter().map(|failed| format!("could not be put back: {failed}")));
    parts.join("; ")
}

/// What a mapping saves.
pub fn saves(gain: Gain) -> String {
    format!("distance cost {:.0} -> {:.0} ({:.0} % less)", gain.before, gain.after, 100.0 * gain.share())
}

/// Why a mapping that saves something is not applied.
pub fn not_worth(gain: Gain, saved_a_second: Duration) -> String {
    let ms = 1e3 * saved_a_second.as_secs_f64();
    format!("{}, some {ms:.*} ms in a second: not worth the moves", saves(gain), if ms < 1.0 { 3 } else { 0 })
}

/// What came of a move.
pub fn shown(effect: Effect) -> String {
    match effect {
        Effect::Progress(ratio, _) => format!("progress is {:.0} % of what it was", 100.0 * ratio),
        Effect::Waiting(before, after) => {
            format!("tasks waited for a PU {:.0} % of the time, before it {:.0} %", 100.0 * after, 100.0 * before)
        }
        Effect::Unknown => "too little was seen to judge it".to_owned(),
    }
}

/// `0 to PU 3, rank 1 to PU 2`; the first few of many.
pub fn list(moves: &[(u32, Option<u32>)], tasks: &Tasks) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = moves
        .iter()
        .take(SHOWN)
        .map(|(task, pu)| (tasks.label(*task), pu))
        .map(|(task, pu)| pu.map_or(format!("{task} anywhere"), |pu| format!("{task} to PU {pu}")))
        .collect();
    if moves.len() > SHOWN {
        text.push(format!("and {} more", moves.len() - SHOWN));
    }
    text.join(", ")
}
