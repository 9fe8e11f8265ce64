//! quick
mod instances;
use cohabit_map::{Options, Problem};
use cohabit_model::cost::distance_cost;
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let sizes: Vec<usize> = args[0].split(',').map(|s| s.parse().unwrap()).collect();
    let names: Vec<&str> = args[1].split(',').collect();
    let seeds: u64 = args.get(2).map_or(3, |s| s.parse().unwrap());
    let budget: Option<f64> = args.get(3).map(|s| s.parse().unwrap());
    for size in sizes {
        let topology = instances::topology(size);
        let mut logs = vec![0.0; names.len()];
        let mut times = vec![0.0; names.len()];
        let mut count = 0.0;
        for kind in instances::KINDS {
            for seed in 1..=seeds {
                let weight = instances::graph(kind, size, seed);
                let options =
                    Options { seed, budget: budget.map(|b| Duration::from_secs_f64(b / 1e3)), ..Options::default() };
                let problem = Problem { weight: &weight, load: &[], topology: &topology, options: &options };
                let mut js = vec![];
                for (i, name) in names.iter().enumerate() {
                    let m = cohabit_map::mapper(name).unwrap();
                    let t = Instant::now();
                    let p = m.map(&problem).unwrap();
                    let t = t.elapsed().as_secs_f64() * 1e3;
                    times[i] += t;
                    js.push((distance_cost(&weight, &topology, &p), t));
                }
                let base = js[0].0 as f64;
                print!("{kind:10} {seed} {:12}", js[0].0);
                for (i, (j, t)) in js.iter().enumerate() {
                    logs[i] += (*j as f64 / base).ln();
                    print!("  {:.4} {:8.2}", *j as f64 / base, t);
                }
                println!();
                count += 1.0;
            }
        }
        print!("{size} geomean                  ");
        for i in 0..names.len() {
            print!("  {:.4} {:8.2}", (logs[i] / count).exp(), times[i] / count);
        }
        println!();
    }
}
