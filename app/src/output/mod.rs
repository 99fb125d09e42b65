//! The output of commands: one struct for each report, rendered as a table for people or as JSON for programs.

pub mod charts;
pub mod html;
pub mod percent;
pub mod size;
pub mod table;

use crate::exit::{Exit, Failed, Outcome};
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use table::Table;

/// The version of all JSON reports. Fields may be added under one version; none changes its meaning.
pub const JSON_VERSION: u32 = 1;

/// A report of a command.
pub trait Report: Serialize {
    /// The name of the report in JSON.
    const NAME: &'static str;

    /// Returns the report as a table.
    fn table(&self) -> Table;

    /// Returns the reason why it holds less than was asked for: the command that prints it ends with that.
    fn failure(self) -> Option<Failed>
    where
        Self: Sized,
    {
        None
    }
}

/// The style of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Table,
    Json,
}

impl Style {
    /// Returns JSON where the user asked for it.
    #[must_use]
    pub const fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Table }
    }
}

#[derive(Serialize)]
struct Versioned<'a, R> {
    version: u32,
    report: &'static str,
    #[serde(flatten)]
    content: &'a R,
}

/// Renders the report as text.
///
/// # Panics
/// When the report holds a value that JSON does not have, which is a bug.
#[must_use]
pub fn render<R: Report>(report: &R, style: Style) -> String {
    match style {
        Style::Table => report.table().to_string(),
        Style::Json => {
            let versioned = Versioned { version: JSON_VERSION, report: R::NAME, content: report };
            serde_json::to_string_pretty(&versioned).expect("a report is plain data") + "\n"
        }
    }
}

/// Prints a report. A reader that went away is no error.
pub fn print<R: Report>(report: &R, style: Style) {
    let _ = say(&render(report, style));
}

/// Prints; returns whether anybody reads on.
pub fn say(text: &str) -> bool {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// The option by which a report is printed repeatedly.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Watch {
    /// Print again every N seconds, until it is interrupted or nobody reads on.
    #[arg(long = "watch", value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2")]
    seconds: Option<u64>,
}

impl Watch {
    /// Prints the report of `make`: once, or again and again.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn report<R: Report>(self, style: Style, mut make: impl FnMut() -> Outcome<R>) -> Outcome {
        loop {
            let report = make()?;
            let text = render(&report, style);
            let Some(seconds) = self.seconds else {
                say(&text);
                return report.failure().map_or(Ok(()), Err);
            };
            if !say(&format!("{text}\n")) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(seconds.max(1)));
        }
    }
}

/// Prints a message to standard error, if anybody reads it.
pub fn complain(what: impl std::fmt::Display) {
    let _: io::Result<()> = writeln!(io::stderr(), "{what}");
}

/// Ends a program: prints under its name why it failed.
#[must_use]
pub fn end(program: &str, result: Outcome<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|failed| {
        complain(format_args!("{program}: {failed}"));
        failed.exit
    });
    exit.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Weather {
        degrees: i32,
    }

    impl Report for Weather {
        const NAME: &'static str = "weather";
        fn table(&self) -> Table {
            Table::new().row("degrees", self.degrees)
        }
    }

    #[test]
    fn one_struct_has_two_renderings() {
        let weather = Weather { degrees: 12 };
        assert_eq!(render(&weather, Style::Table), "degrees  12\n");
        let json: serde_json::Value = serde_json::from_str(&render(&weather, Style::Json)).unwrap();
        assert_eq!(json, serde_json::json!({"version": JSON_VERSION, "report": "weather", "degrees": 12}));
    }
}
