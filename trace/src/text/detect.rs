//! Detection of a text's form, and readers and writers by the form's name.

use super::blkparse::{Action, BlkparseForm, BlkparseLines};
use super::csv::{CsvForm, CsvLines};
use super::fiu::{FiuForm, FiuLines};
use super::mobile::{MobileForm, MobileLines};
use super::recorded::{RecordedForm, RecordedLines};
use super::{Form, Render};
use crate::header::{Header, Unit};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

/// The number of lines from which the form is detected.
const LINES: usize = 200;

/// The names of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormName {
    Recorded,
    Fiu,
    FiuHomes,
    Mobile,
    Blkparse,
    Csv,
}

impl FormName {
    /// Lists all forms, in the order in which they are tried.
    pub const ALL: [Self; 6] = [Self::Recorded, Self::Fiu, Self::FiuHomes, Self::Mobile, Self::Blkparse, Self::Csv];

    /// Returns the name as users type it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Fiu => "fiu",
            Self::FiuHomes => "fiu-homes",
            Self::Mobile => "mobile",
            Self::Blkparse => "blkparse",
            Self::Csv => "csv",
        }
    }

    /// Returns a reader of the form.
    #[must_use]
    pub fn form(self, action: Action) -> Box<dyn Form> {
        match self {
            Self::Recorded => Box::new(RecordedForm::default()),
            Self::Fiu => Box::new(FiuForm::new(Unit::Block)),
            Self::FiuHomes => Box::new(FiuForm::new(Unit::Sector)),
            Self::Mobile => Box::new(MobileForm::default()),
            Self::Blkparse => Box::new(BlkparseForm::new(action)),
            Self::Csv => Box::new(CsvForm::default()),
        }
    }

    /// Returns a writer of the form.
    ///
    /// # Errors
    /// Returns the reason if no trace with this header could be written without a change of its meaning.
    pub fn lines(self, header: &Header) -> Result<Box<dyn Render>, String> {
        let wants = |unit: Unit, width: usize| {
            if header.algorithm.is_some_and(|algorithm| algorithm.name() != "md5") || header.key_id.is_some() {
                Err(format!("{self} needs MD5s without a key, but the trace has other fingerprints"))
            } else if header.unit != unit {
                Err(format!(
                    "{self} has a fingerprint for each {} bytes, but the trace has one for each {}",
                    unit.bytes(),
                    header.unit.bytes()
                ))
            } else if header.width < width {
                Err(format!("{self} has fingerprints of {width} bytes, but the trace keeps {}", header.width))
            } else {
                Ok(())
            }
        };
        Ok(match self {
            Self::Recorded => {
                wants(Unit::Block, super::recorded::WIDTH)?;
                Box::new(RecordedLines)
            }
            Self::Fiu => {
                wants(Unit::Block, super::names::MD5_BYTES)?;
                Box::new(FiuLines::new(header))
            }
            Self::FiuHomes => {
                wants(Unit::Sector, super::names::MD5_BYTES)?;
                Box::new(FiuLines::new(header))
            }
            Self::Mobile => {
                wants(Unit::Block, super::names::MD5_BYTES)?;
                Box::new(MobileLines::new(header))
            }
            Self::Blkparse => Box::new(BlkparseLines::new(header)),
            Self::Csv => Box::new(CsvLines::new(header.clone())),
        })
    }

    /// Returns the form that reads most of the first lines as records, if any does.
    #[must_use]
    pub fn of(first: &[u8], action: Action) -> Option<Self> {
        let text = String::from_utf8_lossy(first);
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or(&*text, |end| &text[..end]);
        let counted = Self::ALL.into_iter().filter_map(|name| {
            let (mut form, mut records, mut malformed) = (name.form(action), VecDeque::new(), 0_i64);
            for line in whole.lines().take(LINES) {
                malformed += i64::from(form.parse(line, &mut records).is_err());
            }
            let records = i64::try_from(records.len()).unwrap_or(i64::MAX);
            (records > 0).then_some((records - malformed, name))
        });
        // Among equally good forms the first is chosen: `max_by_key` alone would return the last.
        counted.rev().max_by_key(|(score, _)| *score).map(|(_, name)| name)
    }
}

impl fmt::Display for FormName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FormName {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|form| form.name() == typed)
            .ok_or_else(|| format!("'{typed}' is not a known form; give {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_known_by_its_lines() {
        let md5 = "620f0b67a91f7f74151bc5be745b7110";
        let samples = [
            (FormName::Recorded, "#x\n1\tR\t0\t1\t-\tR\tx/1\t\n".to_owned()),
            (FormName::Fiu, format!("1 2 x 8 8 W 8 0 {md5}\n")),
            (FormName::FiuHomes, format!("1 2 x 8 8 W 8 0 {}\n", md5.repeat(8))),
            (FormName::Mobile, format!("1.0 W 8 8 2 x {md5}\n")),
            (FormName::Blkparse, "  8,0    3        2     0.000000500   697  Q   W 223490 + 8 [x]\n".to_owned()),
            (FormName::Csv, "time_ns,op,offset,length\n1,read,0,512\n".to_owned()),
        ];
        for (form, sample) in samples {
            assert_eq!(FormName::of(sample.as_bytes(), Action::Queued), Some(form), "{sample}");
            assert_eq!(form.name().parse(), Ok(form));
        }
        assert_eq!(FormName::of(b"Dear Sir or Madam,\n", Action::Queued), None);
    }
}
