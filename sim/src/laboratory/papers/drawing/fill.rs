//! Fills that can be distinguished without colour: shades of grey, and lines over them.

use plotters::coord::Shift;
use plotters::prelude::*;

/// A picture that is being drawn.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of drawing.
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A place in a picture, in pixels.
pub(super) type Point = (i32, i32);

/// The distance between two lines of a hatch.
const STEP: i32 = 6;

/// The direction of lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    Rows,
    Columns,
    Rising,
    Falling,
}

/// A shade, the lines over it, and their shade.
struct Fill(u8, &'static [Lines], u8);

/// The fills of series, from the first on.
const FILLS: [Fill; 9] = [
    Fill(0xff, &[], 0),
    Fill(0xff, &[Lines::Rows], 0),
    Fill(0xff, &[Lines::Rising, Lines::Falling], 0),
    Fill(0xdd, &[Lines::Rising], 0),
    Fill(0x99, &[Lines::Falling], 0xff),
    Fill(0x22, &[], 0),
    Fill(0xdd, &[Lines::Columns], 0),
    Fill(0xff, &[Lines::Rows, Lines::Columns], 0),
    Fill(0x55, &[Lines::Rows], 0xff),
];

/// The largest number of series that have fills of their own.
pub(super) const FILLS_MAX: usize = FILLS.len();

/// Returns a shade of grey.
pub(super) const fn grey(shade: u8) -> RGBColor {
    RGBColor(shade, shade, shade)
}

impl Lines {
    /// Returns the lines within a rectangle as one path: there and back, along its sides from one to the next.
    fn path(self, (left, top): Point, (right, bottom): Point) -> Vec<Point> {
        let (width, height) = (right - left, bottom - top);
        let line = |at: i32| match self {
            Self::Rows => [(left, top + at), (right, top + at)],
            Self::Columns => [(left + at, top), (left + at, bottom)],
            Self::Rising => [(left + (at - height).max(0), top + at.min(height)), (left + at.min(width), top + (at - width).max(0))],
            Self::Falling => [(right - (at - height).max(0), top + at.min(height)), (right - at.min(width), top + (at - width).max(0))],
        };
        let end = match self {
            Self::Rows => height,
            Self::Columns => width,
            Self::Rising | Self::Falling => width + height,
        };
        let turned = (STEP / 2..end).step_by(usize::try_from(STEP).unwrap_or(1)).enumerate().flat_map(|(number, at)| {
            let [from, to] = line(at);
            if number % 2 == 0 { [from, to] } else { [to, from] }
        });
        turned.collect()
    }
}

/// Draws a rectangle with the fill of a series.
pub(super) fn fill(area: &Area<'_>, series: usize, from: Point, to: Point) -> Drawn {
    let Fill(shade, hatch, line) = &FILLS[series];
    area.draw(&Rectangle::new([from, to], grey(*shade).filled()))?;
    for lines in *hatch {
        area.draw(&PathElement::new(lines.path(from, to), grey(*line)))?;
    }
    area.draw(&Rectangle::new([from, to], BLACK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_fill_stay_in_its_rectangle() {
        for lines in [Lines::Rows, Lines::Columns, Lines::Rising, Lines::Falling] {
            for (width, height) in [(18, 130), (22, 12), (1, 1), (18, 0), (40, 5)] {
                let path = lines.path((10, 20), (10 + width, 20 + height));
                let is_inside = |&(x, y): &Point| (10..=10 + width).contains(&x) && (20..=20 + height).contains(&y);
                assert!(path.iter().all(is_inside), "{width}x{height}: {path:?}");
            }
        }
    }
}
