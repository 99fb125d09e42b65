//! Sizes as people type and read them, in powers of 1024.

use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u64); 6] = [("E", 1 << 60), ("P", 1 << 50), ("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

/// A number of bytes: `4096`, `64K`, `16MiB`, `1.5G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Size(pub u64);

impl Size {
    /// Reads a size that is at least `least` bytes.
    ///
    /// # Errors
    /// When it is no size, or too little.
    pub fn at_least(typed: &str, least: u64) -> Result<Self, String> {
        let size: Self = typed.parse()?;
        if size.0 < least { Err(format!("'{typed}' is too little: give at least {}", Self(least))) } else { Ok(size) }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let wrong = || format!("'{typed}' is no size: give bytes or, say, 64K, 16M, 1.5G");
        let upper = typed.trim().to_ascii_uppercase();
        let body = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
        let (number, unit) =
            UNITS.iter().find_map(|(name, unit)| body.strip_suffix(name).map(|number| (number, *unit))).unwrap_or((body, 1));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty()
            || !all_digits(whole)
            || !all_digits(fraction)
            || fraction.len() > 9
            || (number.contains('.') && fraction.is_empty())
        {
            return Err(wrong());
        }
        let bytes = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit)).ok_or_else(wrong)?;
        let scale = 10u128.pow(u32::try_from(fraction.len()).expect("at most nine digits"));
        let part = fraction.parse::<u128>().unwrap_or(0) * u128::from(unit) / scale;
        u64::try_from(part).ok().and_then(|part| bytes.checked_add(part)).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, unit)| self.0 >= *unit) {
            None => write!(f, "{} B", self.0),
            Some((name, unit)) if self.0 % unit == 0 => write!(f, "{} {name}iB", self.0 / unit),
            Some((name, unit)) => {
                #[allow(clippy::cast_precision_loss)] // two digits are shown
                let value = self.0 as f64 / *unit as f64;
                write!(f, "{value:.2} {name}iB")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_understood() {
        let cases = [("4096", 4096), ("64k", 65536), ("16MiB", 16 << 20), ("1.5G", 3 << 29), ("2T", 2 << 40), ("10B", 10), ("0", 0)];
        for (typed, bytes) in cases {
            assert_eq!(typed.parse(), Ok(Size(bytes)), "{typed}");
        }
        for typed in ["", "G", "-1", "1.G", "1..5G", "12Q", "1e9", "99999999999T", "0x10", "16EiB"] {
            assert!(typed.parse::<Size>().is_err(), "{typed}");
        }
    }

    #[test]
    fn what_people_read_is_short() {
        assert_eq!([0, 1023, 1024, 1536, 5 << 30].map(|n| Size(n).to_string()), ["0 B", "1023 B", "1 KiB", "1.50 KiB", "5 GiB"]);
    }
}
