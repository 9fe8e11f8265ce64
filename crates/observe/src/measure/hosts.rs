//! Between hosts: `native/mpi/pingpong` under the user's own launcher, first to learn which ranks are where, then to
//! measure, for each switch, its neighbouring ports: a pair one way, both ways, as many pairs as there are ranks, and
//! all ports of the switch at once (IBM report, Figure 1: in a subnet, across subnets, two tasks, four tasks).

use super::busy::{busy_before, busy_share};
use super::{Options, Point, SHARED, Series, Way};
use crate::mpi::install::pingpong;
use crate::mpi::launcher::{is_launcher, version};
use cohabit_model::command::CommandError;
use cohabit_model::launcher::{Family, Launcher};
use cohabit_model::topology::cluster::{self, ClusterFile, HostTable, Names};
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Error, Result, Topology};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What each of the program's own lines begins with.
const MARK: &str = "cohabit-pingpong ";
/// Pairs at once, at most: as many as the program takes.
const MOST_PAIRS: usize = 1024;

/// What was found between hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct Hosts {
    /// The host of each rank.
    pub ranks: Vec<String>,
    /// What was measured, in order.
    pub series: Vec<Series>,
    /// The cluster with its ports.
    pub file: ClusterFile,
    /// From this length on, both ways at once, messages get less than 0.8 in each direction of what they get one way,
    /// and of what shorter ones get both ways, between all neighbouring ports: one direction waits for the other, as in
    /// the handshake of the report's third footnote.
    pub one_at_a_time: Option<u64>,
    /// Whose program measured.
    pub family: Family,
    /// What other work there was on this host before, in a sentence; none where it was idle.
    pub busy: Option<String>,
}

/// An experiment of the program.
#[derive(Debug, Clone, PartialEq)]
struct Experiment {
    between: String,
    way: Way,
    pairs: Vec<(usize, usize)>,
}

/// Two neighbouring ports of a switch, and the experiments about them (numbers).
#[derive(Debug, Clone, PartialEq)]
struct Neighbours {
    ports: [NodeId; 2],
    one_way: usize,
    both_ways: usize,
    several: Option<usize>,
}

/// All ports of a switch at once.
#[derive(Debug, Clone, PartialEq)]
struct All {
    switch: NodeId,
    experiment: usize,
    alone: Vec<usize>,
}

/// What is to be measured, and what it is about.
#[derive(Debug, Clone, Default, PartialEq)]
struct Plan {
    experiments: Vec<Experiment>,
    neighbours: Vec<Neighbours>,
    all: Vec<All>,
    inside: Option<usize>,
}

/// Measures between the hosts that a launcher starts ranks on. `command` is the launcher with its options and no
/// program; `file` the cluster's hosts and switches, none where it is only known by its ranks.
///
/// # Errors
/// A launcher that is not there or not known, ranks on hosts that the cluster does not have, fewer than two ranks, a
/// program that fails.
pub fn measure_hosts(
    command: &[OsString],
    file: Option<&ClusterFile>,
    options: &Options,
) -> Result<Hosts, CommandError> {
    let (family, program) = program(command)?;
    let ranks = hosts_of(&run(command, &program, &[])?)?;
    let file = file.cloned().unwrap_or_else(|| known_by_ranks(&ranks));
    let mut file = ClusterFile { place: Vec::new(), port: Vec::new(), ..file };
    let topology = cluster::build(&file)?;
    let plan = Plan::new(&topology, &ranks)?;
    let lengths: Vec<String> = options.lengths.iter().map(u64::to_string).collect();
    let mut words = vec![format!("{}", options.time.as_secs_f64() * 1e3), lengths.join(",")];
    words.extend(plan.experiments.iter().map(Experiment::word));
    let busy = work_here().and_then(busy_before);
    let lines = run(command, &program, &words)?;
    if hosts_of(&lines)? != ranks {
        return Err(Error::new("the launcher put the ranks on other hosts the second time")
            .remedy("name the hosts in its command line: mpirun --hostfile FILE")
            .into());
    }
    let series = results(&lines, &plan.experiments, &options.lengths)?;
    plan.fill(&mut file, &topology, &series);
    let one_at_a_time = plan.one_at_a_time(&series);
    file.port.iter_mut().filter(|port| port.level.is_none()).for_each(|port| port.set_asks_from(one_at_a_time));
    Ok(Hosts { one_at_a_time, ranks, series, file, family, busy })
}

/// Of this host's time, how much its PUs are busy now.
fn work_here() -> Option<f64> {
    const LOOK: Duration = Duration::from_millis(200);
    let stat = || std::fs::read_to_string("/proc/stat").ok();
    let before = stat()?;
    std::thread::sleep(LOOK);
    busy_share(&before, &stat()?)
}

/// The program for the launcher's MPI, and which MPI that is.
fn program(command: &[OsString]) -> Result<(Family, std::path::PathBuf), CommandError> {
    let name = command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    if !is_launcher(command) {
        return Err(Error::new(format!("{name} is no launcher of MPI programs"))
            .remedy("name mpirun, mpiexec or srun with its options, and no program: cohabit measure -- mpirun -n 16")
            .into());
    }
    let of = |family| pingpong(family).map(|program| (family, program));
    Ok(match version(command)?.0 {
        Launcher::Hydra => of(Family::Mpich)?,
        Launcher::OpenMpi => of(Family::OpenMpi)?,
        // srun starts ranks of any MPI.
        Launcher::Srun | Launcher::Singleton => of(Family::OpenMpi).or_else(|_| of(Family::Mpich))?,
    })
}

/// Runs the program under the launcher; its lines, without the mark.
fn run(command: &[OsString], program: &std::path::Path, arguments: &[String]) -> Result<Vec<String>> {
    let name = command[0].to_string_lossy().into_owned();
    let mut launcher = Command::new(&command[0]);
    launcher.args(&command[1..]).arg(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let output = launcher.spawn().and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| Error::new(format!("{name}: {error}")))?;
    if !output.status.success() {
        return Err(Error::new(format!("{name} ended with {}", output.status))
            .remedy("the lines above may say why; cohabit puts the program after the launcher's options"));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Launchers may write names of ranks before lines.
    let own = text.lines().filter_map(|line| line.split_once(MARK)).map(|(_, line)| line.to_owned());
    Ok(own.collect())
}

/// The host of each rank.
fn hosts_of(lines: &[String]) -> Result<Vec<String>> {
    let mut hosts = BTreeMap::new();
    let mut size = None;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["size", ranks] => size = ranks.parse::<usize>().ok(),
            ["host", rank, name] => drop(rank.parse::<usize>().ok().map(|rank| hosts.insert(rank, name.to_owned()))),
            _ => {}
        }
    }
    let whole = size == Some(hosts.len()) && hosts.keys().copied().eq(0..hosts.len());
    match (whole, hosts.len()) {
        (false, _) | (_, 0) => Err(Error::new("the ranks did not say which hosts they are on")
            .remedy("the launcher must pass on what they write; start it with its options and no program")),
        (true, 1) => Err(Error::new("there is only one rank, and messages need two")
            .remedy("ask the launcher for more, on each host that is to be measured: mpirun -n 16 ...")),
        (true, _) => Ok(hosts.into_values().collect()),
    }
}

/// A cluster of which only its ranks are known: all hosts on one switch, each with as many cores as it has ranks.
fn known_by_ranks(ranks: &[String]) -> ClusterFile {
    let mut hosts: Vec<(&str, usize)> = Vec::new();
    for name in ranks {
        match hosts.iter_mut().find(|host| host.0 == name) {
            Some(host) => host.1 += 1,
            None => hosts.push((name, 1)),
        }
    }
    let table = |&(name, count): &(&str, usize)| HostTable {
        names: Some(Names::one(name)),
        topology: format!("core:{count} pu:1"),
        max_bandwidth: None,
    };
    ClusterFile::new(hosts.iter().map(table).collect(), Vec::new(), Vec::new())
}

/// Seconds of all experiments.
fn results(lines: &[String], experiments: &[Experiment], lengths: &[u64]) -> Result<Vec<Series>> {
    let mut found: BTreeMap<(usize, u64), Vec<f64>> = BTreeMap::new();
    for line in lines.iter().filter_map(|line| line.strip_prefix("result ")) {
        let mut words = line.split_whitespace();
        let key = words.next().and_then(|word| word.parse().ok()).zip(words.next().and_then(|word| word.parse().ok()));
        let seconds: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
        found.extend(key.zip(seconds));
    }
    let mut series = Vec::new();
    for (number, experiment) in experiments.iter().enumerate() {
        let point = |&length: &u64| {
            let seconds = found.remove(&(number, length)).unwrap_or_default();
            let sound = seconds.len() == experiment.pairs.len() && seconds.iter().all(|&s| s > 0.0 && s.is_finite());
            let missing = || Error::new(format!("no figure for {} bytes between {}", length, experiment.between));
            sound.then_some(Point { length, seconds }).ok_or_else(missing)
        };
        let points = lengths.iter().map(point).collect::<Result<Vec<_>>>()?;
        let Experiment { between, way, pairs } = experiment;
        series.push(Series { between: between.clone(), way: *way, pairs: pairs.len(), points });
    }
    Ok(series)
}

impl Experiment {
    /// As the program takes it.
    fn word(&self) -> String {
        let pairs: Vec<String> = self.pairs.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        format!("{}:{}", if self.way == Way::OneWay { 'o' } else { 'b' }, pairs.join(","))
    }
}

impl Plan {
    /// What to measure between the ranks of a cluster.
    ///
    /// # Errors
    /// A rank on a host that the cluster does not have.
    fn new(topology: &Topology, ranks: &[String]) -> Result<Self> {
        // Ranks of each host and of each switch.
        let mut below: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (rank, name) in ranks.iter().enumerate() {
            let host = host_named(topology, name).ok_or_else(|| {
                Error::new(format!("rank {rank} is on the host {name}, which the cluster file does not have"))
                    .remedy("name it there as the host names itself (hostname), or start the ranks elsewhere")
            })?;
            topology.ancestors(host).for_each(|node| below.entry(node).or_default().push(rank));
        }
        let mut plan = Self::default();
        for (&switch, _) in below.iter().filter(|(node, _)| topology.nodes[**node].level == Level::Switch) {
            let children = topology.nodes[switch].children.iter().copied();
            plan.switch(
                topology,
                switch,
                &children.filter(|child| below.contains_key(child)).collect::<Vec<_>>(),
                &below,
            );
        }
        let shared = topology.hosts().find_map(|(node, name)| match below.get(&node)?[..] {
            [first, second, ..] => Some((name, first, second)),
            _ => None,
        });
        if let Some((name, first, second)) = shared {
            plan.inside = Some(plan.add(format!("two ranks on {name}"), Way::OneWay, vec![(first, second)]));
        }
        Ok(plan)
    }

    fn add(&mut self, between: String, way: Way, pairs: Vec<(usize, usize)>) -> usize {
        self.experiments.push(Experiment { between, way, pairs });
        self.experiments.len() - 1
    }

    /// The ports of a switch, two by two: the last with the first where there is no other.
    fn switch(
        &mut self,
        topology: &Topology,
        switch: NodeId,
        children: &[NodeId],
        below: &BTreeMap<NodeId, Vec<usize>>,
    ) {
        if children.len() < 2 {
            return;
        }
        let name = |node: NodeId| topology.names.get(&node).map_or("the switch", String::as_str);
        let (mut firsts, mut alone) = (Vec::new(), Vec::new());
        for two in children.chunks(2) {
            let ports = [two[0], two.get(1).copied().unwrap_or(children[0])];
            let [a, b] = ports.map(|port| &below[&port]);
            let between = format!("{} and {}", name(ports[0]), name(ports[1]));
            let pair = vec![(a[0], b[0])];
            let one_way = self.add(between.clone(), Way::OneWay, pair.clone());
            let both_ways = self.add(between.clone(), Way::BothWays, pair.clone());
            let pairs: Vec<(usize, usize)> = a.iter().copied().zip(b.iter().copied()).take(MOST_PAIRS).collect();
            let several = (pairs.len() > 1).then(|| self.add(between, Way::BothWays, pairs));
            self.neighbours.push(Neighbours { ports, one_way, both_ways, several });
            if two.len() == 2 && firsts.len() < MOST_PAIRS {
                firsts.extend(pair);
                alone.push(both_ways);
            }
        }
        if firsts.len() > 1 {
            let experiment = self.add(format!("all ports of {}", name(switch)), Way::BothWays, firsts);
            self.all.push(All { switch, experiment, alone });
        }
    }

    /// [`Hosts::one_at_a_time`].
    fn one_at_a_time(&self, series: &[Series]) -> Option<u64> {
        let at = |number: usize, place: usize| series[number].points[place].bandwidth();
        let waits = |place: usize| {
            self.neighbours.iter().all(|two| {
                let shorter = (0..place).map(|place| at(two.both_ways, place)).fold(0.0, f64::max);
                at(two.both_ways, place) < SHARED * shorter.min(at(two.one_way, place))
            })
        };
        let two = self.neighbours.first()?;
        let points = &series[two.both_ways].points;
        (0..points.len()).rev().take_while(|&place| waits(place)).last().map(|place| points[place].length)
    }

    /// Writes what was measured into the cluster file.
    fn fill(&self, file: &mut ClusterFile, topology: &Topology, series: &[Series]) {
        let name = |node: NodeId| topology.names.get(&node).cloned();
        let mut done: Vec<NodeId> = Vec::new();
        for Neighbours { ports, one_way, several, .. } in &self.neighbours {
            for &port in ports.iter().filter(|&&port| !done.contains(&port)).collect::<Vec<_>>() {
                let several = several.map(|number| &series[number]);
                file.port.push(series[*one_way].port(name(port), None, several, Series::sustained));
                done.push(port);
            }
        }
        if let Some(inside) = self.inside {
            file.port.push(series[inside].port(None, Some("pu"), None, Series::highest));
        }
        for All { switch, experiment, alone } in &self.all {
            let together = series[*experiment].sustained();
            let sum: f64 = alone.iter().map(|&number| series[number].sustained()).sum();
            let table = file.switch.iter_mut().find(|table| Some(&table.name) == topology.names.get(switch));
            if let Some(table) = table.filter(|_| together < SHARED * sum) {
                // Both ways: each message of either direction goes through the switch once.
                table.limit(2.0 * together);
            }
        }
    }
}

/// The host that calls itself so: by its whole name, or by what comes before the first dot.
fn host_named(topology: &Topology, name: &str) -> Option<NodeId> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let whole = topology.hosts().find(|(_, known)| *known == name);
    whole.or_else(|| topology.hosts().find(|(_, known)| short(known) == short(name))).map(|host| host.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "[[host]]\nnames = 'n[1-5]'\ntopology = 'core:2 pu:1'
[[switch]]\nname = 'a'\nmembers = 'n[1-3]'\n[[switch]]\nname = 'b'\nmembers = 'n[4-5]'
[[switch]]\nname = 'top'\nmembers = ['a', 'b']\n";

    fn ranks() -> Vec<String> {
        (0..10).map(|rank| format!("n{}.site.org", rank / 2 + 1)).collect()
    }

    #[test]
    fn neighbouring_ports_of_every_switch_are_measured() {
        let topology = Topology::parse_text(CLUSTER).unwrap();
        let plan = Plan::new(&topology, &ranks()).unwrap();
        let words: Vec<String> = plan.experiments.iter().map(Experiment::word).collect();
        let expected = [
            // Across the trunks: alone, both ways, all that fit.
            "o:0-6",
            "b:0-6",
            "b:0-6,1-7,2-8,3-9",
            // n1 and n2, n3 and n1 in one subnet.
            "o:0-2",
            "b:0-2",
            "b:0-2,1-3",
            "o:4-0",
            "b:4-0",
            "b:4-0,5-1",
            // n4 and n5 in the other, and inside a host.
            "o:6-8",
            "b:6-8",
            "b:6-8,7-9",
            "o:0-1",
        ];
        assert_eq!(words, expected);
        let error = Plan::new(&topology, &["n1".into(), "x".into()]).unwrap_err();
        assert_eq!(error.cause, "rank 1 is on the host x, which the cluster file does not have");
    }

    /// Lines as the program writes them: 1 ms for 100 bytes alone; several pairs share what one gets.
    fn lines(plan: &Plan) -> Vec<String> {
        let line = |(number, experiment): (usize, &Experiment)| {
            let pairs = experiment.pairs.len();
            let seconds = vec![format!("{:e}", 1e-3 * pairs as f64); pairs].join(" ");
            format!("result {number} 100 {seconds}")
        };
        plan.experiments.iter().enumerate().map(line).collect()
    }

    #[test]
    fn what_was_measured_becomes_ports_of_the_file() {
        let mut file = ClusterFile::parse(CLUSTER).unwrap();
        let topology = cluster::build(&file).unwrap();
        let plan = Plan::new(&topology, &ranks()).unwrap();
        let series = results(&lines(&plan), &plan.experiments, &[100]).unwrap();
        plan.fill(&mut file, &topology, &series);
        let filled = Topology::parse_text(&file.to_toml()).unwrap();
        let hct = filled.hct().unwrap();
        let near = |found: Option<f64>| (found.unwrap() - 1e5).abs() < 1.0;
        for (&node, name) in filled.names.iter().filter(|(node, _)| **node != 0) {
            let port = hct.port(node);
            assert!(
                near(port.out.at(100.0)) && near(port.inwards.at(100.0)) && near(port.max_bandwidth),
                "{name}: {port:?}"
            );
        }
        assert!(near(hct.port(filled.pus[0].node).out.at(100.0)));
        assert!(results(&lines(&plan)[1..], &plan.experiments, &[100]).unwrap_err().cause.contains("a and b"));
    }

    #[test]
    fn a_switch_that_all_ports_wait_for_is_bounded() {
        let text = "[[host]]\nnames = 'n[1-4]'\ntopology = 'pu:1'\n[[switch]]\nname = 's'\nmembers = 'n[1-4]'\n";
        let mut file = ClusterFile::parse(text).unwrap();
        let topology = cluster::build(&file).unwrap();
        let ranks: Vec<String> = (1..5).map(|host| format!("n{host}")).collect();
        let plan = Plan::new(&topology, &ranks).unwrap();
        let series = results(&lines(&plan), &plan.experiments, &[100]).unwrap();
        plan.fill(&mut file, &topology, &series);
        let hct = Topology::parse_text(&file.to_toml()).unwrap().hct().unwrap();
        assert!((hct.max_bandwidth(0).unwrap() - 2e5).abs() < 1.0);
    }

    #[test]
    fn handshakes_are_noticed_where_long_messages_get_less_both_ways() {
        let plan = Plan::new(&Topology::parse_text(CLUSTER).unwrap(), &ranks()).unwrap();
        let found = |one_way: [f64; 4], both_ways: [f64; 4], last: [f64; 4]| {
            let other = plan.neighbours.last().unwrap().both_ways;
            let series: Vec<Series> = plan
                .experiments
                .iter()
                .enumerate()
                .map(|(number, experiment)| {
                    let both_ways = if number == other { last } else { both_ways };
                    let rates = if experiment.way == Way::OneWay { one_way } else { both_ways };
                    let points = rates.iter().zip([64, 1024, 65536, 1 << 20]);
                    let point = |(rate, length)| Point { length, seconds: vec![length as f64 / rate] };
                    let points = points.map(point).collect();
                    Series { between: experiment.between.clone(), way: experiment.way, pairs: 1, points }
                })
                .collect();
            plan.one_at_a_time(&series)
        };
        let one_way = [3.0, 22.0, 12.0, 12.0];
        for (one_way, both_ways, expected, why) in [
            (one_way, [4.0, 11.0, 6.0, 6.0], Some(65536), "a handshake"),
            (one_way, [4.0, 11.0, 11.0, 6.0], Some(1 << 20), "of the longest"),
            (one_way, [4.0, 11.0, 6.0, 11.0], None, "not of the longest"),
            (one_way, [2.0, 5.5, 6.0, 6.0], None, "what both directions share at all lengths"),
            ([3.0, 22.0, 6.0, 6.0], [4.0, 11.0, 6.0, 6.0], None, "no more one way"),
        ] {
            assert_eq!(found(one_way, both_ways, both_ways), expected, "{why}");
        }
        assert_eq!(found(one_way, [4.0, 11.0, 6.0, 6.0], [4.0, 11.0, 11.0, 11.0]), None, "not between all ports");
        assert_eq!(Plan::default().one_at_a_time(&[]), None);
    }

    #[test]
    fn ranks_say_where_they_are() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(hosts_of(&lines("host 1 b\nsize 2\nhost 0 a")).unwrap(), ["a", "b"]);
        for text in ["", "size 2\nhost 0 a", "size 1\nhost 0 a", "size 2\nhost 0 a\nhost 2 b"] {
            assert!(hosts_of(&lines(text)).unwrap_err().remedy.is_some(), "{text}");
        }
        let file = known_by_ranks(&["a".into(), "b".into(), "a".into()]);
        let topology = cluster::build(&file).unwrap();
        assert_eq!((topology.pus.len(), topology.nodes[0].level), (3, Level::Switch));
    }
}
