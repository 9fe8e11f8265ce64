//! Shell files: variables for a program's environment, and scripts that start or pin one. What comes in from outside is
//! numbers only, so nothing needs quoting.

use super::Placement;
use super::tasks::{joined, ranks, threads};
use cohabit_model::Result;
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

/// For ranks, a script between the launcher and the program, which finds its rank in the environment; for the threads of
/// one process, a script that pins those of a process that runs, by the order they were started in.
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
        body += &format!("{number}) {threads}exec {} \"$@\" ;;\n", (binder.start)(&rank.pus));
    }
    body += "'') echo \"$0: no launcher has numbered this process\" >&2 ;;\n";
    body += &format!(
        "*) echo \"$0: the mapping has {} ranks: there is no such rank\" >&2 ;;\n",
        ranks(placement, format)?.len()
    );
    Ok(prefix("CMD...", &(body + "esac\nexit 1\n")))
}

fn omp_places(threads: &[u32]) -> String {
    let places: Vec<String> = threads.iter().map(|pu| format!("{{{pu}}}")).collect();
    format!("OMP_PLACES='{}'", places.join(","))
}

fn bind_threads(pus: &[u32], binder: &Binder) -> Result<String> {
    let mut body =
        "# Pins the threads of a process that runs: sh FILE PID. Thread ids ascend as threads are started.\n"
            .to_owned();
    body += "set -e\nset -- $(ls \"/proc/$1/task\" | sort -n)\n";
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
