//! Where tasks go without a profile and by a mapping, and what every mapper's placement costs.

use super::html;
use crate::hosts;
use crate::mapping::weight_of;
use crate::picture::text::grouped;
use crate::progress::during;
use cohabit_apply::{Placement, exporter};
use cohabit_evaluate::verdict::hopeless_as_seen;
use cohabit_map::{MAPPERS, Mapper, Options, Problem, mapper};
use cohabit_model::cost::distance_cost;
use cohabit_model::mapping::{Cost as MappingCost, FORMAT, Placed as PlacedTask};
use cohabit_model::{Error, Mapping, Matrix, Period, Profile, Result, Topology};

/// The mapper that knows nothing of who communicates.
const BEFORE: &str = "packed";
/// Pairs up to which a mapper that searches is run for a page, and any other.
const MOST_PAIRS: [usize; 2] = [6_000, 1_200_000];
/// The mapper that takes for ever but for few tasks, and how many these are.
const EXHAUSTIVE: (&str, usize) = ("exact", 8);
/// Tasks of which the table of places has a row each.
const MOST_ROWS: usize = 4096;

/// A mapper's placement.
pub struct Cost {
    /// Its name.
    pub mapper: &'static str,
    /// J, or why it is not known.
    pub cost: Result<u128, String>,
}

/// Tasks on a machine, before and after.
pub struct Placed {
    /// The machine.
    pub topology: Topology,
    /// What J counts.
    pub weight: Matrix,
    /// Indices into its PUs, tasks in order on PUs in order.
    pub before: Vec<usize>,
    /// The same by the mapping.
    pub after: Vec<usize>,
    /// What the mapping is called.
    pub name: String,
    /// The mappers' costs, in the table's order.
    pub costs: Vec<Cost>,
    /// Whether the mapping was given, and not made for the page.
    pub is_given: bool,
}

impl Placed {
    /// Maps a profile by every mapper that is affordable; `given` is a mapping of the user's, with its name.
    ///
    /// # Errors
    /// Where there is no place for the tasks, or the mapping is not of them.
    pub fn new(
        profile: &Profile,
        periods: &[Period],
        topology: Topology,
        given: Option<(String, &Mapping)>,
    ) -> Result<Self> {
        let (_, weight) = weight_of(None, profile)?;
        let mut options = Options::default();
        hosts::keep_to_one(profile, &topology, &mut options)?;
        let work = profile.work();
        let problem = Problem { weight, load: &work, periods, topology: &topology, options: &options };
        let before = mapper(BEFORE)?.map(&problem)?;
        let after = match &given {
            Some((name, mapping)) => Some(
                crate::commands::evaluate::placement(mapping, profile, &topology).map_err(|error| error.at(name))?,
            ),
            None => None,
        };
        let mut costs = Vec::new();
        let mut least: Option<(u128, &str, Vec<usize>)> = None;
        for &one in MAPPERS {
            let found = match too_dear(one, &problem) {
                _ if one.name() == BEFORE => Ok(before.clone()),
                Some(why) => Err(why),
                None => during("mapping", || one.map(&problem)).map_err(|error| error.cause),
            };
            let cost =
                found.as_ref().map(|placement| distance_cost(weight, &topology, placement)).map_err(String::clone);
            if let (Ok(placement), Ok(cost)) = (found, &cost) {
                if least.as_ref().is_none_or(|(known, ..)| cost < known) {
                    least = Some((*cost, one.name(), placement));
                }
            }
            costs.push(Cost { mapper: one.name(), cost });
        }
        let is_given = given.is_some();
        let (name, after) = match (given, after, least) {
            (Some((name, _)), Some(after), _) => (name, after),
            (_, _, Some((_, name, placement))) => (name.to_owned(), placement),
            _ => return Err(Error::new("no mapper places these tasks")),
        };
        let weight = weight.clone();
        Ok(Self { topology, weight, before, after, name, costs, is_given })
    }

    /// What a PU is called.
    pub fn label(&self, pu: usize) -> String {
        let index = self.topology.pus[pu].os_index;
        self.topology.host_of(pu).map_or_else(|| index.to_string(), |host| format!("{host}:{index}"))
    }

    /// Cells of `each` tasks in the order of the PUs that the mapping puts them on.
    pub fn order(&self, each: usize) -> Vec<usize> {
        let mut cells: Vec<usize> = (0..self.after.len().div_ceil(each)).collect();
        cells.sort_by_key(|&cell| (self.after[cell * each], cell));
        cells
    }

    /// Both costs.
    pub fn both(&self) -> [u128; 2] {
        [&self.before, &self.after].map(|placement| distance_cost(&self.weight, &self.topology, placement))
    }

    /// Why no placement gains anything on this machine, where none does.
    pub fn hopeless(&self, profile: &Profile) -> Option<String> {
        hopeless_as_seen(profile, &self.weight, &self.topology)
    }

    /// The section's content.
    pub fn html(&self, profile: &Profile) -> String {
        let [before, after] = self.both();
        let change = match before {
            0 => String::new(),
            before => format!(" ({:+.1} %)", 100.0 * (after as f64 / before as f64 - 1.0)),
        };
        let mut out = html::paragraph(&format!(
            "J, what is communicated times the distance: {} as '{BEFORE}' places them, tasks in order on PUs in order; {} by \
             {}{change}. J is no time: only measured runs show a gain.",
            grouped(before),
            grouped(after),
            self.name,
        ));
        if let Some(reason) = self.hopeless(profile) {
            out += &html::paragraph(&format!("Here that gains nothing: {reason}."));
        }
        out += "<div class=\"pair\">\n";
        for (title, placement) in [(BEFORE, &self.before), (self.name.as_str(), &self.after)] {
            out += &format!("<figure><figcaption>{}</figcaption>\n", html::text(title));
            let says =
                format!("the machine's boxes with the tasks as {title} places them; the table below says the same");
            out += &match self.picture(profile, placement) {
                Ok(svg) => html::picture(&svg, &says),
                Err(error) => html::paragraph(&format!("No picture: {}.", error.cause)),
            };
            out += "</figure>\n";
        }
        out += "</div>\n";
        let row = |task: usize| {
            let name = profile.meta.tasks.get(task).map_or("", |task| task.name.as_str());
            vec![task.to_string(), name.to_owned(), self.label(self.before[task]), self.label(self.after[task])]
        };
        let rows: Vec<_> = (0..self.after.len().min(MOST_ROWS)).map(row).collect();
        let more = self.after.len() - rows.len();
        out += "<details><summary>Which PU each task is on</summary>\n";
        out += &html::table("PUs by their OS index", &["task", "name", BEFORE, &self.name], &rows);
        if more > 0 {
            out += &html::paragraph(&format!("and {} more tasks", grouped(more as u128)));
        }
        out + "</details>\n"
    }

    /// The table of all mappers.
    pub fn costs_html(&self) -> String {
        let [before, _] = self.both();
        let row = |cost: &Cost| {
            let about = mapper(cost.mapper).map_or("", Mapper::about);
            let (value, beside) = match &cost.cost {
                Ok(value) => {
                    let beside = match before {
                        0 => "-".to_owned(),
                        before => format!("{:+.1} %", 100.0 * (*value as f64 / before as f64 - 1.0)),
                    };
                    (grouped(*value), beside)
                }
                Err(why) => (format!("not known: {why}"), String::new()),
            };
            vec![cost.mapper.to_owned(), value, beside, about.to_owned()]
        };
        let mut rows: Vec<_> = self.costs.iter().map(row).collect();
        if self.is_given {
            let [before, after] = self.both();
            let beside = if before == 0 { 0.0 } else { 100.0 * (after as f64 / before as f64 - 1.0) };
            rows.insert(
                0,
                vec![self.name.clone(), grouped(after), format!("{beside:+.1} %"), "the mapping given".to_owned()],
            );
        }
        html::table("J by every mapper, as each does by default", &["mapper", "J", "beside packed", "how"], &rows)
    }

    fn picture(&self, profile: &Profile, placement: &[usize]) -> Result<String> {
        let place = |(task, &pu): (&cohabit_model::Task, &usize)| PlacedTask {
            host: self.topology.host_of(pu).unwrap_or_default().to_owned(),
            ..PlacedTask::new(task, self.topology.pus[pu].os_index)
        };
        let (weight, _) = weight_of(None, profile)?;
        let mapping = Mapping {
            format: FORMAT,
            mapper: String::new(),
            seed: 0,
            weight,
            objective: String::new(),
            level_costs: Vec::new(),
            topology: String::new(),
            programs: Vec::new(),
            no_gain: None,
            tasks: profile.meta.tasks.iter().zip(placement).map(place).collect(),
            cost: MappingCost::default(),
            phases: None,
            unknown: serde_json::Map::default(),
        };
        exporter("svg")?.export(&Placement::new(&mapping, &self.topology, &self.weight)?)
    }
}

/// Why a mapper is not run for a page.
fn too_dear(one: &'static dyn Mapper, problem: &Problem) -> Option<String> {
    let (pairs, tasks) = (problem.weight.entries(), problem.weight.tasks());
    let most = MOST_PAIRS[usize::from(!one.searches())];
    if one.name() == EXHAUSTIVE.0 && tasks > EXHAUSTIVE.1 {
        return Some(format!("it tries all placements, which takes too long for {tasks} tasks"));
    }
    (pairs > most).then(|| {
        format!(
            "too many pairs communicate to wait for it here ({}); 'cohabit map --mapper {}' does",
            grouped(pairs as u128),
            one.name()
        )
    })
}
