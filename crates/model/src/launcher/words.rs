//! The command line of a launcher, word by word: which are options, which their values, and where the program of each
//! context begins (mpirun(1) of Open MPI 4.1 and 5.0 and prterun(1), `mpiexec -help` of MPICH's Hydra, srun(1)). What
//! comes after that is the program's own.

use super::Launcher;
use crate::command::find;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options by how many values they take, without their hyphens. What is optional is behind a `=`, and no word of its own.
struct Options {
    none: &'static str,
    one: &'static str,
    two: &'static str,
    spelling: Spelling,
}

/// How names of options are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// As they are.
    Exact,
    /// Whatever the case of their letters is.
    AnyCase,
    /// As by getopt_long(3): long ones may be cut short, and letters may be in one word, with the value of the last.
    Getopt,
}

/// Those of 4 and of 5. What is a flag in one and takes a value in the other (`dvm`, `display-topo`) is left out: see
/// [`contexts`].
const OPEN_MPI: Options = Options {
    none: "allow-run-as-root bind-to-core bind-to-none bind-to-socket bycore bynode byslot bysocket continuous d debug \
           debug-daemons debug-daemons-file debug-devel disable-recovery display-allocation display-comm \
           display-comm-finalize display-devel-allocation display-devel-map display-diffable-map display-map \
           do-not-launch do-not-resolve enable-instant-on-support enable-recovery fwd-environment fwd-mpirun-port \
           get-stack-traces index-argv-by-rank leave-session-attached loadbalance merge-stderr-to-stdout \
           no-aggregate-help nolocal nooversubscribe noprefix novm output-proctable oversubscribe p parsable parseable \
           pernode preload-binary q quiet report-bindings report-child-jobs-separately report-state-on-timeout s \
           set-cwd-to-session-dir show-progress stop-in-app stop-in-init stop-on-exec tag-output timestamp-output tv \
           use-hwthread-cpus use-regexp V v verbose version xml",
    one: "H N am amca app arch bind-to c cartofile cf cpu-list cpu-set cpus-per-proc cpus-per-rank debugger \
          default-hostfile display dvm-uri file forward-signals hnp host hostfile initial-errhandler launch-agent \
          machinefile map-by max-restarts max-vm-size memory-alloc-kinds n np npernode npersocket ompi-server output \
          output-directory output-filename path personality ppr prefix preload-files pset rank-by rankfile report-events \
          report-pid report-uri rf runtime-options slot-list spawn-timeout stdin stream-buffering timeout tmpdir tune wd \
          wdir with-ft x xml-file xterm",
    two: "gmca gomca gpmixmca gprtemca mca omca pmixmca prtemca",
    spelling: Spelling::Exact,
};

const HYDRA: Options = Options {
    none: "debug disable-auto-cleanup disable-hostname-propagation disable-x enable-auto-cleanup \
           enable-hostname-propagation enable-x envall envnone genvall genvnone h help hybrid-hosts info l pmi-port \
           prepend-rank print-all-exitcodes profile rr skip-launch-node v verbose version",
    one: "bind-to binding bootstrap bootstrap-exec ckpoint-interval ckpoint-num ckpoint-prefix ckpointlib configfile demux \
          envlist errfile errfile-pattern f g genvlist gpu-subdevs-per-proc gpus-per-proc host hostfile hostlist hosts \
          iface launcher launcher-exec localhost machine machinefile machinelist machines map-by membind n nameserver np \
          order-nodes outfile outfile-pattern output-from perhost ppn prepend-pattern rankmap rmk topolib usize wdir",
    two: "env genv",
    spelling: Spelling::AnyCase,
};

const SRUN: Options = Options {
    none: "E H I K O Q R V X Z bcast compress contiguous disable-status exact exclusive external h help hold immediate j \
           k kill-on-bad-exit l label multi-prog nice no-allocate no-kill oom-kill-step overcommit overlap oversubscribe \
           preserve-env propagate pty quiet quit-on-interrupt reboot resv-ports s send-libs share spread-job test-only u \
           unbuffered usage use-min-nodes v verbose version whole x11",
    one: "A B C D F G J L M N P S T U W a accel-bind account acctg-freq b bb bbf bcast-exclude begin c chdir \
          cluster-constraint clusters comment constraint container container-id core-spec cores-per-socket cpu-bind \
          cpu-freq cpus-per-gpu cpus-per-task d deadline delay-boot dependency distribution e epilog error exclude export \
          export-file extra extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres \
          gres-flags het-group hint i input job-name jobid launch-cmd launcher-opts licenses m mail-type mail-user \
          mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout n network nodefile nodelist nodes ntasks \
          ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres o open-mode output p \
          pack-group partition power prefer priority profile prolog q qos r relative reservation segment signal \
          slurmd-debug sockets-per-node switches t task-epilog task-prolog tasks-per-node thread-spec threads \
          threads-per-core time time-min tmp tree-width tres-bind tres-per-job tres-per-task uid w wait wckey x",
    two: "",
    spelling: Spelling::Getopt,
};

/// Letters of srun whose value is optional: what stands behind them in their word.
const OPTIONAL: [u8; 3] = *b"IKk";

/// An option with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opt {
    /// Its name, whole and without hyphens.
    pub name: String,
    /// The name with hyphens, as it was given.
    pub said: String,
    /// Its values; of a variable of Hydra's (`env`) name and value, whether in one word or in two.
    pub values: Vec<OsString>,
    /// Where all that stands in the command.
    pub words: Range<usize>,
}

/// What is said of one program, up to the next `:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its words in the command.
    pub words: Range<usize>,
    /// The launcher's options.
    pub options: Vec<Opt>,
    /// The program's words, with its arguments; none where none is named.
    pub program: Range<usize>,
}

/// The contexts of a command. How many values an option has that is not known, nobody can say: where it is followed by
/// what is no program that can be run, that is its value.
pub fn contexts(launcher: Launcher, command: &[OsString]) -> Vec<Context> {
    let options = match launcher {
        Launcher::OpenMpi => &OPEN_MPI,
        Launcher::Hydra => &HYDRA,
        Launcher::Srun => &SRUN,
        Launcher::Singleton => {
            let words = 0..command.len();
            return vec![Context { words: words.clone(), options: Vec::new(), program: words }];
        }
    };
    let mut contexts = Vec::new();
    let mut from = 1.min(command.len());
    loop {
        let end = command[from..].iter().position(|word| word == ":").map_or(command.len(), |length| from + length);
        contexts.push(options.context(command, from..end));
        if end == command.len() {
            return contexts;
        }
        from = end + 1;
    }
}

/// How many values a launcher's option takes; none where it is not known.
pub fn values_of(launcher: Launcher, name: &str) -> Option<usize> {
    match launcher {
        Launcher::OpenMpi => OPEN_MPI.values(name),
        Launcher::Hydra => HYDRA.values(name),
        Launcher::Srun => SRUN.values(name),
        Launcher::Singleton => None,
    }
}

impl Options {
    fn context(&self, command: &[OsString], words: Range<usize>) -> Context {
        let mut options = Vec::new();
        let mut at = words.start;
        while at < words.end && is_option(&command[at]) {
            if command[at] == "--" {
                at += 1;
                break;
            }
            let option = self.option(&command[..words.end], at);
            at = option.words.end;
            let is_known = self.values(&option.name).is_some() || !option.values.is_empty();
            options.push(option);
            if !is_known && at < words.end && !is_option(&command[at]) && find(&command[at..=at]).is_err() {
                at += 1;
            }
        }
        Context { program: at..words.end, words, options }
    }

    fn values(&self, name: &str) -> Option<usize> {
        let table = [self.none, self.one, self.two];
        table.iter().position(|names| names.split_whitespace().any(|known| known == name))
    }

    /// The option at a word.
    fn option(&self, command: &[OsString], at: usize) -> Opt {
        let word = command[at].as_bytes();
        let hyphens = word.iter().take_while(|&&byte| byte == b'-').count();
        let text = &word[hyphens..];
        let (name, attached) = match self.spelling {
            Spelling::Getopt if hyphens == 1 => self.letters(text),
            _ => match text.iter().position(|&byte| byte == b'=') {
                Some(equals) => (&text[..equals], Some(&text[equals + 1..])),
                None => (text, None),
            },
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let said = format!("{}{name}", &"--"[..hyphens.min(2)]);
        let name = self.whole(name);
        let mut values: Vec<OsString> = attached.map(|value| OsString::from_vec(value.to_vec())).into_iter().collect();
        let wanted = self.values(&name).unwrap_or(0);
        let mut end = at + 1;
        while values.len() < wanted && end < command.len() {
            values.push(command[end].clone());
            end += 1;
            // Hydra takes a variable as NAME VALUE and as NAME=VALUE.
            if wanted == 2 && self.spelling == Spelling::AnyCase && values.len() == 1 {
                let pair = values[0].as_bytes();
                if let Some(equals) = pair.iter().position(|&byte| byte == b'=') {
                    values = [&pair[..equals], &pair[equals + 1..]].map(|part| OsStr::from_bytes(part).into()).into();
                }
            }
        }
        Opt { name, said, values, words: at..end }
    }

    /// The last option of several letters in a word, and its value where that is in the word.
    fn letters<'a>(&self, text: &'a [u8]) -> (&'a [u8], Option<&'a [u8]>) {
        let takes = |letter: u8| {
            OPTIONAL.contains(&letter) || self.values((letter as char).encode_utf8(&mut [0; 4])) == Some(1)
        };
        let last = text.iter().position(|&letter| takes(letter)).unwrap_or(text.len().saturating_sub(1));
        let (name, value) = (&text[last.min(text.len())..(last + 1).min(text.len())], text.get(last + 1..));
        (name, value.filter(|value| !value.is_empty()))
    }

    /// The name that is meant.
    fn whole(&self, name: String) -> String {
        match self.spelling {
            Spelling::Exact => name,
            Spelling::AnyCase => name.to_lowercase(),
            Spelling::Getopt => {
                let name = if name.len() > 1 { name.replace('_', "-") } else { name };
                if name.len() < 2 || self.values(&name).is_some() {
                    return name;
                }
                let names = [self.none, self.one, self.two].into_iter().flat_map(str::split_whitespace);
                let mut meant = names.filter(|known| known.starts_with(&name));
                match (meant.next(), meant.next()) {
                    (Some(one), None) => one.to_owned(),
                    _ => name,
                }
            }
        }
    }
}

fn is_option(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// `name=value,value` for each option, and the program's words, a line a context.
    fn parted(launcher: Launcher, line: &str) -> Vec<String> {
        let command = words(line);
        let joined = |words: &[OsString], by: &str| words.join(OsStr::new(by)).into_string().unwrap();
        let said = |context: &Context| {
            let option = |option: &Opt| match option.values[..] {
                [] => option.name.clone(),
                _ => format!("{}={}", option.name, joined(&option.values, ",")),
            };
            let options: Vec<String> = context.options.iter().map(option).collect();
            format!("{} | {}", options.join(" "), joined(&command[context.program.clone()], " "))
        };
        contexts(launcher, &command).iter().map(said).collect()
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let (open_mpi, hydra, srun) = (Launcher::OpenMpi, Launcher::Hydra, Launcher::Srun);
        for (launcher, line, expected) in [
            (open_mpi, "mpirun -n 2 ./a --app x -x LD_PRELOAD=/x.so", "n=2 | ./a --app x -x LD_PRELOAD=/x.so"),
            (open_mpi, "mpirun --mca true test -x true true -n 9", "mca=true,test x=true | true -n 9"),
            (
                open_mpi,
                "mpirun --output-filename test --oversubscribe true",
                "output-filename=test oversubscribe | true",
            ),
            (open_mpi, "mpirun --map-by=core --display map ./a", "map-by=core display=map | ./a"),
            (open_mpi, "mpirun -n 2 -- -odd --np 3", "n=2 | -odd --np 3"),
            // A program that is not there is one all the same.
            (
                open_mpi,
                "mpirun --wdir no-such-dir no-such-program --bind-to core",
                "wdir=no-such-dir | no-such-program --bind-to core",
            ),
            // An option of which nobody knows: its value is what cannot be run.
            (open_mpi, "mpirun --unknown no-such-program -n 2 true", "unknown n=2 | true"),
            (open_mpi, "mpirun --unknown true -n 2", "unknown | true -n 2"),
            (open_mpi, "mpirun --unknown=1 no-such-program -n 2", "unknown=1 | no-such-program -n 2"),
            (hydra, "mpiexec -genv X true -n 2 ./a", "genv=X,true n=2 | ./a"),
            (hydra, "mpiexec -genv X=a=b -Bind-To core ./a", "genv=X,a=b bind-to=core | ./a"),
            (
                hydra,
                "mpiexec -env true test -wdir true -np=2 ./a -genv B 1",
                "env=true,test wdir=true np=2 | ./a -genv B 1",
            ),
            (srun, "srun -A test -n 4 ./a", "A=test n=4 | ./a"),
            (srun, "srun -n4 -lN2 -Itest ./a -n 3", "n=4 N=2 I=test | ./a -n 3"),
            (srun, "srun --exclusive ./a --export out.csv", "exclusive | ./a --export out.csv"),
            (
                srun,
                "srun --dist cyclic --cpu_bind=none --ntasks 2 ./a",
                "distribution=cyclic cpu-bind=none ntasks=2 | ./a",
            ),
            (srun, "srun -l", "l | "),
            (srun, "srun -", " | "),
            (open_mpi, "mpirun", " | "),
            (open_mpi, "mpirun --mca a", "mca=a | "),
            (Launcher::Singleton, "./a -n 2", " | ./a -n 2"),
        ] {
            assert_eq!(parted(launcher, line), [expected], "{line}");
        }
        assert_eq!(contexts(open_mpi, &[]).len(), 1);
    }

    #[test]
    fn each_context_has_its_own_program() {
        let line = "mpirun -n 1 ./a -x : -x A=1 ./b : ./c";
        assert_eq!(parted(Launcher::OpenMpi, line), ["n=1 | ./a -x", "x=A=1 | ./b", " | ./c"]);
        let found = contexts(Launcher::OpenMpi, &words(line));
        let places: Vec<_> = found.iter().map(|context| (context.words.clone(), context.program.clone())).collect();
        assert_eq!(places, [(1..5, 3..5), (6..9, 8..9), (10..11, 10..11)]);
        assert_eq!(found[1].options[0].words, 6..8);
    }

    #[test]
    fn no_option_is_named_twice() {
        for options in [OPEN_MPI, HYDRA, SRUN] {
            let mut names: Vec<&str> =
                [options.none, options.one, options.two].into_iter().flat_map(str::split_whitespace).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None);
        }
    }
}
