//! Tests of placing, on processes that stand for threads.

use super::*;
use crate::launch::phases::PhaseSeat;
use crate::launch::plan::PlannedTask;
use cohabit_testing::{Killed, sleeper};

fn pid(process: &Killed) -> i32 {
    process.id() as i32
}

fn pus(process: &Killed) -> CpuMask {
    CpuMask::of_thread(pid(process)).unwrap()
}

/// As it is where its creator has this mask.
fn inherits(process: &Killed, mask: &CpuMask) {
    mask.apply(pid(process)).unwrap();
}

/// A plan of one task on the first PU, and in phase 1 on the second; all that are allowed, and these two.
fn placement(test: &str) -> Option<(Placement, CpuMask, [CpuMask; 2])> {
    let original = Allowed::of_thread(0).unwrap();
    let &[first, second, ..] = original.pus.pus().as_slice() else {
        println!("skipped: {test}: one PU");
        return None;
    };
    let [one, other] = [first, second].map(CpuMask::single);
    let task = PlannedTask {
        task: 0,
        process: 0,
        spawn_index: 0,
        parent: None,
        pu: first,
        pus: one.clone(),
        name: String::new(),
    };
    let seat = PhaseSeat { pu: second, pus: other.clone() };
    let phases = [(1, vec![seat])].into();
    let plan = LaunchPlan { tasks: vec![task], phases, may_crowd: true, ..LaunchPlan::default() };
    Some((Placement::new(&plan, original.clone(), true), original.pus, [one, other]))
}

/// As whoever looks at /proc finds them: all at once, a while after they have started.
#[test]
fn what_comes_of_placed_threads_does_not_keep_their_pus() {
    let test = "what_comes_of_placed_threads_does_not_keep_their_pus";
    let Some((mut placement, all, [one, other])) = placement(test) else { return };
    let [command, child, grandchild, late, bound] = std::array::from_fn(|_| sleeper());
    placement.process_found(None, pid(&command));
    assert_eq!(pus(&command), one);
    // A shell that has started a program before it was let go.
    inherits(&child, &one);
    inherits(&grandchild, &one);
    placement.process_found(Some(pid(&command)), pid(&child));
    placement.process_found(Some(pid(&child)), pid(&grandchild));
    assert_eq!([pus(&child), pus(&grandchild)], [all.clone(), all.clone()]);
    // One that was started in a phase that is over when it is found.
    inherits(&late, &one);
    placement.phase_began(1);
    assert_eq!(pus(&command), other);
    placement.process_found(Some(pid(&command)), pid(&late));
    assert_eq!(pus(&late), all);
    // What was started before never had that PU of us: somebody else has put it there.
    inherits(&bound, &other);
    placement.process_found(Some(pid(&grandchild)), pid(&bound));
    assert_eq!(pus(&bound), other);
}

/// A thread whose creator nobody knows, and has ended.
#[test]
fn what_threads_leave_behind_is_known_of_their_process() {
    let test = "what_threads_leave_behind_is_known_of_their_process";
    let Some((mut placement, all, [one, _])) = placement(test) else { return };
    let [command, child, thread, found] = std::array::from_fn(|_| sleeper());
    placement.process_found(None, pid(&command));
    inherits(&child, &one);
    placement.process_found(Some(pid(&command)), pid(&child));
    inherits(&thread, &one);
    placement.thread_started(None, pid(&child), pid(&thread));
    assert_eq!(pus(&thread), all);
    placement.ended(pid(&thread));
    placement.given.remove(&pid(&child));
    inherits(&found, &one);
    placement.thread_started(None, pid(&child), pid(&found));
    assert_eq!(pus(&found), all);
}
