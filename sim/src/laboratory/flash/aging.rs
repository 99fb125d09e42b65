//! A flash in its steady state: full, and overwritten at random places, as one that has been in use for long.

use super::drive::Flash;
use super::shape::Shape;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// The past of a flash.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// The share of the logical pages that hold something; which ones is drawn.
    pub full: f64,
    /// The random overwrites of them, for each logical page.
    pub overwrites: f64,
    pub seed: u64,
}

impl Default for Past {
    /// Returns a flash that is full, and was overwritten three times: more overwrites no longer change its amplification (`aging.rs` tests
    /// it).
    fn default() -> Self {
        Self { full: 1.0, overwrites: 3.0, seed: 1 }
    }
}

/// Makes a flash with a past. Its counts, its wear and its time begin after that.
///
/// # Errors
/// Fails if there can be no flash of this shape, or the numbers of its past cannot be.
pub fn aged(shape: Shape, past: &Past) -> Result<Flash, String> {
    let can_be = (0.0..=1.0).contains(&past.full) && past.overwrites.is_finite() && past.overwrites >= 0.0;
    if !can_be {
        return Err(format!("a flash that is full to {} and overwritten {} times cannot be", past.full, past.overwrites));
    }
    let mut random = Rng::with_seed(past.seed);
    let pages: Vec<u64> = (0..shape.pages()).filter(|_| past.full >= 1.0 || random.f64() < past.full).collect();
    aged_holding(shape, &pages, past)
}

/// Makes a flash with a past that holds these pages, whatever share the past says, and was overwritten in them alone.
///
/// # Errors
/// Fails if there can be no flash of this shape, or it has no such pages.
pub fn aged_holding(shape: Shape, pages: &[u64], past: &Past) -> Result<Flash, String> {
    let mut flash = Flash::new(shape)?;
    let mut random = Rng::with_seed(past.seed);
    let write = |flash: &mut Flash, page: u64| flash.write(0, page * shape.page_bytes, shape.page_bytes).map(drop);
    pages.iter().try_for_each(|&page| write(&mut flash, page))?;
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^52, and positive
    let overwrites = if pages.is_empty() { 0 } else { (past.overwrites * shape.pages() as f64) as u64 };
    for _ in 0..overwrites {
        write(&mut flash, pages[random.usize(0..pages.len())])?;
    }
    flash.forget_the_past();
    Ok(flash)
}

/// Overwrites random pages of a flash, and returns its write amplification meanwhile.
///
/// # Errors
/// Never fails: all pages are within it.
pub fn amplification_of_random_overwrites(flash: &mut Flash, writes: u64, seed: u64) -> Result<f64, String> {
    let mut random = Rng::with_seed(seed);
    let (pages, page_bytes, before) = (flash.shape().bytes / flash.shape().page_bytes, flash.shape().page_bytes, flash.counts());
    for _ in 0..writes {
        flash.write(0, random.u64(0..pages) * page_bytes, page_bytes)?;
    }
    Ok(flash.counts().since(&before).amplification())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 1 << 16;

    fn shape() -> Shape {
        Shape::new(PAGES * 4096)
    }

    #[test]
    fn after_the_default_past_more_overwrites_change_nothing() {
        let amplification = |overwrites| {
            let mut flash = aged(shape(), &Past { overwrites, ..Past::default() }).expect("it can be");
            amplification_of_random_overwrites(&mut flash, PAGES, 9).expect("all is within")
        };
        let (little, default, much) = (amplification(0.0), amplification(Past::default().overwrites), amplification(10.0));
        assert!((default / much - 1.0).abs() < 0.01, "{default} and {much}");
        assert!(little < 0.95 * much, "{little} and {much}: a past is needed");
    }

    #[test]
    fn a_flash_can_hold_given_pages_alone() {
        let pages: Vec<u64> = (100..PAGES / 2).collect();
        let mut flash = aged_holding(shape(), &pages, &Past::default()).expect("it can be");
        assert_eq!(flash.held_pages(), pages);
        let before = flash.counts();
        pages.iter().for_each(|page| drop(flash.write(0, page * 4096, 4096)));
        let cleaned = flash.counts().since(&before);
        assert!(cleaned.collections > 400 && cleaned.amplification() < 1.5, "half of it is spare: {cleaned:?}");
        assert!(aged_holding(shape(), &[PAGES], &Past::default()).unwrap_err().contains("beyond the end"));
    }

    #[test]
    fn a_flash_that_is_not_full_cleans_less() {
        let mut half = aged(shape(), &Past { full: 0.5, ..Past::default() }).expect("it can be");
        half.trim(0, 0, PAGES * 4096).expect("all is within");
        let held = half.counts().trimmed_pages;
        assert!((PAGES * 48 / 100..PAGES * 52 / 100).contains(&held), "{held}");
        let flash = aged(shape(), &Past::default()).expect("it can be");
        assert_eq!((flash.counts().host_pages, flash.wear().erases, flash.flush(0)), (0, 0, 0));
        assert!(aged(shape(), &Past { full: 1.5, ..Past::default() }).unwrap_err().contains("1.5"));
        assert!(aged(shape(), &Past { overwrites: -1.0, ..Past::default() }).unwrap_err().contains("-1"));
    }
}
