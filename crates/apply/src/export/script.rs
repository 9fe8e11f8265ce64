//! Shell files: variables for a program's environment, and scripts that start or pin one. What comes in from outside is
//! numbers only, so nothing needs quoting.

use super::Placement;
use super::tasks::{joined, ranks, threads};
use cohabit_model::Result;
use cohabit_model::count::counted;
use cohabit_model::launcher::RANK_VARIABLES;

/// Lines that export variables, to be read by `.`.
pub fn environment(variables: &[(&str, &str)]) -> String {
    variables.iter().map(|(name, value)| format!("export {name}='{value}'\n")).collect()
}

/// A script that says how it is used when it is started without arguments.
pub fn prefix(arguments: &str, body: &str) -> String {
    format!("#!/bin/sh\n[ $# -gt 0 ] || {{ echo \"usage: sh $0 {arguments}\" >&2; exit 2; }}\n{body}")
}

/// How a tool binds.
pub struct Binder {
    /// The command that starts a program on PUs: its words before and after the list.
    pub start: fn(&[u32]) -> String,
    /// The command that moves thread `$tid` to a PU.
    pub move_thread: fn(u32) -> String,
}

/// For ranks, a script between the launcher and the program, which finds its rank in the environment; for the threads
/// of one process, a script that pins those of a process that runs, by the order they were started in.
///
/// # Errors
/// Where the tasks are neither.
pub fn bind(placement: &Placement, format: &str, binder: &Binder) -> Result<String> {
    let tasks = &placement.mapping.tasks;
    let one_process = tasks.iter().all(|task| task.rank.is_none() && task.process == tasks[0].process);
    if one_process { bind_threads(&threads(placement, format)?, binder) } else { bind_ranks(placement, format, binder) }
}

fn bind_ranks(placement: &Placement, format: &str, binder: &Binder) -> Result<String> {
    let rank = RANK_VARIABLES.iter().rev().fold(String::new(), |inner, name| format!("${{{name}:-{inner}}}"));
    let mut body = format!(
        "# Between the launcher, its own binding off, and the program: mpirun ... sh FILE CMD...\ncase \"{rank}\" in\n"
    );
    for (number, rank) in ranks(placement, format)?.iter().enumerate() {
        // A rank's threads, where it has some, by what every OpenMP runtime reads.
        let threads = match &rank.threads[..] {
            [_] => String::new(),
            threads => format!("export {} OMP_PROC_BIND=close; ", omp_places(threads)),
        };
        body += &format!("{number}) {threads}exec {} \"$@\" ;;\n", (binder.start)(&rank.room));
    }
    body += "'') echo \"$0: no launcher has numbered this process\" >&2 ;;\n";
    body += &format!(
        "*) echo \"$0: the mapping has {}: there is no such rank\" >&2 ;;\n",
        counted(ranks(placement, format)?.len(), "rank")
    );
    Ok(prefix("CMD...", &(body + "esac\nexit 1\n")))
}

fn omp_places(threads: &[u32]) -> String {
    let places: Vec<String> = threads.iter().map(|pu| format!("{{{pu}}}")).collect();
    format!("OMP_PLACES='{}'", places.join(","))
}

/// Lines that make the threads of a process the script's parameters, in the order in which they were started: by their
/// time of start (proc_pid_stat(5): field 22, the 20th after the name), and within one clock tick by their ids. These
/// ascend until the highest has been given and then begin again, so that ids below the main thread's come last.
const IN_ORDER_OF_START: &str = r#"# Pins the threads of a process that runs: sh FILE PID. They are taken in the order of their start.
set -e
main=$1
[ -d "/proc/$main/task" ] || { echo "$0: there is no process $main" >&2; exit 1; }
started() {
    for task in "/proc/$main/task"/*; do
        read -r stat <"$task/stat" || continue
        set -- ${stat##*) }
        tid=${task##*/}
        again=0
        [ "$tid" -ge "$main" ] || again=1
        echo "${20} $again $tid"
    done
}
set -- $(started | sort -k 1,1n -k 2,2n -k 3,3n | while read -r _ _ tid; do echo "$tid"; done)
"#;

fn bind_threads(pus: &[u32], binder: &Binder) -> Result<String> {
    let mut body = IN_ORDER_OF_START.to_owned();
    body += &format!(
        "[ $# -ge {0} ] || {{ echo \"$0: the mapping has {0} threads, the process $#\" >&2; exit 1; }}\n",
        pus.len()
    );
    for pu in pus {
        body += &format!("tid=$1; shift; {}\n", (binder.move_thread)(*pu));
    }
    Ok(prefix("PID", &body))
}

/// PUs as a list with commas.
pub fn list(pus: &[u32]) -> String {
    joined(pus.iter().copied(), ",")
}

#[cfg(test)]
mod tests {
    use super::{Binder, bind_threads};
    use std::process::Command;

    #[test]
    fn threads_are_pinned_in_the_order_of_their_start() {
        let folder = tempfile::tempdir().unwrap();
        // The name may hold what parts fields; the first started is the main thread, and ids have wrapped round after
        // 32,767.
        for (tid, name, started) in
            [(301, "b) S 1", 90), (302, "c", 90), (400, "d", 88), (32_766, "main", 80), (32_767, "a (x", 88)]
        {
            let task = folder.path().join("32766/task").join(tid.to_string());
            std::fs::create_dir_all(&task).unwrap();
            let fields: Vec<String> = (4..22).map(|field| (field * 100).to_string()).collect();
            let stat = format!("{tid} ({name}) S {} {started} 7 8\n", fields.join(" "));
            std::fs::write(task.join("stat"), stat).unwrap();
        }
        let binder = Binder { start: |_| String::new(), move_thread: |pu| format!("echo \"$tid {pu}\"") };
        let script = bind_threads(&[5, 4, 3, 2, 1], &binder).unwrap();
        let file = folder.path().join("pin");
        std::fs::write(&file, script.replace("/proc/", &format!("{}/", folder.path().display()))).unwrap();
        let pinned = |pid: &str| Command::new("sh").arg(&file).arg(pid).output().unwrap();
        let output = pinned("32766");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "32766 5\n32767 4\n400 3\n301 2\n302 1\n");
        let output = pinned("12");
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("no process 12"));
    }
}
