//! Parts of a run by what is exchanged at the same time: how they are asked for.

use cohabit_cluster::calls::of_calls;
use cohabit_cluster::{Options, periods};
use cohabit_model::calls::CallPlace;
use cohabit_model::timeline::By;
use cohabit_model::{Error, Profile, Result, Timeline};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Clusters at most, where nothing is said.
const MOST_CLUSTERS: usize = 20;

/// How clusters in time are looked for.
#[derive(clap::Args, Debug, Clone)]
pub struct ClusterArgs {
    #[arg(long = "max-clusters", value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help = format!("Clusters in time at most (docs/time.md) [default: {MOST_CLUSTERS}]"))]
    most_clusters: Option<u32>,
    /// Take some events to be scattered: clusters may then differ in length, and what lies between them belongs to none
    #[arg(long)]
    noise: bool,
}

impl ClusterArgs {
    fn options(&self) -> Options {
        Options { most: self.most_clusters.map_or(MOST_CLUSTERS, |most| most as usize), noise: self.noise }
    }

    /// The option of these that was given, where one was.
    pub fn given(&self) -> Option<&'static str> {
        if self.noise { Some("--noise") } else { self.most_clusters.map(|_| "--max-clusters") }
    }

    /// The parts of a run by what is asked for, or what is preferred.
    ///
    /// # Errors
    /// The profile has no series, or no phases of the program where these are asked for.
    pub fn timeline(&self, profile: &Profile, by: Option<By>) -> Result<Timeline> {
        let by_phases = by.is_none() && periods::names_phases(profile);
        if let (Some(option), true) =
            (self.given(), by_phases || matches!(by, Some(By::Markers | By::Recurring | By::Calls)))
        {
            let why = match by {
                None => "the program names its phases, which go before clusters",
                Some(_) => "no clusters are looked for",
            };
            let remedy = match by {
                None => "leave it out; 'cohabit show --time --by clusters' looks for clusters all the same",
                Some(_) => "leave it out",
            };
            return Err(Error::new(format!("{option} does nothing here: {why}")).remedy(remedy));
        }
        match by {
            None => periods::preferred(profile, &self.options()),
            Some(By::Clusters) => Ok(periods::of_clusters(profile, &self.options())?.2),
            Some(By::Markers) => periods::of_markers(profile),
            Some(By::Recurring) => Ok(periods::of_recurring(profile)?.1),
            Some(By::Calls) => Ok(of_calls(profile)?.timeline),
        }
    }
}

impl ClusterArgs {
    /// The parts of a run that a mapping each is made for.
    ///
    /// # Errors
    /// As [`ClusterArgs::timeline`].
    pub fn for_mappings(&self, profile: &Profile, by: Option<By>) -> Result<Parts> {
        let called = match by {
            Some(By::Calls) => Some(of_calls(profile)?),
            // Before windows that come again: these are the same, and a run knows them again.
            None if !periods::names_phases(profile) => of_calls(profile).ok(),
            _ => None,
        };
        let (timeline, places) = match called {
            Some(called) => (called.timeline, called.places),
            None if by.is_some() => (self.timeline(profile, by)?, Vec::new()),
            None => (periods::for_mappings(profile, &self.options())?, Vec::new()),
        };
        if let (Some(option), true) = (self.given(), timeline.by != By::Clusters) {
            return Err(Error::new(format!("{option} does nothing here: no clusters are looked for"))
                .remedy("leave it out, or take --per-phase=clusters"));
        }
        let order = periods::order(profile, &timeline);
        let named = |places: &Vec<u32>| {
            places.iter().map(|&place| profile.meta.call_places[place as usize].clone()).collect::<Vec<_>>()
        };
        let mut begins_at: Vec<Vec<CallPlace>> = places.iter().map(named).collect();
        begins_at.resize(timeline.periods.len(), Vec::new());
        Ok(Parts { timeline, order, begins_at })
    }
}

/// Parts of a run that a mapping each is made for.
pub struct Parts {
    /// The parts.
    pub timeline: Timeline,
    /// The order in which they come: places in the timeline.
    pub order: Vec<usize>,
    /// The call sites at which each begins, where that is by what they are told apart.
    pub begins_at: Vec<Vec<CallPlace>>,
}

/// For each column of `wide` windows the part of the run that most of its messages are of; none where most are of no
/// part.
pub fn part_of_columns(profile: &Profile, timeline: &Timeline, wide: u64, count: usize) -> Vec<Option<usize>> {
    let mut spans: Vec<(u64, u64, usize)> = Vec::new();
    for (part, period) in timeline.periods.iter().enumerate() {
        spans.extend(period.spans.iter().map(|span| (span.start, span.end, part)));
    }
    spans.sort_unstable();
    let mut sums = vec![BTreeMap::<Option<usize>, u128>::new(); count];
    for row in &profile.series {
        let at = spans.partition_point(|span| span.0 <= row.bin).checked_sub(1);
        let part = at.map(|at| spans[at]).filter(|span| row.bin < span.1).map(|span| span.2);
        let Some(sums) = sums.get_mut((row.bin / wide) as usize) else { continue };
        *sums.entry(part).or_default() += u128::from(row.messages);
    }
    let most = |sums: BTreeMap<Option<usize>, u128>| {
        sums.into_iter().max_by_key(|&(part, sum)| (sum, Reverse(part))).and_then(|(part, _)| part)
    };
    sums.into_iter().map(most).collect()
}
