//! Bar charts as SVG, for black and white: series differ by their fill, and each chart has its table beside it.

use super::fill::{Area, Drawn, FILLS_MAX, Point, fill, grey};
use super::html::escape;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const LEFT: i32 = 46;
const TOP: i32 = 56;
const HEIGHT: i32 = 260;
const BELOW: i32 = 46;
const GAP: i32 = 20;
/// The smallest width of a chart: it leaves room for the legend.
const WIDTH_MIN: i32 = 860;
/// The font, for pages without one of their own.
const FONT: (&str, i32) = ("sans-serif", 12);
/// The dashes of the marks: their length, and the distance to the next one.
const DASHES: [(i32, i32); 2] = [(7, 3), (2, 3)];

/// A bar: one part, or several on top of each other, each from a series.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The text below it; may be empty.
    pub label: String,
    /// The series and value of each part. A part without a value has no figure, and its place stays empty.
    pub parts: Vec<(usize, Option<f64>)>,
}

/// Bars that belong together.
#[derive(Clone, Debug)]
pub struct Group {
    pub label: String,
    pub bars: Vec<Bar>,
    /// Lines across the group: (index of the chart's mark, value).
    pub marks: Vec<(usize, f64)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// An identifier that is unique on the page.
    pub id: &'a str,
    pub title: String,
    /// The label of the vertical axis.
    pub axis: &'a str,
    pub series: &'a [&'a str],
    /// The names of the marks, at most two: a dashed and a dotted line.
    pub marks: &'a [&'a str],
    /// The end of the axis; a longer bar is cut off and shows its value.
    pub top: f64,
    pub bar_width: i32,
    pub groups: Vec<Group>,
}

/// Returns a text that begins, has its middle or ends at a place.
fn text(words: impl Into<String>, at: Point, horizontal: HPos) -> Text<'static, Point, String> {
    let style = TextStyle::from(FONT.into_font()).color(&BLACK).pos(Pos::new(horizontal, VPos::Center));
    Text::new(words.into(), at, style)
}

impl Chart<'_> {
    fn group_width(&self, group: &Group) -> i32 {
        i32::try_from(group.bars.len()).expect("a handful of bars") * self.bar_width + GAP
    }

    /// Returns the height of a value.
    #[allow(clippy::cast_possible_truncation)] // pixels
    fn y(&self, value: f64) -> i32 {
        TOP + HEIGHT - (value.clamp(0.0, self.top) / self.top * f64::from(HEIGHT)).round() as i32
    }

    /// Renders one SVG element.
    ///
    /// # Panics
    /// Panics if there are more series than fills, or more marks than kinds of line.
    #[must_use]
    pub fn svg(&self) -> String {
        assert!(self.series.len() <= FILLS_MAX && self.marks.len() <= DASHES.len(), "{}", self.title);
        let inner: i32 = self.groups.iter().map(|group| self.group_width(group)).sum();
        let (width, height) = ((LEFT + inner + 10).max(WIDTH_MIN), TOP + HEIGHT + BELOW);
        let mut drawn = String::new();
        let area = SVGBackend::with_string(&mut drawn, (width.unsigned_abs(), height.unsigned_abs())).into_drawing_area();
        self.draw(&area, width).and_then(|()| area.present()).expect("a text takes any picture");
        drop(area);
        // The page has a root of its own: with a description, and without an address of a namespace.
        let (_, inside) = drawn.split_once('\n').expect("the root has a line of its own");
        let id = self.id;
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{}</title>\n\
             <desc id=\"{id}-desc\">Bars of {}; the table below has every value.</desc>\n{inside}",
            escape(&self.title),
            escape(&self.series.join(", ")),
        )
    }

    fn draw(&self, area: &Area<'_>, width: i32) -> Drawn {
        self.legend(area)?;
        self.axis(area, width)?;
        let mut x = LEFT + GAP / 2;
        for group in &self.groups {
            self.group(area, group, x)?;
            x += self.group_width(group);
        }
        Ok(())
    }

    fn legend(&self, area: &Area<'_>) -> Drawn {
        let mut x = LEFT;
        for (series, name) in self.series.iter().enumerate() {
            fill(area, series, (x, 4), (x + 22, 16))?;
            area.draw(&text(*name, (x + 28, 10), HPos::Left))?;
            x += 46 + text_width(name);
        }
        x = LEFT;
        for (mark, name) in self.marks.iter().enumerate() {
            dashed(area, mark, (x, x + 28), 30)?;
            area.draw(&text(*name, (x + 34, 30), HPos::Left))?;
            x += 52 + text_width(name);
        }
        Ok(())
    }

    fn axis(&self, area: &Area<'_>, width: i32) -> Drawn {
        area.draw(&text(self.axis, (4, TOP - 12), HPos::Left))?;
        let step = step_of(self.top);
        let mut value = 0.0;
        while value <= self.top * 1.0001 {
            let (y, shade) = (self.y(value), if value == 0.0 { 0 } else { 0xbb });
            area.draw(&PathElement::new(vec![(LEFT, y), (width, y)], grey(shade)))?;
            area.draw(&text(((value * 1000.0).round() / 1000.0).to_string(), (LEFT - 5, y), HPos::Right))?;
            value += step;
        }
        Ok(())
    }

    fn group(&self, area: &Area<'_>, group: &Group, left: i32) -> Drawn {
        let mut x = left;
        for bar in &group.bars {
            self.bar(area, bar, x)?;
            x += self.bar_width;
        }
        let ends = (left - 5, x + 5);
        for &(_, value) in &group.marks {
            let y = self.y(value);
            area.draw(&PathElement::new(vec![(ends.0, y), (ends.1, y)], WHITE.stroke_width(5)))?;
        }
        for &(mark, value) in &group.marks {
            dashed(area, mark, ends, self.y(value))?;
        }
        let below = if group.bars.iter().all(|bar| bar.label.is_empty()) { 14 } else { 32 };
        area.draw(&text(group.label.as_str(), ((left + x) / 2, TOP + HEIGHT + below), HPos::Center))
    }

    fn bar(&self, area: &Area<'_>, bar: &Bar, x: i32) -> Drawn {
        let right = x + self.bar_width - 2;
        let mut from = 0.0;
        for &(series, value) in &bar.parts {
            let Some(value) = value else { continue };
            let to = from + value;
            fill(area, series, (x, self.y(to)), (right, self.y(from)))?;
            from = to;
        }
        let middle = (x + right) / 2;
        if from > self.top {
            let box_of_value = [(x, TOP), (right, TOP + 38)];
            area.draw(&Rectangle::new(box_of_value, WHITE.filled()))?;
            area.draw(&Rectangle::new(box_of_value, BLACK))?;
            let style = TextStyle::from(FONT.into_font().transform(FontTransform::Rotate270)).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(format!("{from:.2}"), (middle, TOP + 34), style))?;
        }
        if !bar.label.is_empty() {
            area.draw(&text(bar.label.as_str(), (middle, TOP + HEIGHT + 12), HPos::Center))?;
        }
        Ok(())
    }
}

/// Draws a level line in the dashes of a mark.
fn dashed(area: &Area<'_>, mark: usize, (from, to): (i32, i32), y: i32) -> Drawn {
    let (dash, space) = DASHES[mark];
    area.draw(&DashedPathElement::new([(from, y), (to, y)], dash, space, BLACK.stroke_width(2)))
}

/// Formats a chart in a figure.
#[must_use]
pub fn figure(chart: &Chart) -> String {
    format!("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n", escape(&chart.title), chart.svg())
}

/// Estimates the width of a text in the page's font.
fn text_width(text: &str) -> i32 {
    i32::try_from(text.chars().count()).expect("a line") * 33 / 5
}

/// Returns a round distance that divides the axis into four to ten steps.
fn step_of(top: f64) -> f64 {
    let power = 10f64.powf(top.log10().floor());
    [0.1, 0.2, 0.25, 0.5, 1.0].into_iter().map(|part| part * power).find(|step| top / step <= 10.0).unwrap_or(power)
}

/// Rounds up to a number with one digit, for the end of an axis.
#[must_use]
pub fn end_of_axis(most: f64) -> f64 {
    let power = 10f64.powf(most.max(1e-9).log10().floor());
    (most / power).ceil() * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(value: Option<f64>) -> String {
        let bar = Bar { label: String::new(), parts: vec![(0, value)] };
        let groups = vec![Group { label: "a&b".to_owned(), bars: vec![bar], marks: vec![(0, 0.5)] }];
        let (series, marks) = (&["none"][..], &["ideal"][..]);
        Chart { id: "c", title: "T".to_owned(), axis: "ratio", series, marks, top: 2.0, bar_width: 20, groups }.svg()
    }

    #[test]
    fn a_bar_is_as_long_as_its_value_and_one_that_is_too_long_says_its_value() {
        assert!(chart(Some(1.0)).contains("height=\"130\""), "{}", chart(Some(1.0)));
        let long = chart(Some(7.25));
        assert!(long.contains("height=\"260\"") && long.contains(">\n7.25\n</text>"), "{long}");
        let none = chart(None);
        assert!(!none.contains("height=\"130\"") && !none.contains("height=\"260\""), "{none}");
        assert!(none.contains("a&amp;b") && none.contains("\nideal\n") && !none.contains("http"), "{none}");
    }

    #[test]
    fn an_axis_has_four_to_ten_steps() {
        for top in [0.3, 1.0, 1.25, 2.0, 3.5, 8.0, 20.0, 700.0] {
            let steps = top / step_of(top);
            assert!((3.0..=10.0).contains(&steps), "{top}: {steps}");
        }
    }

    #[test]
    fn an_axis_ends_beyond_the_longest_bar() {
        assert_eq!([0.7, 1.0, 1.2, 41.0, 362.8].map(end_of_axis).map(|end| (end * 10.0).round()), [7.0, 10.0, 20.0, 500.0, 4000.0]);
    }
}
