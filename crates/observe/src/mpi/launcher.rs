//! The launchers that people already use: mpirun and mpiexec of Open MPI and of MPICH (Hydra), and Slurm's srun. Which
//! one a command is, and how its ranks are given an environment.

use cohabit_model::Error;
use cohabit_model::command::{CommandError, find};
use cohabit_model::launcher::words::{Context, Opt, contexts};
use cohabit_model::launcher::{Family, Launcher, Recognised};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names under which launchers of MPI are installed.
const NAMES: [&str; 12] = [
    "mpirun",
    "mpiexec",
    "orterun",
    "prterun",
    "srun",
    "mpirun.openmpi",
    "mpiexec.openmpi",
    "mpirun.mpich",
    "mpiexec.mpich",
    "mpiexec.hydra",
    "mpirun.hydra",
    "mpirun_rsh",
];

/// Whether the command's name is that of a launcher.
pub fn is_launcher(command: &[OsString]) -> bool {
    let name = command.first().and_then(|name| Path::new(name).file_name());
    name.is_some_and(|name| NAMES.iter().any(|known| OsStr::new(known) == name))
}

/// Which launcher the command is, and which MPI its ranks use.
///
/// # Errors
/// It is not there, or nothing tells which MPI it starts.
pub fn recognise(command: &[OsString]) -> Result<Recognised, CommandError> {
    if !is_launcher(command) {
        find(command)?;
        let family = of_program(&command[..1])?;
        return Ok(Recognised { launcher: Launcher::Singleton, family, major: 0 });
    }
    let (launcher, major) = version(command)?;
    let family = match launcher {
        Launcher::OpenMpi => Family::OpenMpi,
        Launcher::Hydra => Family::Mpich,
        Launcher::Srun | Launcher::Singleton => of_program(&command[1..])?,
    };
    Ok(Recognised { launcher, family, major })
}

/// Which launcher the command is, and its major version (0 where it says none).
///
/// # Errors
/// It is not there, or none that is known.
pub fn version(command: &[OsString]) -> Result<(Launcher, u32), CommandError> {
    let path = find(command)?;
    let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| {
        CommandError::CannotRun(Error::new(format!("{}: {error}", path.display())).remedy("check that it can be run"))
    })?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    match by_version(&said) {
        // prterun counts its own versions; it starts the ranks of Open MPI 5.
        Some(Launcher::OpenMpi) if said.contains("PRRTE") => Ok((Launcher::OpenMpi, 5)),
        Some(launcher) => Ok((launcher, major(&said))),
        None => {
            let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").trim().to_owned();
            Err(CommandError::CannotRun(
                Error::new(format!("{}: not a launcher of Open MPI, MPICH or Slurm (it says: {said})", path.display()))
                    .remedy("use the mpirun of one of these"),
            ))
        }
    }
}

fn by_version(said: &str) -> Option<Launcher> {
    let known = [
        ("Open MPI", Launcher::OpenMpi),
        ("OpenRTE", Launcher::OpenMpi),
        ("PRRTE", Launcher::OpenMpi),
        ("HYDRA", Launcher::Hydra),
        ("slurm", Launcher::Srun),
    ];
    known.into_iter().find(|(word, _)| said.contains(word)).map(|(_, launcher)| launcher)
}

/// The first number of the first word that is a version: `mpirun (Open MPI) 4.1.4`.
fn major(said: &str) -> u32 {
    let numbers = said.split_whitespace().filter_map(|word| word.split_once('.')).map(|(major, _)| major);
    numbers
        .filter_map(|major| major.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok())
        .next()
        .unwrap_or(0)
}

/// The MPI that the first of these words which is a program of MPI is linked with.
fn of_program(words: &[OsString]) -> Result<Family, CommandError> {
    program_family(words).ok_or_else(|| {
        CommandError::CannotRun(
            Error::new("cannot tell which MPI the program uses: it is linked with none that is known")
                .remedy("name the library to preload with COHABIT_MPI_LIBRARY, or use mpirun"),
        )
    })
}

/// The same; none where none is.
pub(super) fn program_family(words: &[OsString]) -> Option<Family> {
    let mut words = words.iter().filter(|word| !word.as_bytes().starts_with(b"-"));
    words.find_map(|word| find(std::slice::from_ref(word)).ok().and_then(|path| linked(&path)))
}

/// What srun lacks to start ranks of Open MPI, where it was not asked for it: these find one another by PMIx alone, and
/// end in MPI_Init ("Unreachable") without. `set` gives variables of the environment.
pub fn srun_without_pmix(
    recognised: &Recognised,
    command: &[OsString],
    set: impl Fn(&str) -> Option<OsString>,
) -> Option<&'static str> {
    let starts = recognised.launcher == Launcher::Srun && recognised.family == Family::OpenMpi;
    let is_pmix = |value: &[u8]| value.starts_with(b"pmix");
    let asked = contexts(Launcher::Srun, command)
        .iter()
        .flat_map(|context| &context.options)
        .any(|option| option.name == "mpi" && option.values.iter().any(|value| is_pmix(value.as_bytes())));
    let inherited = set("SLURM_MPI_TYPE").is_some_and(|value| is_pmix(value.as_bytes()));
    (starts && !asked && !inherited).then_some(
        "srun starts ranks of Open MPI with --mpi=pmix (or MpiDefault=pmix in slurm.conf) only; 'srun --mpi=list' says whether \
         this Slurm has it",
    )
}

/// Whether the programs in a command may start or join others by MPI, as far as their symbols and their libraries'
/// tell; also where no program is found that uses MPI by itself, as with a script.
pub fn may_start_processes(command: &[OsString]) -> bool {
    let programs: Vec<PathBuf> =
        command.iter().skip(1).filter_map(|word| find(std::slice::from_ref(word)).ok()).collect();
    let programs: Vec<&PathBuf> = programs.iter().filter(|path| linked(path).is_some()).collect();
    programs.is_empty() || programs.iter().any(|program| libraries(program).iter().any(|file| calls_dynamic(file)))
}

/// A program and its libraries, without those of MPI.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let said = dependencies(program).unwrap_or_default();
    let paths = said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let own = paths.map(PathBuf::from).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !["libmpi", "libopen-", "libc.", "libm.", "ld-linux"].iter().any(|known| name.starts_with(known))
    });
    std::iter::once(program.to_path_buf()).chain(own).collect()
}

fn calls_dynamic(file: &Path) -> bool {
    use object::{Object, ObjectSymbol};
    let Ok(bytes) = std::fs::read(file) else { return true };
    let Ok(parsed) = object::File::parse(&*bytes) else { return false };
    parsed.dynamic_symbols().filter(ObjectSymbol::is_undefined).any(|symbol| {
        let name = symbol.name().unwrap_or_default().to_ascii_lowercase();
        let call = name.trim_start_matches('p');
        ["mpi_comm_spawn", "mpi_comm_accept", "mpi_comm_connect", "mpi_comm_join"]
            .iter()
            .any(|known| call.starts_with(known))
    })
}

fn dependencies(path: &Path) -> Option<String> {
    let output = Command::new("ldd").arg(path).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn linked(path: &Path) -> Option<Family> {
    let said = dependencies(path)?;
    if said.contains("libmpich.so") || said.contains("libmpi.so.12") {
        Some(Family::Mpich)
    } else {
        said.contains("libmpi.so").then_some(Family::OpenMpi)
    }
}

/// What is added to a launcher's command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Additions {
    /// The library to preload.
    pub library: PathBuf,
    /// Variables of the ranks.
    pub variables: Vec<(String, OsString)>,
    /// Parameters of Open MPI.
    pub parameters: Vec<(&'static str, OsString)>,
}

const PRELOAD: &str = "LD_PRELOAD";

/// The words to run, and the variables to set for the first of them.
pub type Applied = (Vec<OsString>, Vec<(OsString, OsString)>);

impl Additions {
    /// The words to run, and the variables to set for the first of them. What has to be in a file is written to
    /// `place`.
    ///
    /// # Errors
    /// Those of [`Self::apply_to_app_file`].
    pub fn apply_in(&self, launcher: Launcher, command: &[OsString], place: &Path) -> Result<Applied, Error> {
        let contexts = match launcher {
            Launcher::OpenMpi => self.apply_to_app_file(command, place)?,
            _ => None,
        };
        Ok(contexts.map_or_else(|| self.apply(launcher, command), |words| (words, Vec::new())))
    }

    /// The same where nothing is in a file.
    pub fn apply(&self, launcher: Launcher, command: &[OsString]) -> Applied {
        let inherited = std::env::var_os(PRELOAD).filter(|value| !value.is_empty());
        let contexts = contexts(launcher, command);
        let mut edits = Edits::default();
        match launcher {
            Launcher::OpenMpi => {
                // Each context has an environment of its own: what stands before the first ':' is the first one's.
                let given = parameters(&contexts);
                contexts.iter().for_each(|context| self.in_context(context, &given, &inherited, &mut edits));
                (edits.apply(command), Vec::new())
            }
            Launcher::Hydra => {
                let asked = self.in_options_of_hydra(&contexts, &mut edits);
                let variables = self.with_preload(asked.or(inherited));
                edits
                    .insert(1, variables.into_iter().flat_map(|(name, value)| ["-genv".into(), name, value]).collect());
                (edits.apply(command), Vec::new())
            }
            Launcher::Srun => {
                let mut variables = self.with_preload(inherited);
                variables.extend(self.as_variables());
                let inherited = std::env::var(EXPORT).ok();
                let mut words = command.to_vec();
                variables.extend(export(&mut words, &contexts, inherited, &variables));
                (words, variables)
            }
            Launcher::Singleton => {
                let mut variables = self.with_preload(inherited);
                variables.extend(self.as_variables());
                (command.to_vec(), variables)
            }
        }
    }

    /// The variables of the ranks, the library before what else is to be preloaded.
    fn with_preload(&self, other: Option<OsString>) -> Vec<(OsString, OsString)> {
        let mut preload = self.library.clone().into_os_string();
        if let Some(other) = other {
            preload.push(":");
            preload.push(other);
        }
        let variables = self.variables.iter().map(|(name, value)| (name.into(), value.clone()));
        std::iter::once((PRELOAD.into(), preload)).chain(variables).collect()
    }

    /// Puts ours before the words of a context of Open MPI's mpirun. Of the parameters that the user has `given`
    /// anywhere in the command nothing is set again, since one may be given once.
    fn in_context(&self, context: &Context, given: &[OsString], inherited: &Option<OsString>, edits: &mut Edits) {
        let asked = context.options.iter().filter(|option| option.name == "x").filter_map(|option| {
            let value = of_preload(&option.values)?;
            edits.remove(option.words.clone());
            // Without a value it is that of the environment.
            value.or_else(|| inherited.clone())
        });
        let asked: Vec<OsString> = asked.collect();
        let variables = self.with_preload(asked.into_iter().next().or_else(|| inherited.clone()));
        let exports = variables.iter().flat_map(|pair| [OsString::from("-x"), assignment(pair)]);
        let parameters = self.parameters.iter().filter(|(name, _)| given.iter().all(|given| given != name));
        let parameters = parameters.flat_map(|(name, value)| ["--mca".into(), name.into(), value.clone()]);
        edits.insert(context.words.start, exports.chain(parameters).collect());
    }

    /// Takes what the user preloads by Hydra's `-genv` out of the command, and returns it; what is preloaded by `-env`,
    /// into one context, goes behind ours.
    fn in_options_of_hydra(&self, contexts: &[Context], edits: &mut Edits) -> Option<OsString> {
        let mut asked = None;
        for option in contexts.iter().flat_map(|context| &context.options) {
            let [name, value] = &option.values[..] else { continue };
            match option.name.as_str() {
                "genv" if name == PRELOAD => {
                    edits.remove(option.words.clone());
                    asked = Some(value.clone());
                }
                "env" if name == PRELOAD => {
                    let (name, value) = self.with_preload(Some(value.clone())).swap_remove(0);
                    edits.replace(option.words.clone(), vec![option.said.clone().into(), name, value]);
                }
                _ => {}
            }
        }
        asked
    }

    /// The same where the contexts of Open MPI's mpirun stand in a file (`--app`), a line each: mpirun then heeds
    /// nothing else. Such a file is written to `place`; none where the command names none.
    ///
    /// # Errors
    /// The file cannot be read, or a value holds a space, which such a file has no quotes for.
    pub fn apply_to_app_file(&self, command: &[OsString], place: &Path) -> Result<Option<Vec<OsString>>, Error> {
        let given = contexts(Launcher::OpenMpi, command);
        let named = given.iter().flat_map(|context| &context.options).find(|option| option.name == "app");
        let Some((option, path)) = named.and_then(|option| Some((option, Path::new(option.values.first()?)))) else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(format!("{}: {error}", path.display())).remedy("name the file with the contexts after --app")
        })?;
        let inherited = std::env::var_os(PRELOAD).filter(|value| !value.is_empty());
        let mut lines = String::new();
        for line in text.lines() {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let is_context = !line.trim_start().starts_with('#') && !words.is_empty();
            let words = if is_context { self.in_line(words, &inherited) } else { words };
            let is_plain = |word: &OsString| !word.as_bytes().iter().any(u8::is_ascii_whitespace);
            let Some(words) =
                words.iter().map(|word| word.to_str().filter(|_| is_plain(word))).collect::<Option<Vec<_>>>()
            else {
                let cause = format!("{}: the ranks cannot be given a path with a space in such a file", path.display());
                return Err(Error::new(cause).remedy("write the profile to a folder with a plain name (-o), or give the contexts to mpirun, with ':' between them"));
            };
            lines += &(words.join(" ") + "\n");
        }
        let file = place.join("contexts");
        std::fs::write(&file, lines).map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
        let mut edits = Edits::default();
        edits.replace(option.words.clone(), vec![option.said.clone().into(), file.into()]);
        Ok(Some(edits.apply(command)))
    }

    /// A context of such a file, with ours before it.
    fn in_line(&self, words: Vec<OsString>, inherited: &Option<OsString>) -> Vec<OsString> {
        let command: Vec<OsString> = std::iter::once("mpirun".into()).chain(words).collect();
        let contexts = contexts(Launcher::OpenMpi, &command);
        let (given, mut edits) = (parameters(&contexts), Edits::default());
        contexts.iter().for_each(|context| self.in_context(context, &given, inherited, &mut edits));
        edits.apply(&command).split_off(1)
    }

    /// Open MPI's parameters where no mpirun takes them. What the user has set stays.
    fn as_variables(&self) -> Vec<(OsString, OsString)> {
        let named = self.parameters.iter().map(|(name, value)| (format!("OMPI_MCA_{name}").into(), value.clone()));
        named.filter(|(name, _): &(OsString, OsString)| std::env::var_os(name).is_none()).collect()
    }
}

/// Words of a command that others take the place of.
#[derive(Default)]
struct Edits(Vec<(Range<usize>, Vec<OsString>)>);

impl Edits {
    fn replace(&mut self, words: Range<usize>, by: Vec<OsString>) {
        self.0.push((words, by));
    }

    fn remove(&mut self, words: Range<usize>) {
        self.replace(words, Vec::new());
    }

    fn insert(&mut self, at: usize, words: Vec<OsString>) {
        self.replace(at..at, words);
    }

    /// The command with them done.
    fn apply(mut self, command: &[OsString]) -> Vec<OsString> {
        // From the end, so that what comes before stays where it is; what is inserted comes before what is removed there.
        self.0.sort_by_key(|(words, _)| (words.start, words.end));
        let mut made = command.to_vec();
        for (words, by) in self.0.into_iter().rev() {
            made.splice(words, by);
        }
        made
    }
}

/// The parameters of Open MPI that are given.
fn parameters(contexts: &[Context]) -> Vec<OsString> {
    let options = contexts.iter().flat_map(|context| &context.options);
    let options = options.filter(|option| ["mca", "gmca", "omca", "gomca"].contains(&option.name.as_str()));
    options.filter_map(|option| option.values.first().cloned()).collect()
}

fn assignment((name, value): &(OsString, OsString)) -> OsString {
    let mut text = name.clone();
    text.push("=");
    text.push(value);
    text
}

/// What Open MPI's `-x` sets LD_PRELOAD to, where it is about that: none within, where it names no value.
fn of_preload(values: &[OsString]) -> Option<Option<OsString>> {
    match values.first()?.as_bytes().strip_prefix(PRELOAD.as_bytes())? {
        [] => Some(None),
        [b'=', value @ ..] => Some(Some(OsString::from_vec(value.to_vec()))),
        _ => None,
    }
}

/// The variable that says what `--export` would: sbatch sets it for a job with --export=NONE.
const EXPORT: &str = "SLURM_EXPORT_ENV";

/// srun passes its own environment on, unless --export, or the variable that it inherits, says what to pass on: the
/// variables' names are added to what that says, of the inherited one as a variable for srun.
fn export(
    words: &mut [OsString],
    contexts: &[Context],
    inherited: Option<String>,
    variables: &[(OsString, OsString)],
) -> Option<(OsString, OsString)> {
    let names: OsString = variables.iter().flat_map(|(name, _)| [OsStr::new(","), name]).collect();
    let is_given = |option: &&Opt| option.name == "export" && !option.values.is_empty();
    // The value is the last of the option's words, or the end of its only one.
    let given = contexts.iter().flat_map(|context| context.options.iter().filter(is_given));
    given.for_each(|option| words[option.words.end - 1].push(&names));
    let all_say = contexts.iter().all(|context| context.options.iter().any(|option| is_given(&option)));
    inherited.filter(|_| !all_say).map(|said| {
        let mut value = OsString::from(said);
        value.push(names);
        (EXPORT.into(), value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn added() -> Additions {
        Additions {
            library: "/l.so".into(),
            variables: vec![("A".into(), "1".into())],
            parameters: vec![("p", "2".into())],
        }
    }

    #[test]
    fn launchers_are_told_by_name_and_by_what_they_say() {
        for (name, expected) in
            [("mpirun", true), ("/opt/bin/mpiexec.hydra", true), ("srun", true), ("lmp", false), ("mpirun-x", false)]
        {
            assert_eq!(is_launcher(&words(name)), expected, "{name}");
        }
        for (said, expected) in [
            ("mpirun (Open MPI) 4.1.4\n", Some(Launcher::OpenMpi)),
            ("prterun (PRRTE) 3.0.8\n", Some(Launcher::OpenMpi)),
            ("HYDRA build details:\n    Version: 4.0.2", Some(Launcher::Hydra)),
            ("slurm-wlm 22.05.8", Some(Launcher::Srun)),
            ("something else", None),
        ] {
            assert_eq!(by_version(said), expected, "{said}");
        }
        let rows =
            [("mpirun (Open MPI) 4.1.4", 4), ("mpirun (Open MPI) 5.0.7\n\nReport bugs to https://www.open-mpi.org", 5)];
        for (said, expected) in
            rows.into_iter().chain([("HYDRA build details:\n  Version:   4.0.2", 4), ("slurm-wlm 22.05.8", 22)])
        {
            assert_eq!(major(said), expected, "{said}");
        }
    }

    #[test]
    fn each_launcher_gets_its_own_syntax_and_keeps_the_rest() {
        let rows = [
            (Launcher::OpenMpi, "mpirun -n 2 ./a -x", "mpirun -x LD_PRELOAD=/l.so -x A=1 --mca p 2 -n 2 ./a -x"),
            (
                Launcher::OpenMpi,
                "mpirun -x LD_PRELOAD=/o.so -n 2 ./a",
                "mpirun -x LD_PRELOAD=/l.so:/o.so -x A=1 --mca p 2 -n 2 ./a",
            ),
            (
                Launcher::OpenMpi,
                "mpirun -n 2 ./a : -x LD_PRELOAD=/o.so -n 1 ./b : ./c",
                "mpirun -x LD_PRELOAD=/l.so -x A=1 --mca p 2 -n 2 ./a \
                 : -x LD_PRELOAD=/l.so:/o.so -x A=1 --mca p 2 -n 1 ./b : -x LD_PRELOAD=/l.so -x A=1 --mca p 2 ./c",
            ),
            (
                Launcher::OpenMpi,
                "mpirun -n 2 ./a : --mca p 1 -n 1 ./b",
                "mpirun -x LD_PRELOAD=/l.so -x A=1 -n 2 ./a : -x LD_PRELOAD=/l.so -x A=1 --mca p 1 -n 1 ./b",
            ),
            (Launcher::Hydra, "mpiexec -n 2 ./a", "mpiexec -genv LD_PRELOAD /l.so -genv A 1 -n 2 ./a"),
            (
                Launcher::Hydra,
                "mpiexec -genv LD_PRELOAD /o.so ./a",
                "mpiexec -genv LD_PRELOAD /l.so:/o.so -genv A 1 ./a",
            ),
            (Launcher::Srun, "srun --export=NONE ./a", "srun --export=NONE,LD_PRELOAD,A,OMPI_MCA_p ./a"),
            (Launcher::Srun, "srun --export ALL,B=3 ./a", "srun --export ALL,B=3,LD_PRELOAD,A,OMPI_MCA_p ./a"),
            (Launcher::Srun, "srun ./a", "srun ./a"),
            // What comes after the program is the program's.
            (
                Launcher::OpenMpi,
                "mpirun -x LD_PRELOAD ./a -x LD_PRELOAD=/o.so --mca p 1 : ./b --app c",
                "mpirun -x LD_PRELOAD=/l.so -x A=1 --mca p 2 ./a -x LD_PRELOAD=/o.so --mca p 1 \
                 : -x LD_PRELOAD=/l.so -x A=1 --mca p 2 ./b --app c",
            ),
            (
                Launcher::Hydra,
                "mpiexec -n 2 ./a -genv LD_PRELOAD /o.so",
                "mpiexec -genv LD_PRELOAD /l.so -genv A 1 -n 2 ./a -genv LD_PRELOAD /o.so",
            ),
            (
                Launcher::Hydra,
                "mpiexec -genv LD_PRELOAD=/o.so ./a : -env LD_PRELOAD /p.so ./b",
                "mpiexec -genv LD_PRELOAD /l.so:/o.so -genv A 1 ./a : -env LD_PRELOAD /l.so:/p.so ./b",
            ),
            (Launcher::Srun, "srun ./a --export out.csv", "srun ./a --export out.csv"),
            (Launcher::Singleton, "./a", "./a"),
        ];
        if std::env::var_os(PRELOAD).is_some() {
            eprintln!("skipped: LD_PRELOAD is set, and would show in what is compared");
            return;
        }
        for (launcher, command, expected) in rows {
            let (made, environment) = added().apply(launcher, &words(command));
            assert_eq!(made, words(expected));
            let names: Vec<_> = environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
            match launcher {
                Launcher::OpenMpi | Launcher::Hydra => assert!(names.is_empty()),
                Launcher::Srun | Launcher::Singleton => assert_eq!(names, ["LD_PRELOAD", "A", "OMPI_MCA_p"]),
            }
        }
    }

    #[test]
    fn contexts_in_a_file_get_ours_in_a_file_of_their_own() {
        if std::env::var_os(PRELOAD).is_some() {
            eprintln!("skipped: LD_PRELOAD is set, and would show in what is compared");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app");
        std::fs::write(&file, "# ranks\n-n 2 ./a\n\n-x B=2  -n 1 ./b x\n").unwrap();
        let command = ["mpirun".into(), "--app".into(), file.clone().into()];
        let made = added().apply_to_app_file(&command, folder.path()).unwrap().unwrap();
        assert_eq!(made[..2], command[..2]);
        let ours = "-x LD_PRELOAD=/l.so -x A=1 --mca p 2";
        let text = std::fs::read_to_string(&made[2]).unwrap();
        assert_eq!(text, format!("# ranks\n{ours} -n 2 ./a\n\n{ours} -x B=2 -n 1 ./b x\n"));
        // The program's own, whether there is such a file or not.
        let own = ["mpirun".into(), "./a".into(), "--app".into(), file.clone().into()];
        for command in [&words("mpirun -n 2 ./a")[..], &words("mpirun ./a --app no-such-file"), &own] {
            assert_eq!(added().apply_to_app_file(command, folder.path()).unwrap(), None);
        }
        std::fs::write(&file, "-n 2 ./a -x LD_PRELOAD=/o.so\n").unwrap();
        let made = added().apply_to_app_file(&command, folder.path()).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&made[2]).unwrap(), format!("{ours} -n 2 ./a -x LD_PRELOAD=/o.so\n"));
        let spaced = Additions { library: "/a b.so".into(), ..added() };
        for (additions, command, cause) in
            [(added(), words("mpirun --app no-such-file"), "no-such-file"), (spaced, command.to_vec(), "with a space")]
        {
            let error = additions.apply_to_app_file(&command, folder.path()).unwrap_err();
            assert!(error.cause.contains(cause) && error.remedy.is_some(), "{error}");
        }
    }

    #[test]
    fn a_job_that_exports_nothing_lets_ours_through() {
        let variables = [("A".into(), "1".into()), ("B".into(), "2".into())];
        for (line, inherited, expected) in [
            ("srun ./a", None, None),
            ("srun ./a", Some("NONE"), Some("NONE,A,B")),
            ("srun --export=ALL ./a", Some("NONE"), None),
            ("srun ./a --export ALL", Some("NONE"), Some("NONE,A,B")),
            ("srun --export=ALL ./a : ./b", Some("NONE"), Some("NONE,A,B")),
        ] {
            let mut words = words(line);
            let contexts = contexts(Launcher::Srun, &words);
            let found = export(&mut words, &contexts, inherited.map(str::to_owned), &variables);
            let value = found.map(|(_, value)| value.into_string().unwrap());
            assert_eq!(value.as_deref(), expected, "{line}, {inherited:?}");
        }
    }

    #[test]
    fn srun_is_told_what_open_mpi_needs() {
        for (launcher, family, line, variable, said) in [
            (Launcher::Srun, Family::OpenMpi, "srun -n 2 ./a", None, true),
            (Launcher::Srun, Family::OpenMpi, "srun --mpi=pmi2 -n 2 ./a", None, true),
            (Launcher::Srun, Family::OpenMpi, "srun --mpi=pmix -n 2 ./a", None, false),
            (Launcher::Srun, Family::OpenMpi, "srun --mpi pmix_v4 -n 2 ./a", None, false),
            (Launcher::Srun, Family::OpenMpi, "srun -n 2 ./a", Some("pmix"), false),
            (Launcher::Srun, Family::OpenMpi, "srun -n 2 ./a --mpi=pmix", None, true),
            (Launcher::Srun, Family::Mpich, "srun --mpi=pmi2 -n 2 ./a", None, false),
            (Launcher::OpenMpi, Family::OpenMpi, "mpirun -n 2 ./a", None, false),
        ] {
            let recognised = Recognised { launcher, family, major: 4 };
            let found = srun_without_pmix(&recognised, &words(line), |_| variable.map(OsString::from));
            assert_eq!(found.is_some(), said, "{line} {variable:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let failure = recognise(&words("no-such-dir/mpirun -n 2 ./a")).unwrap_err();
        assert!(matches!(failure, CommandError::NotFound(_)), "{failure}");
        let failure = recognise(&words("true")).unwrap_err();
        assert!(failure.error().cause.contains("linked with none"), "{failure}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mpirun");
        std::fs::write(&path, "#!/bin/sh\necho another\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let failure = recognise(&[path.into_os_string()]).unwrap_err();
        assert!(failure.error().cause.contains("it says: another"), "{failure}");
    }
}
