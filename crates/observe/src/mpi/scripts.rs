//! Launchers that a command calls which is none itself: a job script, or a program that runs others.

use super::launcher::{is_launcher, recognise};
use cohabit_model::command::find;
use cohabit_model::launcher::Recognised;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The longest file that is taken for a script.
const LONGEST_SCRIPT: u64 = 1 << 20;
/// How the names of programs begin whose arguments are scripts, whether or not these say so in their first line.
const INTERPRETERS: [&str; 9] = ["sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "python", "perl"];

/// The launcher that a command which is none itself calls, as far as its words and the scripts that they name tell:
/// `timeout 60 mpirun -n 4 ./a`, `sh -c 'mpirun ...'`, `./job.sh`. Whether it comes to the call is not known.
pub fn called_within(command: &[OsString]) -> Option<Recognised> {
    let (first, others) = command.split_first()?;
    let as_words = others.iter().enumerate().filter(|(_, word)| is_launcher(std::slice::from_ref(*word)));
    let mut calls: Vec<Vec<OsString>> = as_words.map(|(at, _)| others[at..].to_vec()).collect();
    let named = find(std::slice::from_ref(first)).ok();
    let scripts = named.into_iter().chain(others.iter().map(PathBuf::from));
    let scripts = scripts.filter_map(|path| script(&path, is_interpreter(first)));
    let lines = others.iter().map(|word| word.to_string_lossy().into_owned()).chain(scripts);
    calls.extend(lines.flat_map(|text| text.lines().filter_map(call_in).collect::<Vec<_>>()));
    calls.dedup();
    calls.iter().find_map(|call| recognise(call).ok())
}

fn is_interpreter(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    INTERPRETERS.contains(&name)
}

/// A file's text, where it is a script; that of any text, where an interpreter is to read it.
fn script(path: &Path, is_read: bool) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST_SCRIPT {
        return None;
    }
    let text = String::from_utf8(std::fs::read(path).ok()?).ok()?;
    (!text.contains('\0') && (is_read || text.starts_with("#!"))).then_some(text)
}

/// The words of a line from a launcher's name on. Quotes and brackets part words too: others than shells start programs
/// as well.
fn call_in(line: &str) -> Option<Vec<OsString>> {
    let line = line.trim_start();
    let is_of_word = |letter: char| letter.is_alphanumeric() || "._/-+=:@%".contains(letter);
    let mut words = line.split(|letter| !is_of_word(letter)).filter(|word| !word.is_empty()).map(OsString::from);
    if line.starts_with('#') {
        return None;
    }
    let name = words.find(|word| is_launcher(std::slice::from_ref(word)))?;
    Some(std::iter::once(name).chain(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::launcher::{Family, Launcher};

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        for (name, expected) in
            [("/bin/sh", true), ("python3.11", true), ("bash", true), ("cat", false), ("shuf", false), ("", false)]
        {
            assert_eq!(is_interpreter(OsStr::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn calls_of_launchers_are_found_in_lines() {
        for (line, found) in [
            ("mpirun -n 4 ./a", Some("mpirun -n 4 ./a")),
            ("  exec /opt/bin/mpiexec.hydra -n $N \"./a\" >log", Some("/opt/bin/mpiexec.hydra -n N ./a log")),
            ("subprocess.run(['mpiexec', '-n', '2', exe])", Some("mpiexec -n 2 exe")),
            ("# mpirun -n 4 ./a", None),
            ("mpirun_of=3 run-mpirun", None),
            ("", None),
        ] {
            assert_eq!(call_in(line), found.map(words), "{line}");
        }
    }

    /// A launcher that is a script here says which one it is; whoever calls it starts its ranks.
    #[test]
    fn a_launcher_within_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            path.into_os_string()
        };
        let launcher = write("mpirun", b"#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n");
        let call = format!("{} -n 2 ./a", launcher.to_str().unwrap());
        let job = write("job.sh", format!("#!/bin/sh\n{call}\n").as_bytes());
        let found = || Some(Recognised { launcher: Launcher::OpenMpi, family: Family::OpenMpi, major: 4 });
        let with = |first: &str, others: &[&OsString]| {
            let words = std::iter::once(OsString::from(first)).chain(others.iter().map(|&word| word.clone()));
            called_within(&words.collect::<Vec<_>>())
        };
        assert_eq!(called_within(std::slice::from_ref(&job)), found());
        assert_eq!(with("sh", &[&job]), found());
        assert_eq!(with("sh", &[&"-c".into(), &call.clone().into()]), found());
        assert_eq!(with("timeout", &[&"60".into(), &launcher, &"-n".into(), &"2".into()]), found());
        // Nothing is called by comments, by programs and by data.
        let comment = write("comment.sh", format!("#!/bin/sh\n# {call}\n").as_bytes());
        let data = write("data", format!("\0{call}").as_bytes());
        let broken = write("broken", &[0xff, 0xfe]);
        let folder = folder.path().as_os_str().to_owned();
        assert_eq!(with("sh", &[&comment, &data, &broken, &folder, &"no-such-file".into()]), None);
        let text = write("text", call.as_bytes());
        assert_eq!((with("cat", &[&text]), with("/bin/sh", &[&text])), (None, found()));
        assert_eq!(called_within(&[]), None);
    }
}
