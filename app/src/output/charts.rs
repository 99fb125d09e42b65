//! Pictures of pages, as SVG: bars below each other, and a map of shares. Shades of grey, so that they can be printed.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The reason why a picture could not be drawn.
pub type DrawError = Box<dyn std::error::Error>;

const FONT: (&str, i32) = ("sans-serif", 13);
/// The width and height of a bar's line, and of a cell of the map.
const BAR_WIDTH: i32 = 420;
const BAR_HEIGHT: i32 = 20;
const CELL: i32 = 44;
const GAP: i32 = 6;
/// The pixels of a character, at most: the width of a text is not known here.
const CHARACTER: i32 = 8;

fn width_of<'a>(names: impl IntoIterator<Item = &'a str>) -> i32 {
    let characters = names.into_iter().map(|name| name.chars().count()).max().unwrap_or(0);
    i32::try_from(characters).unwrap_or(0).min(40) * CHARACTER + GAP
}

fn count(items: usize) -> i32 {
    i32::try_from(items).unwrap_or(i32::MAX / BAR_WIDTH)
}

/// Draws a picture of this many pixels.
fn drawn(size: (i32, i32), draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), DrawError>) -> Result<String, DrawError> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (size.0.unsigned_abs(), size.1.unsigned_abs())).into_drawing_area();
    draw(&area)?;
    area.present()?;
    drop(area);
    Ok(svg)
}

fn text(words: impl Into<String>, at: (i32, i32), horizontal: HPos, color: &'static RGBColor) -> Text<'static, (i32, i32), String> {
    let style = TextStyle::from(FONT.into_font()).color(color).pos(Pos::new(horizontal, VPos::Center));
    Text::new(words.into(), at, style)
}

/// A bar: its name, its length, and the text behind it. A bar without a length is only its text.
pub struct Bar<'a> {
    pub name: &'a str,
    pub value: Option<f64>,
    pub shown: String,
}

/// Draws bars below each other.
///
/// # Errors
/// Fails if the picture cannot be drawn.
#[allow(clippy::cast_possible_truncation)] // pixels
pub fn bars(bars: &[Bar<'_>]) -> Result<String, DrawError> {
    let left = width_of(bars.iter().map(|bar| bar.name));
    let longest = bars.iter().filter_map(|bar| bar.value).fold(0.0, f64::max);
    let right = GAP + width_of(bars.iter().map(|bar| bar.shown.as_str()));
    drawn((left + BAR_WIDTH + right, count(bars.len()) * BAR_HEIGHT + GAP), |area| {
        for (number, bar) in bars.iter().enumerate() {
            let top = count(number) * BAR_HEIGHT + GAP / 2;
            let length = bar.value.filter(|_| longest > 0.0).map_or(0, |value| (value / longest * f64::from(BAR_WIDTH)).round() as i32);
            let middle = top + BAR_HEIGHT / 2;
            area.draw(&text(bar.name, (left - GAP, middle), HPos::Right, &BLACK))?;
            area.draw(&Rectangle::new([(left, top + 2), (left + length, top + BAR_HEIGHT - 2)], RGBColor(90, 90, 90).filled()))?;
            area.draw(&text(bar.shown.as_str(), (left + length + GAP, middle), HPos::Left, &BLACK))?;
        }
        Ok(())
    })
}

/// Draws a map of shares: the darker a cell, the larger. Columns are numbered like the rows.
///
/// # Errors
/// Fails if the picture cannot be drawn.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shades of grey
pub fn map(names: &[String], cells: &[Vec<Option<f64>>]) -> Result<String, DrawError> {
    let left = width_of(names.iter().map(String::as_str));
    let side = count(names.len()) * CELL;
    drawn((left + side + GAP, side + BAR_HEIGHT + GAP), |area| {
        for (row, name) in names.iter().enumerate() {
            let at = count(row) * CELL + CELL / 2;
            area.draw(&text(name.as_str(), (left - GAP, BAR_HEIGHT + at), HPos::Right, &BLACK))?;
            area.draw(&text((row + 1).to_string(), (left + at, BAR_HEIGHT / 2), HPos::Center, &BLACK))?;
            for (column, cell) in cells[row].iter().enumerate() {
                let Some(share) = cell else { continue };
                let (x, y) = (left + count(column) * CELL, BAR_HEIGHT + count(row) * CELL);
                // The square root shows differences between small shares.
                let shade = (255.0 - 215.0 * share.clamp(0.0, 1.0).sqrt()) as u8;
                area.draw(&Rectangle::new([(x, y), (x + CELL - 1, y + CELL - 1)], RGBColor(shade, shade, shade).filled()))?;
                let color = if shade < 120 { &WHITE } else { &BLACK };
                area.draw(&text(format!("{:.1}", share * 100.0), (x + CELL / 2, y + CELL / 2), HPos::Center, color))?;
            }
        }
        Ok(())
    })
}
