//! Which host or switch is above which: from the names in a cluster file to one tree.

use super::file::{ClusterFile, Names, SwitchTable};
use super::hostlist;
use crate::{Error, Result};
use std::collections::HashMap;

/// Switches on top of one another, at most: no network has more tiers.
const MOST_TIERS: usize = 32;

/// A host or switch, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// Of [`Tree::hosts`].
    Host(usize),
    /// Of [`Tree::switches`].
    Switch(usize),
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The number of its table in the file.
    pub table: usize,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Its name; empty for the one that is there because the file has none.
    pub name: String,
    /// What is below it.
    pub members: Vec<Member>,
}

/// The tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// All hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// All switches, in the order of the file.
    pub switches: Vec<Switch>,
    /// What everything else is below.
    pub root: Member,
}

impl Tree {
    /// The tree of a file's names. Without any switch, several hosts are below one that has no name.
    ///
    /// # Errors
    /// Names that come twice or are unknown, a switch without members, what is no tree.
    pub fn new(file: &ClusterFile) -> Result<Self> {
        let hosts = hosts(file)?;
        let mut member_of: HashMap<&str, Member> = HashMap::new();
        let named = hosts.iter().enumerate().map(|(at, host)| (host.name.as_str(), Member::Host(at)));
        let switches = file.switch.iter().enumerate().map(|(at, switch)| (switch.name.as_str(), Member::Switch(at)));
        for (name, member) in named.chain(switches) {
            if matches!(member, Member::Switch(_)) && hostlist::expand(name)? != [name] {
                return Err(
                    Error::new(format!("{name:?} is no name of one switch")).remedy("each has its own [[switch]]")
                );
            }
            if member_of.insert(name, member).is_some() {
                return Err(Error::new(format!("{name} is described twice"))
                    .remedy("every host and switch has a name of its own, and one table that describes it"));
            }
        }
        let mut switches = Vec::new();
        for table in &file.switch {
            switches.push(Switch { name: table.name.clone(), members: members(table, &member_of)? });
        }
        if switches.is_empty() && hosts.len() > 1 {
            switches.push(Switch { name: String::new(), members: (0..hosts.len()).map(Member::Host).collect() });
        }
        let root = root(&hosts, &switches)?;
        Ok(Self { hosts, switches, root })
    }

    /// The name of a host or switch.
    pub fn name(&self, member: Member) -> &str {
        name(&self.hosts, &self.switches, member)
    }
}

/// The hosts, each with the table that describes it.
fn hosts(file: &ClusterFile) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    let mut rest = None;
    for (table, host) in file.host.iter().enumerate() {
        match &host.names {
            Some(names) => {
                hosts.extend(names.expand()?.into_iter().map(|name| Host { name, table }));
                hostlist::check_count(hosts.len())?;
            }
            None if rest.replace(table).is_some() => {
                return Err(Error::new("two [[host]] without names").remedy("name the hosts of one of them"));
            }
            None => {}
        }
    }
    if let Some(table) = rest {
        let mut known: std::collections::HashSet<String> = hosts.iter().map(|host| host.name.clone()).collect();
        known.extend(file.switch.iter().map(|switch| switch.name.clone()));
        for switch in &file.switch {
            for name in switch.members.expand()? {
                if known.insert(name.clone()) {
                    hosts.push(Host { name, table });
                }
            }
            hostlist::check_count(hosts.len())?;
        }
    }
    match hosts.is_empty() {
        true => Err(Error::new("the cluster has no host").remedy("add [[host]] with names and a topology")),
        false => Ok(hosts),
    }
}

fn members(switch: &SwitchTable, member_of: &HashMap<&str, Member>) -> Result<Vec<Member>> {
    let SwitchTable { name, members, .. } = switch;
    let lists: &Names = members;
    if lists.lists().is_empty() {
        return Err(Error::new(format!("switch {name} has no ports"))
            .remedy("name the hosts or switches that its ports lead to: members = [\"node[01-08]\"]"));
    }
    let known = |member: String| {
        member_of.get(member.as_str()).copied().ok_or_else(|| {
            Error::new(format!("switch {name} has the member {member}, which is neither a host nor a switch"))
                .remedy("describe it in [[host]] or [[switch]]")
        })
    };
    lists.expand().map_err(|error| error.at(format!("switch {name}")))?.into_iter().map(known).collect()
}

/// What is below nothing, where that is one and everything else is below it.
fn root(hosts: &[Host], switches: &[Switch]) -> Result<Member> {
    let at = |member: Member| match member {
        Member::Host(host) => host,
        Member::Switch(switch) => hosts.len() + switch,
    };
    let mut above: Vec<Option<usize>> = vec![None; hosts.len() + switches.len()];
    for (number, switch) in switches.iter().enumerate() {
        for &member in &switch.members {
            if let Some(other) = above[at(member)].replace(number) {
                let (name, first) = (name(hosts, switches, member), &switches[other].name);
                return Err(Error::new(format!("{name} is a member of {first} and of {}", switch.name))
                    .remedy("a cluster is a tree: a host or switch has one port upwards"));
            }
        }
    }
    let all = (0..hosts.len()).map(Member::Host).chain((0..switches.len()).map(Member::Switch));
    let tops: Vec<Member> = all.filter(|&member| above[at(member)].is_none()).collect();
    let named = |members: &[Member]| {
        let few: Vec<&str> = members.iter().take(4).map(|&member| name(hosts, switches, member)).collect();
        few.join(", ") + if members.len() > 4 { ", ..." } else { "" }
    };
    let in_cycle = || {
        let climbs = |&at: &usize| {
            let up = std::iter::successors(Some(at), |&at| above[hosts.len() + at]);
            up.take(switches.len() + 1).count() > switches.len()
        };
        let round: Vec<Member> = (0..switches.len()).filter(climbs).map(Member::Switch).collect();
        (!round.is_empty()).then(|| {
            Error::new(format!("the switches {} are above one another", named(&round)))
                .remedy("a cluster is a tree: take one of them out of the other's members")
        })
    };
    if let Some(error) = in_cycle() {
        return Err(error);
    }
    if let [top] = tops[..] {
        let tiers = |&at: &usize| std::iter::successors(Some(at), |&at| above[hosts.len() + at]).count();
        let most = (0..switches.len()).map(|at| tiers(&at)).max().unwrap_or(0);
        return match most > MOST_TIERS {
            true => Err(Error::new(format!("{most} switches on top of one another, at most {MOST_TIERS} can be"))),
            false => Ok(top),
        };
    }
    Err(Error::new(format!("nothing joins {}", named(&tops)))
        .remedy("a cluster is one tree: add a [[switch]] that has them all as members"))
}

fn name<'a>(hosts: &'a [Host], switches: &'a [Switch], member: Member) -> &'a str {
    match member {
        Member::Host(host) => &hosts[host].name,
        Member::Switch(switch) => &switches[switch].name,
    }
}
