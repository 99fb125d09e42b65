//! Bar charts as SVG, for black and white: series differ by pattern, and each chart has its table beside it.

use crate::laboratory::papers::drawing::html::escape;
use std::fmt::Write as _;

/// Fills that can be distinguished without colour, from light to dark.
const FILLS: [&str; 9] = [
    "<rect width=\"8\" height=\"8\" fill=\"#fff\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#fff\"/><path d=\"M0 2H8M0 6H8\" stroke=\"#000\" stroke-width=\"1\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#fff\"/><path d=\"M0 0L8 8M8 0L0 8\" stroke=\"#000\" stroke-width=\"1.2\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#ddd\"/><circle cx=\"4\" cy=\"4\" r=\"1.2\" fill=\"#000\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#999\"/><path d=\"M0 8L8 0\" stroke=\"#fff\" stroke-width=\"2\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#222\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#ddd\"/><path d=\"M2 0V8M6 0V8\" stroke=\"#000\" stroke-width=\"1.6\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#fff\"/><path d=\"M0 4H8M4 0V8\" stroke=\"#000\" stroke-width=\"1.2\"/>",
    "<rect width=\"8\" height=\"8\" fill=\"#555\"/><circle cx=\"4\" cy=\"4\" r=\"1.6\" fill=\"#fff\"/>",
];

const LEFT: f64 = 46.0;
const TOP: f64 = 56.0;
const HEIGHT: f64 = 260.0;
const BELOW: f64 = 46.0;
const GAP: f64 = 20.0;
/// The smallest width of a chart: it leaves room for the legend.
const WIDTH_MIN: f64 = 860.0;

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
    pub bar_width: f64,
    pub groups: Vec<Group>,
}

impl Chart<'_> {
    fn group_width(&self, group: &Group) -> f64 {
        #[allow(clippy::cast_precision_loss)] // a handful
        let bars = group.bars.len() as f64;
        bars * self.bar_width + GAP
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT - value.clamp(0.0, self.top) / self.top * HEIGHT
    }

    /// Renders one SVG element.
    ///
    /// # Panics
    /// Panics if there are more series than patterns, or more marks than kinds of line.
    #[must_use]
    pub fn svg(&self) -> String {
        assert!(self.series.len() <= FILLS.len() && self.marks.len() <= DASHES.len(), "{}", self.title);
        let inner: f64 = self.groups.iter().map(|g| self.group_width(g)).sum();
        let width = (LEFT + inner + 10.0).max(WIDTH_MIN);
        let id = self.id;
        let mut out = format!(
            "<svg viewBox=\"0 0 {width:.0} {:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{}</title>\n\
             <desc id=\"{id}-desc\">Bars of {}; the table below has every value.</desc>\n<defs>",
            TOP + HEIGHT + BELOW,
            escape(&self.title),
            escape(&self.series.join(", ")),
        );
        for (i, fill) in FILLS.iter().enumerate().take(self.series.len()) {
            let _ = write!(out, "<pattern id=\"{id}-{i}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">{fill}</pattern>");
        }
        out.push_str("</defs>\n");
        self.legend(&mut out);
        self.axis(&mut out, width);
        let mut x = LEFT + GAP / 2.0;
        for group in &self.groups {
            self.group(&mut out, group, x);
            x += self.group_width(group);
        }
        out.push_str("</svg>\n");
        out
    }

    fn legend(&self, out: &mut String) {
        let mut x = LEFT;
        for (i, name) in self.series.iter().enumerate() {
            let _ = write!(
                out,
                "<rect x=\"{x:.0}\" y=\"4\" width=\"22\" height=\"12\" fill=\"url(#{}-{i})\" stroke=\"#000\"/>\
                 <text x=\"{:.0}\" y=\"15\">{}</text>",
                self.id,
                x + 28.0,
                escape(name)
            );
            x += 46.0 + text_width(name);
        }
        x = LEFT;
        for (name, dash) in self.marks.iter().zip(DASHES) {
            let _ = write!(
                out,
                "<path d=\"M{x:.0} 30h28\" stroke=\"#000\" stroke-width=\"2.5\" stroke-dasharray=\"{dash}\"/>\
                 <text x=\"{:.0}\" y=\"34\">{}</text>",
                x + 34.0,
                escape(name)
            );
            x += 52.0 + text_width(name);
        }
        out.push('\n');
    }

    fn axis(&self, out: &mut String, width: f64) {
        let _ = writeln!(out, "<text x=\"4\" y=\"{:.0}\">{}</text>", TOP - 8.0, escape(self.axis));
        let step = step_of(self.top);
        let mut value = 0.0;
        while value <= self.top * 1.0001 {
            let y = self.y(value);
            let stroke = if value == 0.0 { "#000" } else { "#bbb" };
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT:.0} {y:.1}H{width:.0}\" stroke=\"{stroke}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 5.0,
                y + 4.0,
                (value * 1000.0).round() / 1000.0
            );
            value += step;
        }
    }

    fn group(&self, out: &mut String, group: &Group, left: f64) {
        let mut x = left;
        for bar in &group.bars {
            self.bar(out, bar, x);
            x += self.bar_width;
        }
        for &(_, value) in &group.marks {
            let _ =
                writeln!(out, "<path d=\"M{:.1} {:.1}H{:.1}\" stroke=\"#fff\" stroke-width=\"5\"/>", left - 5.0, self.y(value), x + 5.0);
        }
        for &(mark, value) in &group.marks {
            let _ = writeln!(
                out,
                "<path d=\"M{:.1} {:.1}H{:.1}\" stroke=\"#000\" stroke-width=\"2.5\" stroke-dasharray=\"{}\">\
                 <title>{}: {} {value:.3}</title></path>",
                left - 5.0,
                self.y(value),
                x + 5.0,
                DASHES[mark],
                escape(&group.label),
                escape(self.marks[mark])
            );
        }
        let middle = (left + x) / 2.0;
        let below = if group.bars.iter().all(|b| b.label.is_empty()) { 18.0 } else { 36.0 };
        let _ = writeln!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            TOP + HEIGHT + below,
            escape(&group.label)
        );
    }

    fn bar(&self, out: &mut String, bar: &Bar, x: f64) {
        let width = self.bar_width - 2.0;
        let mut from = 0.0;
        for &(series, value) in &bar.parts {
            let Some(value) = value else { continue };
            let to = from + value;
            let (low, high) = (self.y(from), self.y(to));
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{high:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"url(#{}-{series})\" stroke=\"#000\">\
                 <title>{} {value:.3}</title></rect>",
                low - high,
                self.id,
                escape(self.series[series])
            );
            from = to;
        }
        if from > self.top {
            let (cx, y) = (x + width / 2.0 + 4.0, TOP + 34.0);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"38\" fill=\"#fff\" stroke=\"#000\"/>\
                 <text x=\"{cx:.1}\" y=\"{y:.1}\" transform=\"rotate(-90 {cx:.1} {y:.1})\">{from:.2}</text>"
            );
        }
        if !bar.label.is_empty() {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x + width / 2.0,
                TOP + HEIGHT + 16.0,
                escape(&bar.label)
            );
        }
    }
}

/// Formats a chart in a figure.
#[must_use]
pub fn figure(chart: &Chart) -> String {
    format!("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n", escape(&chart.title), chart.svg())
}

/// The dash patterns of the marks.
const DASHES: [&str; 2] = ["7 3", "2 3"];

/// Estimates the width of a text in the page's font.
fn text_width(text: &str) -> f64 {
    #[allow(clippy::cast_precision_loss)] // a line
    let letters = text.chars().count() as f64;
    letters * 6.6
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
        Chart { id: "c", title: "T".to_owned(), axis: "ratio", series, marks, top: 2.0, bar_width: 20.0, groups }.svg()
    }

    #[test]
    fn a_bar_is_as_long_as_its_value_and_one_that_is_too_long_says_its_value() {
        assert!(chart(Some(1.0)).contains("height=\"130.0\""), "{}", chart(Some(1.0)));
        let long = chart(Some(7.25));
        assert!(long.contains("height=\"260.0\"") && long.contains(">7.25</text>"), "{long}");
        assert!(!chart(None).contains("<title>none"));
        assert!(chart(None).contains("a&amp;b") && chart(None).contains("ideal 0.500"));
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
