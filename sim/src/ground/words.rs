//! Parsing of option values: numbers, or an error that names what was typed.

use std::fmt::Display;
use std::str::FromStr;

/// The longest exploration, a day; it fits every clock.
const MINUTES_MAX: f64 = 24.0 * 60.0;

/// Fails with what was typed if it is not such a number.
pub fn number<T: FromStr>(option: &str, typed: Option<&String>) -> Result<T, String> {
    that(option, typed, "a number", |_| true)
}

/// Fails with what was typed if it is not a number above 0.
pub fn above_zero<T: FromStr + Default + PartialOrd>(option: &str, typed: Option<&String>) -> Result<T, String> {
    that(option, typed, "a number above 0", |number| *number > T::default())
}

/// Parses a number of minutes, which may have decimals.
///
/// # Errors
/// Fails with what was typed if it is not a possible duration.
pub fn minutes(option: &str, typed: Option<&String>) -> Result<f64, String> {
    that(option, typed, format!("a number above 0, of minutes, up to {MINUTES_MAX}"), |&number| number > 0.0 && number <= MINUTES_MAX)
}

fn that<T: FromStr>(option: &str, typed: Option<&String>, wanted: impl Display, fits: impl Fn(&T) -> bool) -> Result<T, String> {
    let Some(word) = typed else { return Err(format!("{option} wants {wanted}")) };
    word.parse().ok().filter(fits).ok_or_else(|| format!("{option} {word}: {wanted} is wanted"))
}

#[cfg(test)]
mod tests {
    use super::{above_zero, minutes, number};

    fn typed(word: &str) -> Option<String> {
        Some(word.to_owned())
    }

    #[test]
    fn what_is_no_number_is_named() {
        assert_eq!(number("--seed", typed("12").as_ref()), Ok(12_u64));
        assert_eq!(number::<u64>("--seed", typed("z").as_ref()), Err("--seed z: a number is wanted".to_owned()));
        assert_eq!(number::<u64>("--only", typed("-1").as_ref()), Err("--only -1: a number is wanted".to_owned()));
        assert_eq!(number::<u64>("--seed", None), Err("--seed wants a number".to_owned()));
        assert_eq!(above_zero::<usize>("--jobs", typed("0").as_ref()), Err("--jobs 0: a number above 0 is wanted".to_owned()));
    }

    #[test]
    fn an_exploration_of_no_time_or_of_all_time_is_refused() {
        assert_eq!(minutes("--minutes", typed("0.5").as_ref()), Ok(0.5));
        for word in ["0", "-1", "NaN", "inf", "1e300", "x"] {
            let message = minutes("--minutes", typed(word).as_ref()).expect_err("no exploration takes that long");
            assert!(message.starts_with(&format!("--minutes {word}: ")), "{message}");
        }
    }
}
