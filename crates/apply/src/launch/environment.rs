//! Settings of the environment by which a program pins its own threads, against the plan.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variables, and the values that switch the pinning off.
const PINNING: [(&str, &[&str]); 6] = [
    ("OMP_PROC_BIND", &["false"]),
    ("OMP_PLACES", &[]),
    ("GOMP_CPU_AFFINITY", &[]),
    ("KMP_AFFINITY", &["none", "disabled"]),
    ("MV2_CPU_MAPPING", &[]),
    ("I_MPI_PIN", &["0", "off", "no", "disable"]),
];

/// A sentence for every variable that makes the program pin its own threads.
pub(crate) fn notes(variable: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let set = |(name, off): &(&str, &[&str])| {
        let value = variable(name)?;
        let is_off = value.is_empty() || off.iter().any(|off| value.eq_ignore_ascii_case(OsStr::new(off)));
        let note = "the program's runtime may pin its threads itself and undo the placement; unset it";
        (!is_off).then(|| format!("{name}={} is set: {note}", Path::new(&value).display()))
    };
    PINNING.iter().filter_map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::notes;

    #[test]
    fn only_what_pins_is_told() {
        for (name, value, told) in [
            ("OMP_PROC_BIND", "true", true),
            ("OMP_PROC_BIND", "spread", true),
            ("OMP_PROC_BIND", "FALSE", false),
            ("OMP_PLACES", "cores", true),
            ("GOMP_CPU_AFFINITY", "0-3", true),
            ("GOMP_CPU_AFFINITY", "", false),
            ("KMP_AFFINITY", "none", false),
            ("KMP_AFFINITY", "compact", true),
            ("OMP_NUM_THREADS", "4", false),
        ] {
            let found = notes(|asked| (asked == name).then(|| value.into()));
            assert_eq!(found.len(), usize::from(told), "{name}={value}: {found:?}");
            assert!(found.iter().all(|note| note.starts_with(&format!("{name}={value} is set"))));
        }
    }
}
