//! `--export FORMAT=FILE`: a mapping as the files of other programs.

use crate::json::write_text;
use crate::output;
use cohabit_apply::{EXPORTERS, Exporter, Placement, exporter};
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Result};
use std::path::{Path, PathBuf};

/// `--export`.
#[derive(clap::Args)]
pub struct ExportArgs {
    /// Write the placement to FILE for another program; `-` is standard output, instead of the text; may be repeated.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = export, help = help())]
    export: Vec<Export>,
}

#[derive(Clone)]
struct Export {
    exporter: &'static dyn Exporter,
    file: PathBuf,
}

impl ExportArgs {
    /// Whether a file goes to standard output, and so the text for people does not.
    ///
    /// # Errors
    /// Where two would go there; `taken` says that one already does.
    pub fn takes_stdout(&self, taken: bool) -> Result<bool> {
        let count = self.export.iter().filter(|export| export.to_stdout()).count();
        if count + usize::from(taken) > 1 {
            let cause = "several results for standard output";
            return Err(Error::new(cause).remedy("name a file for all but one of them"));
        }
        Ok(count > 0)
    }

    /// Makes sure that every file can be written before there is anything to write.
    ///
    /// # Errors
    /// Where one could not.
    pub fn check(&self) -> Result<()> {
        self.export.iter().filter(|export| !export.to_stdout()).try_for_each(|export| check_writable(&export.file))
    }

    /// Writes every file, each whole or not at all, and none where one of them cannot be made.
    ///
    /// # Errors
    /// Where a format cannot say what the mapping says, or a file cannot be written.
    pub fn write(&self, placement: &Placement) -> Result<()> {
        let made = |export: &Export| {
            let content = export.exporter.export(placement);
            content.map_err(|error| error.at(format_args!("--export {}", export.exporter.name())))
        };
        let contents = self.export.iter().map(made).collect::<Result<Vec<_>>>()?;
        for (export, content) in self.export.iter().zip(contents) {
            if export.to_stdout() {
                output::print(&content)?;
            } else {
                write_text(&export.file, &content)?;
            }
        }
        Ok(())
    }
}

impl Export {
    fn to_stdout(&self) -> bool {
        self.file == Path::new("-")
    }
}

fn help() -> String {
    let names: Vec<_> = EXPORTERS.iter().map(|exporter| exporter.name()).collect();
    format!(
        "Write the placement to FILE for another program (`-`: standard output, instead of the text); may be repeated. \
         `cohabit exporters` says more of each FORMAT: {}",
        names.join(", ")
    )
}

fn export(text: &str) -> Result<Export, String> {
    let Some((name, file)) = text.split_once('=').filter(|(_, file)| !file.is_empty()) else {
        return Err("write a format and a file, as in open-mpi-4=rankfile".to_owned());
    };
    let exporter = exporter(name)
        .map_err(|error| [Some(error.cause), error.remedy].into_iter().flatten().collect::<Vec<_>>().join("; "))?;
    Ok(Export { exporter, file: PathBuf::from(file) })
}
