//! `cohabit tune`: the best placement of a program, found and proved by running it.

use super::Outcome;
use crate::command_line::given;
use crate::comparing::args::{How, MeasureArgs, named_file};
use crate::comparing::arms::{Arm, SYSTEM, crossed, unlike};
use crate::comparing::candidates::{Candidates, candidates};
use crate::comparing::folder::{Folder, last_line};
use crate::comparing::kept::{begun, goes_on, kept, not_there};
use crate::comparing::outcome::{self, percent};
use crate::comparing::results::Results;
use crate::comparing::runner::Runner;
use crate::comparing::session::{Enough, Wanted, go};
use crate::comparing::{table, without};
use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::machine::MachineArgs;
use crate::mapping::mapper_names;
use crate::online::stop::asked_by;
use crate::output::note;
use crate::progress::{during, read_profile};
use cohabit_evaluate::compare::{Claim, Difference, Interval, Terms, least_blocks};
use cohabit_evaluate::tune::{blocks_to_verify, chosen, verified};
use cohabit_evaluate::verdict::all_alike;
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Mapping, Profile, Result, counted};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  cohabit tune -- ./solver input             profile, map, try, prove
  cohabit tune --profile p.npz -- ./solver   with a profile that is there
  cohabit tune --confidence 99% --budget 1h -- ./solver
  cohabit tune --metric 'Mop/s total += +([0-9.]+)' --better higher -- mpirun -n 8 ./cg.A.x
  cohabit tune --anyway -- ./solver          where nothing can be gained, too
  cohabit tune --resume -- ./solver          go on where it was cut off

It ends with the mapping in a file, what that gains with an interval, and how to
have it without cohabit; or with 'no gain' and the reason. Blocks that a
placement was chosen by do not count for its gain: others are run to verify it.";

/// The files of runs, beside the mapping.
const SELECTION: &str = "selection";
const VERIFICATION: &str = "verification";
/// Candidates at most: each costs a run in every block that one is chosen by.
const MOST_CANDIDATES: usize = 5;
/// The share of the time that choosing may take.
const TO_CHOOSE: f64 = 0.5;

/// Arguments of `cohabit tune`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Tune {
    /// Map this profile, instead of making one
    #[arg(long, value_name = "P")]
    profile: Option<PathBuf>,
    /// Try only what these mappers say [default: the five with the least J of all mappers]
    #[arg(long, value_name = "M", value_parser = mapper_names())]
    mapper: Vec<String>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten, next_help_heading = "What is measured, and how long")]
    measure: MeasureArgs,
    /// Measure even where every placement is known to be as good as every other
    #[arg(long)]
    anyway: bool,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write the best mapping to MAP; runs are kept beside it
    #[arg(short, long, value_name = "MAP", default_value = "cohabit-tuned.json")]
    output: PathBuf,
    /// Go on with the profile and the runs that are kept there
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    json: JsonArgs,
    /// Each thread on its one PU: where nothing can be gained, nothing would be confined else.
    #[arg(skip)]
    confined: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Where a mapping changes no rank's host.
const SAME_HOSTS: &str =
    "each rank is on the host that the launcher gives it, too: what gains is that it keeps to its PU there\n";

/// How it ended.
enum Tuned {
    /// A placement gains.
    Gain { arm: usize, difference: Difference },
    /// None does, and why.
    None(String),
    /// A signal came.
    Stopped(i32),
}

/// All that was found on the way.
#[derive(Default)]
struct Found {
    selection: Option<Results>,
    verification: Option<Results>,
    /// Arms that leave each rank on the host that its launcher gives it.
    same_hosts: Vec<String>,
}

/// The mappings onto a cluster that leave every rank on the host that it was profiled on.
fn with_same_hosts(mappings: &[(String, Mapping)], profile: &Profile) -> Vec<String> {
    let host = |task: u32| profile.meta.tasks.get(task as usize).map(|task| task.host.as_str());
    let hosts: std::collections::BTreeSet<&str> = profile.meta.tasks.iter().map(|task| task.host.as_str()).collect();
    let stays = |mapping: &Mapping| mapping.tasks.iter().all(|placed| host(placed.task) == Some(placed.host.as_str()));
    let names = mappings.iter().filter(|(_, mapping)| hosts.len() > 1 && stays(mapping));
    names.map(|(name, _)| name.clone()).collect()
}

impl Tune {
    /// Finds, proves, writes and prints.
    pub fn run(mut self) -> Outcome {
        self.json.check()?;
        named_file("-o", &self.output).map_err(Failure::usage)?;
        check_writable(&self.output)?;
        cohabit_model::command::find(&self.command)?;
        let topology = self.machine.load()?;
        // Of a machine whose PUs are all alike this is known before anything runs.
        if let (Some(reason), false) = (all_alike(0, &topology).filter(|_| self.profile.is_none()), self.anyway) {
            return self.tell(&Tuned::None(without_a_run(&reason)), &Found::default());
        }
        for what in [SELECTION, VERIFICATION] {
            not_there(&self.beside(what), self.resume)?;
        }
        let profile = self.profile()?;
        let Candidates { mut mappings, hopeless, notes } =
            during("mapping", || candidates(&profile, &topology, &self.machine, &self.mapper, MOST_CANDIDATES))?;
        if let (Some(reason), false) = (&hopeless, self.anyway) {
            return self.tell(&Tuned::None(without_a_run(reason)), &Found::default());
        }
        notes.iter().for_each(|line| note(line));
        unlike(&mut mappings);
        // Where there is nothing to gain a mapping confines nobody, and would be the system's placement again.
        self.confined = hopeless.is_some();
        // A profile that was made elsewhere may have had other hosts.
        let same_hosts = if self.profile.is_none() { with_same_hosts(&mappings, &profile) } else { Vec::new() };
        let mut found = Found { same_hosts, ..Found::default() };
        let tuned = self.tuned(mappings, &mut found)?;
        self.tell(&tuned, &found)
    }

    /// Chooses by some blocks, and verifies by others.
    fn tuned(&self, mappings: Vec<(String, Mapping)>, found: &mut Found) -> Result<Tuned, Failure> {
        let arms = crossed(mappings, &[], &[]);
        let terms = self.measure.terms();
        let choosing = Wanted {
            blocks: None,
            // As many as can show something of one arm; more where the time allows and the arms are near to one
            // another.
            precision: 2.0 * self.measure.precision,
            budget: self.measure.budget.mul_f64(TO_CHOOSE),
            warm_up: self.measure.warm_up,
            terms,
        };
        let arms = match self.arms_of_kept(&arms)? {
            Some(kept) => kept,
            None => {
                let (arms, failed) = self.that_run(arms)?;
                failed.iter().for_each(|line| note(line));
                arms
            }
        };
        if let Some(signal) = asked_by() {
            return Ok(Tuned::Stopped(signal));
        }
        if arms.len() < 2 {
            let error = Error::new("nothing was measured: the program runs under none of the placements")
                .remedy("the lines above say why; give --profile and --topology of this program and this machine, or leave them out");
            return Err(error.into());
        }
        // What was chosen by some blocks, and is being verified, is not chosen again by more of them.
        let closed = self.beside(VERIFICATION).exists();
        let (results, ended) = match closed {
            true => (Results::read(&self.beside(SELECTION))?, Enough::Done),
            false => self.measured(self.new_results(&arms, self.seed), SELECTION, &choosing)?,
        };
        let values = results.values();
        found.selection = Some(results);
        if let Enough::Stopped(signal) = ended {
            return Ok(Tuned::Stopped(signal));
        }
        if ended == Enough::OutOfTime {
            note(
                "half of the time was over before the placements were told apart as closely as --precision asks: --budget gives more",
            );
        }
        let Some(arm) = chosen(&values, &terms) else {
            let tried = match arms.len() - 1 {
                1 => "the placement that was tried was not faster".to_owned(),
                several => format!("none of {several} placements was faster"),
            };
            let text = format!("in {} {tried} than the system's", counted(values.len(), "block"));
            return Ok(Tuned::None(self.worded(&text)));
        };
        let blocks = self.affordable(blocks_to_verify(&values, arm, self.measure.precision, &terms), found, &terms);
        // Other orders than those that it was chosen by.
        let mut new = self.new_results(&[arms[0].clone(), arms[arm].clone()], self.seed ^ 0x5eed);
        new.settled = Some(blocks);
        let verifying = Wanted { warm_up: 0, ..choosing };
        let (results, ended) = self.measured(new, VERIFICATION, &verifying)?;
        let blocks = results.settled.unwrap_or(blocks);
        let difference = verified(&results.values(), &terms);
        found.verification = Some(results);
        if let Enough::Stopped(signal) = ended {
            return Ok(Tuned::Stopped(signal));
        }
        Ok(match difference {
            Some(difference) if difference.claim == Claim::Better => Tuned::Gain { arm, difference },
            Some(difference) => Tuned::None(self.worded(&not_verified(&arms[arm].name, &difference, blocks, &terms))),
            None => Tuned::None("nothing was verified".to_owned()),
        })
    }

    /// As many blocks as the rest of the time allows, by what a block of two took so far; never so few that they could
    /// show nothing.
    fn affordable(&self, blocks: usize, found: &Found, terms: &Terms) -> usize {
        let Some(results) = &found.selection else { return blocks };
        let runs: Vec<f64> = results.runs.iter().map(|run| run.usage.wall_s).collect();
        let each = 2.0 * runs.iter().sum::<f64>() / runs.len().max(1) as f64;
        let left = self.measure.budget.as_secs_f64() * (1.0 - TO_CHOOSE);
        let most = (left / each.max(1e-3)) as usize;
        blocks.min(most).max(least_blocks(terms.confidence, 1) + 2)
    }

    fn how(&self) -> How {
        let asked = self.measure.how();
        How { always: asked.always || self.confined, ..asked }
    }

    fn new_results(&self, arms: &[Arm], seed: u64) -> Results {
        let new = Results::new(&self.command, seed, self.measure.what(), &self.measure.terms(), arms.to_vec());
        Results { treatment: self.measure.treatment(), arguments: given(), ..new }
    }

    /// The arms of the runs to go on with, which are some of these: the program did not run under the others.
    fn arms_of_kept(&self, arms: &[Arm]) -> Result<Option<Vec<Arm>>> {
        let path = self.beside(SELECTION);
        if !path.exists() {
            return Ok(None);
        }
        let kept = Results::read(&path)?;
        let known: Vec<Arm> = arms.iter().filter(|arm| kept.arms.contains(arm)).cloned().collect();
        kept.check_same(&self.new_results(&known, self.seed)).map_err(|error| error.at(path.display()))?;
        Ok(Some(known))
    }

    /// Leaves out the arms that the program does not run under, once each; the system's must work.
    fn that_run(&self, arms: Vec<Arm>) -> Result<(Vec<Arm>, Vec<String>), Failure> {
        let mut runner =
            Runner::new(&self.command, &arms, self.measure.what(), self.how(), self.measure.input.clone())?;
        let _ = crate::online::stop::until_signalled();
        let mut kept = Vec::new();
        let mut failed = Vec::new();
        for (at, arm) in arms.into_iter().enumerate() {
            match runner.run(0, at, true) {
                Ok(_) => kept.push(arm),
                Err(error) if arm.name == SYSTEM => return Err(error.into()),
                Err(error) => failed.push((arm.name, error.cause)),
            }
        }
        Ok((kept, left_out(failed)))
    }

    /// Runs block by block, from those on that are kept: as many as were settled, or as the precision needs.
    fn measured(&self, new: Results, what: &str, wanted: &Wanted) -> Result<(Results, Enough), Failure> {
        let path = self.beside(what);
        let mut results = begun(&path, self.resume, new)?;
        let input = self.measure.input.clone();
        let mut runner = Runner::new(&self.command, &results.arms, self.measure.what(), self.how(), input)?;
        let wanted = Wanted { blocks: results.settled, ..*wanted };
        let ended = go(&mut results, &path, &mut runner, &wanted).map_err(|error| kept(error, &path))?;
        Ok((results, ended))
    }

    /// `tuned.selection.json`, beside the mapping.
    fn beside(&self, what: &str) -> PathBuf {
        self.output.with_extension(format!("{what}.json"))
    }

    /// The profile that was named, or one that is made now.
    fn profile(&self) -> Result<Profile, Failure> {
        if let Some(path) = &self.profile {
            return Ok(read_profile(path)?);
        }
        let path = self.output.with_extension("npz");
        if self.resume && path.exists() {
            return Ok(read_profile(&path)?);
        }
        let folder = Folder::create()?;
        let (out, err, document) = (folder.path("out"), folder.path("err"), folder.path("profile.json"));
        let mut profile = Command::new(std::env::current_exe().map_err(Error::from)?);
        profile.args(["--quiet", "profile", "-o"]).arg(&path);
        profile.arg("--json").arg(&document).arg("--").args(&self.command);
        profile.stdin(match &self.measure.input {
            Some(input) => std::fs::File::open(input).map_err(Error::from)?.into(),
            None => Stdio::null(),
        });
        profile
            .stdout(std::fs::File::create(&out).map_err(Error::from)?)
            .stderr(std::fs::File::create(&err).map_err(Error::from)?);
        note(&format!("profiling {}, into {}", self.command[0].to_string_lossy(), path.display()));
        let status = during("profiling", || profile.status()).map_err(Error::from)?;
        let document = std::fs::read_to_string(&document).ok();
        let document: Value = document.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        if !self.how().is_well(&document["status"]) {
            let said =
                last_line(&err).map(|line| format!(": {}", line.trim_start_matches("cohabit: "))).unwrap_or_default();
            let ended = document["status"]["exited"].as_u64().and_then(|code| u8::try_from(code).ok());
            if let Some(code) = ended {
                let program = self.command[0].to_string_lossy();
                let cause = format!("under the profiler {program} ended with status {code}{said}");
                return Err(self.how().ill(cause, code).into());
            }
            let error = Error::new(format!("the program was not profiled ({status}){said}"));
            return Err(error
                .remedy("'cohabit profile' and 'cohabit doctor' say more; --profile takes one that is there")
                .into());
        }
        Ok(read_profile(&path)?)
    }

    /// In the words of what is compared.
    fn worded(&self, text: &str) -> String {
        match self.measure.what() {
            crate::comparing::results::By::Metric(_) => text.replace("faster", "better"),
            _ => text.to_owned(),
        }
    }

    /// Writes the mapping where there is one, and says how it ended.
    fn tell(&self, tuned: &Tuned, found: &Found) -> Outcome {
        let terms = self.measure.terms();
        let shown = found.verification.as_ref().or(found.selection.as_ref());
        let shown = shown.map(|results| outcome::Outcome::new(results, terms));
        let mut text = shown.as_ref().map(table::text).unwrap_or_default();
        let mut fields = json!({
            "selection": found.selection.as_ref().map(|results| outcome::Outcome::new(results, terms).fields()),
            "verification": found.verification.as_ref().map(|results| outcome::Outcome::new(results, terms).fields()),
            "gain": Value::Null, "no_gain": Value::Null, "mapping": Value::Null, "without_cohabit": Value::Null,
            "stopped": matches!(tuned, Tuned::Stopped(_)),
        });
        let end = match tuned {
            Tuned::Stopped(signal) => {
                let (what, results) = match (&found.verification, &found.selection) {
                    (Some(results), _) => (VERIFICATION, Some(results)),
                    (None, results) => (SELECTION, results.as_ref()),
                };
                let kept = results.filter(|results| !results.runs.is_empty());
                let kept = kept.map(|results| format!("; {}", goes_on(&self.beside(what), results)));
                note(&format!("stopped before anything was shown{}", kept.unwrap_or_default()));
                End::Killed(*signal)
            }
            Tuned::None(reason) => {
                text.push_str(&format!("no gain: {reason}\n"));
                fields["no_gain"] = json!(reason);
                End::Done
            }
            Tuned::Gain { arm, difference } => {
                let arm = found.selection.as_ref().and_then(|results| results.arms.get(*arm));
                let Some((arm, mapping)) = arm.and_then(|arm| Some((arm, arm.mapping.as_ref()?))) else {
                    return Err(Error::new("the placement that was chosen is gone").into());
                };
                mapping.write(&self.output)?;
                let Interval { low, high } =
                    difference.interval.unwrap_or(Interval { low: difference.change, high: difference.change });
                let same_hosts = found.same_hosts.contains(&arm.name);
                text.push_str(&format!(
                    "gain by {}: {} ({} to {}, {} % interval)\n{}{}\n",
                    arm.name,
                    percent(difference.change),
                    percent(low),
                    percent(high),
                    crate::number::percent(terms.confidence),
                    if same_hosts { SAME_HOSTS } else { "" },
                    self.with_cohabit(&self.output),
                ));
                let without = without::write(mapping, &self.command, &self.output)?;
                if let Some(without) = &without {
                    text.push_str(&format!("without cohabit: {}\n", without.usage));
                }
                fields["gain"] = json!({ "arm": arm.name, "change": difference.change, "interval": [low, high], "p": difference.p, "same_hosts": same_hosts });
                fields["mapping"] = crate::json::name_of(&self.output);
                fields["without_cohabit"] = without.map_or(Value::Null, |without| {
                    json!({ "format": without.format, "file": crate::json::name_of(&without.file), "usage": without.usage })
                });
                End::Done
            }
        };
        self.json.emit("tune", fields, &text)?;
        Ok(end)
    }

    fn with_cohabit(&self, path: &Path) -> String {
        let command: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        // As it was measured: what gains for another reason than J's would not be confined else.
        let How { always, hold_main, .. } = self.how();
        let options = [(always, "--pinning always "), (hold_main, "--hold-main ")];
        let options: String = options.into_iter().filter(|option| option.0).map(|option| option.1).collect();
        format!("with cohabit: cohabit run {options}--mapping {} -- {}", path.display(), command.join(" "))
    }
}

/// A line for each cause of arms that do not run.
fn left_out(failed: Vec<(String, String)>) -> Vec<String> {
    let mut causes: Vec<(String, Vec<String>)> = Vec::new();
    for (name, cause) in failed {
        let why = cause.strip_prefix(&format!("by {name} ")).unwrap_or(&cause);
        match causes.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name),
            None => causes.push((why.to_owned(), vec![name])),
        }
    }
    let line = |(why, names): (String, Vec<String>)| {
        format!("{} {} left out: {why}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
    };
    causes.into_iter().map(line).collect()
}

fn without_a_run(reason: &str) -> String {
    format!("{reason} (--anyway measures it)")
}

/// Why what was chosen was not shown to gain.
fn not_verified(name: &str, difference: &Difference, blocks: usize, terms: &Terms) -> String {
    let within = difference
        .interval
        .map(|found| format!(" ({} to {})", percent(found.low), percent(found.high)))
        .unwrap_or_default();
    let floor = 100.0 * terms.floor;
    let found = format!("{name} looked faster, and {blocks} more blocks say {}{within}", percent(difference.change));
    match difference.claim {
        Claim::Worse => format!("{found}: it is slower"),
        _ => format!("{found}, which does not show that it is faster by more than {floor} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Matrix;
    use cohabit_model::profile::{Kind, Meta, Task, TaskKind};

    #[test]
    fn placements_that_do_not_run_are_told_once_a_cause() {
        let failed = [
            ("best", "by best it hung"),
            ("packed", "by packed it ended with status 1"),
            ("exact", "by exact it hung"),
        ];
        let failed = failed.map(|(name, cause)| (name.to_owned(), cause.to_owned())).to_vec();
        let expected = ["best, exact are left out: it hung", "packed is left out: it ended with status 1"];
        assert_eq!(left_out(failed), expected);
    }

    #[test]
    fn ranks_stay_on_their_hosts_or_one_does_not() {
        let on = |id, host: &str| Task { host: host.to_owned(), ..Task::new(id, TaskKind::Rank, format!("rank {id}")) };
        let profile = |hosts: [&str; 2]| {
            let tasks = vec![on(0, hosts[0]), on(1, hosts[1])];
            let empty = || Matrix::from_triplets(2, []);
            Profile::new(Meta::new(Kind::Ranks, "test", tasks), empty(), empty())
        };
        let mapping = |name: &str, hosts: [&str; 2]| {
            let placed = |(task, host): (u32, &&str)| json!({ "task": task, "host": host, "pu": 0 });
            let tasks: Vec<Value> = (0..).zip(&hosts).map(placed).collect();
            let fields = json!({
                "format": 1, "mapper": name, "weight": "bytes", "topology": "pu:2", "tasks": tasks, "cost": { "distance": 0 },
            });
            (name.to_owned(), serde_json::from_value::<Mapping>(fields).unwrap())
        };
        let mappings = [mapping("same", ["a", "b"]), mapping("others", ["b", "a"])];
        assert_eq!(with_same_hosts(&mappings, &profile(["a", "b"])), ["same"]);
        // On one host every mapping leaves them there, and nobody asks.
        assert_eq!(with_same_hosts(&[mapping("one", ["a", "a"])], &profile(["a", "a"])), [""; 0]);
    }
}
