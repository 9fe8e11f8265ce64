//! Parts of a run by what is exchanged at the same time: how they are asked for.

use cohabit_cluster::{Options, periods};
use cohabit_model::timeline::By;
use cohabit_model::{Profile, Result, Timeline};

/// How clusters in time are looked for.
#[derive(clap::Args, Debug, Clone)]
pub struct ClusterArgs {
    /// Clusters in time at most (docs/time.md)
    #[arg(long = "max-clusters", value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    most_clusters: u32,
    /// Take some events to be scattered: clusters may then differ in length, and what lies between them belongs to none
    #[arg(long)]
    noise: bool,
}

impl ClusterArgs {
    fn options(&self) -> Options {
        Options { most: self.most_clusters as usize, noise: self.noise }
    }

    /// The parts of a run by what is asked for, or what is preferred.
    ///
    /// # Errors
    /// The profile has no series, or no phases of the program where these are asked for.
    pub fn timeline(&self, profile: &Profile, by: Option<By>) -> Result<Timeline> {
        match by {
            None => periods::preferred(profile, &self.options()),
            Some(By::Clusters) => Ok(periods::of_clusters(profile, &self.options())?.2),
            Some(By::Markers) => periods::of_markers(profile),
            Some(By::Recurring) => Ok(periods::of_recurring(profile)?.1),
        }
    }
}
