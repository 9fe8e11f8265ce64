//! `cohabit tune`: the best placement of a program, found and proved by running it.

use super::Outcome;
use crate::comparing::args::{MeasureArgs, Placing, named_file};
use crate::comparing::arms::{Arm, SYSTEM, crossed, unlike};
use crate::comparing::candidates::{Candidates, candidates};
use crate::comparing::folder::{Folder, last_line};
use crate::comparing::outcome::{self, percent};
use crate::comparing::results::Results;
use crate::comparing::runner::Runner;
use crate::comparing::session::{Enough, Wanted, go};
use crate::comparing::{table, without};
use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::machine::MachineArgs;
use crate::mapping::mapper_names;
use crate::output::note;
use crate::progress::{during, read_profile};
use crate::verdict::all_alike;
use cohabit_evaluate::compare::{Claim, Difference, Interval, Terms, least_blocks};
use cohabit_evaluate::tune::{blocks_to_verify, chosen, verified};
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Mapping, Profile, Result};
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

It ends with the mapping in a file, what that gains with an interval, and how to
have it without cohabit; or with 'no gain' and the reason. Blocks that a
placement was chosen by do not count for its gain: others are run to verify it.";

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
    #[command(flatten)]
    json: JsonArgs,
    /// Each thread on its one PU: where nothing can be gained, nothing would be confined else.
    #[arg(skip)]
    confined: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

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
        let mut found = Found::default();
        let tuned = self.tuned(mappings, &mut found)?;
        self.tell(&tuned, &found)
    }

    /// Chooses by some blocks, and verifies by others.
    fn tuned(&self, mappings: Vec<(String, Mapping)>, found: &mut Found) -> Result<Tuned, Failure> {
        let arms = crossed(mappings, &[], &[]);
        let terms = self.measure.terms();
        let choosing = Wanted {
            blocks: None,
            // As many as can show something of one arm; more where the time allows and the arms are near to one another.
            precision: 2.0 * self.measure.precision,
            budget: self.measure.budget.mul_f64(TO_CHOOSE),
            warm_up: self.measure.warm_up,
            terms,
        };
        let (arms, failed) = self.that_run(arms)?;
        failed.iter().for_each(|line| note(line));
        if arms.len() < 2 {
            let error = Error::new("nothing was measured: the program runs under none of the placements")
                .remedy("the lines above say why; give --profile and --topology of this program and this machine, or leave them out");
            return Err(error.into());
        }
        let (results, ended) = self.measured(&arms, "selection", self.seed, &choosing)?;
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
            let text = format!("in {} blocks {tried} than the system's", values.len());
            return Ok(Tuned::None(self.worded(&text)));
        };
        let blocks = self.affordable(blocks_to_verify(&values, arm, self.measure.precision, &terms), found, &terms);
        let verifying = Wanted { blocks: Some(blocks), warm_up: 0, ..choosing };
        let pair = [arms[0].clone(), arms[arm].clone()];
        // Other orders than those that it was chosen by.
        let (results, ended) = self.measured(&pair, "verification", self.seed ^ 0x5eed, &verifying)?;
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

    /// As many blocks as the rest of the time allows, by what a block of two took so far; never so few that they could show nothing.
    fn affordable(&self, blocks: usize, found: &Found, terms: &Terms) -> usize {
        let Some(results) = &found.selection else { return blocks };
        let runs: Vec<f64> = results.runs.iter().map(|run| run.usage.wall_s).collect();
        let each = 2.0 * runs.iter().sum::<f64>() / runs.len().max(1) as f64;
        let left = self.measure.budget.as_secs_f64() * (1.0 - TO_CHOOSE);
        let most = (left / each.max(1e-3)) as usize;
        blocks.min(most).max(least_blocks(terms.confidence, 1) + 2)
    }

    fn placing(&self) -> Placing {
        let asked = self.measure.placing();
        Placing { always: asked.always || self.confined, ..asked }
    }

    /// Leaves out the arms that the program does not run under, once each; the system's must work.
    fn that_run(&self, arms: Vec<Arm>) -> Result<(Vec<Arm>, Vec<String>), Failure> {
        let mut runner =
            Runner::new(&self.command, &arms, self.measure.what(), self.placing(), self.measure.input.clone())?;
        let _ = crate::online::stop::until_signalled();
        let (mut kept, mut failed) = (Vec::new(), Vec::new());
        for (at, arm) in arms.into_iter().enumerate() {
            match runner.run(0, at, true) {
                Ok(_) => kept.push(arm),
                Err(error) if arm.name == SYSTEM => return Err(error.into()),
                Err(error) => failed.push(format!("{} is left out: {}", arm.name, error.cause)),
            }
        }
        Ok((kept, failed))
    }

    fn measured(&self, arms: &[Arm], what: &str, seed: u64, wanted: &Wanted) -> Result<(Results, Enough), Failure> {
        let mut runner =
            Runner::new(&self.command, arms, self.measure.what(), self.placing(), self.measure.input.clone())?;
        let mut results =
            Results::new(&self.command, seed, self.measure.what(), wanted.terms.higher_is_better, arms.to_vec());
        let path = self.beside(what);
        let ended = go(&mut results, &path, &mut runner, wanted)?;
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
        let folder = Folder::create()?;
        let (out, err) = (folder.path("out"), folder.path("err"));
        let mut profile = Command::new(std::env::current_exe().map_err(Error::from)?);
        profile.args(["--quiet", "profile", "-o"]).arg(&path).arg("--").args(&self.command);
        profile.stdin(match &self.measure.input {
            Some(input) => std::fs::File::open(input).map_err(Error::from)?.into(),
            None => Stdio::null(),
        });
        profile
            .stdout(std::fs::File::create(&out).map_err(Error::from)?)
            .stderr(std::fs::File::create(&err).map_err(Error::from)?);
        note(&format!("profiling {}, into {}", self.command[0].to_string_lossy(), path.display()));
        let status = during("profiling", || profile.status()).map_err(Error::from)?;
        if !status.success() {
            let said =
                last_line(&err).map(|line| format!(": {}", line.trim_start_matches("cohabit: "))).unwrap_or_default();
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
        });
        let end = match tuned {
            Tuned::Stopped(signal) => {
                fields["no_gain"] = json!("stopped");
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
                text.push_str(&format!(
                    "gain by {}: {} ({} to {}, {} % interval)\n{}\n",
                    arm.name,
                    percent(difference.change),
                    percent(low),
                    percent(high),
                    100.0 * terms.confidence,
                    self.with_cohabit(&self.output),
                ));
                let without = without::write(mapping, &self.command, &self.output)?;
                if let Some(without) = &without {
                    text.push_str(&format!("without cohabit: {}\n", without.usage));
                }
                fields["gain"] =
                    json!({ "arm": arm.name, "change": difference.change, "interval": [low, high], "p": difference.p });
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
        format!("with cohabit: cohabit run --mapping {} -- {}", path.display(), command.join(" "))
    }
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
