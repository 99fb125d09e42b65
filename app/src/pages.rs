//! The file of a page that a command writes in the end.
//!
//! It is begun, under another name, before the work: a day would be lost if the page could not be written then. A file that is there stays
//! until the page is whole.

use crate::exit::{Exit, Failed, Outcome};
use crate::files::of_io;
use crate::output::charts::DrawError;
use onefold_trace::error::TraceError;
use onefold_trace::partial_output::PartialOutput;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The option for a page.
#[derive(Debug, clap::Args)]
pub struct PageOption {
    /// File to write a page with tables and pictures to.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace a file that is there.
    #[arg(long, requires = "html")]
    force: bool,
}

/// The file of a page.
pub struct PageFile {
    path: PathBuf,
    file: File,
    place: PartialOutput,
}

impl PageOption {
    /// Begins the file of the page, if one is wanted.
    ///
    /// # Errors
    /// When there is a file that is not to be replaced, or none can be made.
    pub fn begin(&self) -> Outcome<Option<PageFile>> {
        self.html.as_deref().map(|path| PageFile::begin(path, self.force)).transpose()
    }
}

impl PageFile {
    fn begin(path: &Path, force: bool) -> Outcome<Self> {
        let place = PartialOutput::new(path, force).map_err(|error| refused(&error))?;
        let file = File::create(&place.partial).map_err(TraceError::io(path)).map_err(|error| refused(&error))?;
        Ok(Self { path: path.to_owned(), file, place })
    }

    /// Writes the page, and gives the file its name.
    ///
    /// # Errors
    /// When the pictures could not be drawn, or the page cannot be written.
    pub fn end(mut self, page: Result<String, DrawError>) -> Outcome {
        let page = page.map_err(|error| Failed::new(Exit::System, format!("{}: {error}", self.path.display())))?;
        let written = self.file.write_all(page.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(TraceError::io(&self.path)).and_then(|()| self.place.keep()).map_err(|error| refused(&error))
    }
}

fn refused(error: &TraceError) -> Failed {
    match error {
        TraceError::Io { source, .. } => Failed::new(of_io(source), error.to_string()),
        _ => Failed::new(Exit::Refused, error.to_string()).next("Give another name, or `--force` to replace the file."),
    }
}
