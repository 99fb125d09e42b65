//! Draws the screen: all volumes in a table, and the chosen one below it.

use super::look::{Answer, Followed, Rates};
use crate::commands::stats::{disk as disk_in_a_line, found};
use crate::commands::status::slowed;
use crate::commands::{dedup, scrub};
use crate::output::percent::Percent;
use crate::output::size::Size;
use crate::runtime::condition::{Adaptation, PartUse};
use crate::runtime::streams::StreamUnits;
use crate::runtime::volume_counts::VolumeCounts;
use onefold_engine::units::BLOCK_BYTES;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, LineGauge, Paragraph, Row, Sparkline, Table, Widget, Wrap};

/// The most volumes in the table before it scrolls.
const VOLUMES_SHOWN: usize = 8;
/// The height of a curve, with its frame.
const CURVE_HEIGHT: u16 = 5;

type Rate = fn(&Rates) -> u64;

/// The rates, with their names.
const CURVES: [(&str, Rate); 4] = [
    ("writes", |of| of.client_written),
    ("reads", |of| of.client_read),
    ("store writes", |of| of.store_written),
    ("disk writes", |of| of.disk_written),
];

const HEADS: [&str; 9] = ["VOLUME", "ATTACHED AT", "STATE", "SAVED", "AVAILABLE", "WRITES/s", "READS/s", "TO STORE/s", "BY DISK/s"];

/// The screen.
pub struct Screen<'a> {
    pub volumes: &'a [Followed],
    /// The place of the volume that is shown below.
    pub chosen: usize,
    /// The meaning of the keys.
    pub keys: &'a str,
}

impl Widget for &Screen<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let rows = u16::try_from(self.volumes.len().clamp(1, VOLUMES_SHOWN)).unwrap_or(1);
        let [table, chosen, keys] = Layout::vertical([Constraint::Length(rows + 1), Constraint::Min(0), Constraint::Length(1)]).areas(area);
        let Some(volume) = self.volumes.get(self.chosen) else {
            Line::from("No volume is attached.").render(table, buffer);
            return Line::from(self.keys).dim().render(keys, buffer);
        };
        self.table().render(table, buffer);
        let block = Block::bordered().title(format!(" {} ", volume.last.name()));
        let inner = block.inner(chosen);
        block.render(chosen, buffer);
        match &volume.last.answer {
            Ok(answer) => detail(volume, answer, inner, buffer),
            Err(failed) => Paragraph::new(failed.to_string()).wrap(Wrap { trim: true }).render(inner, buffer),
        }
        Line::from(self.keys).dim().render(keys, buffer);
    }
}

impl Screen<'_> {
    fn table(&self) -> Table<'_> {
        let first = (self.chosen + 1).saturating_sub(VOLUMES_SHOWN);
        let rows = self.volumes.iter().enumerate().skip(first).take(VOLUMES_SHOWN).map(|(place, volume)| {
            let row = Row::new(cells(volume));
            if place == self.chosen { row.style(Style::new().add_modifier(Modifier::REVERSED)) } else { row }
        });
        let widths = [Constraint::Fill(2), Constraint::Fill(2)].into_iter().chain([9, 6, 10, 11, 11, 11, 11].map(Constraint::Length));
        Table::new(rows, widths).header(Row::new(HEADS).add_modifier(Modifier::BOLD))
    }
}

/// The volume in the table.
fn cells(volume: &Followed) -> Vec<String> {
    let look = &volume.last;
    let dash = || "-".to_owned();
    let mut cells = vec![look.name(), look.record.location.clone()];
    match &look.answer {
        Err(_) => cells.push("no answer".to_owned()),
        Ok(Answer { counts, condition, .. }) => {
            let of = counts.volume.as_ref();
            let percent = of.and_then(VolumeCounts::saved).and_then(|saved| saved.percent);
            let available = of.filter(|of| of.space.is_complete).map(|of| Size(of.available_bytes()).to_string());
            cells.push(condition.state.clone());
            cells.push(percent.map_or_else(dash, |percent| Percent(percent).to_string()));
            cells.push(available.unwrap_or_else(dash));
        }
    }
    cells.resize_with(5, dash);
    let rates = volume.rates_now();
    let rate = |of: Rate| rates.as_ref().map_or_else(dash, |rates| Size(of(rates)).to_string());
    cells.extend(CURVES.map(|(_, of)| rate(of)));
    cells
}

/// Everything about the chosen volume.
fn detail(volume: &Followed, answer: &Answer, area: Rect, buffer: &mut Buffer) {
    let facts = facts(volume, answer);
    let parts = &answer.condition.memory;
    let heights = [facts.len(), usize::from(CURVE_HEIGHT), parts.len().div_ceil(2) + 1];
    let heights = heights.map(|height| Constraint::Length(u16::try_from(height).unwrap_or(u16::MAX)));
    let [above, curves, memory, rest] = Layout::vertical(heights.into_iter().chain([Constraint::Min(0)])).areas(area);
    Paragraph::new(facts).render(above, buffer);
    draw_curves(volume, curves, buffer);
    draw_memory(parts, memory, buffer);
    let notices: Vec<Line> = answer.condition.notices.iter().rev().map(|notice| Line::from(format!("notice: {notice}"))).collect();
    Paragraph::new(notices).wrap(Wrap { trim: true }).render(rest, buffer);
}

fn fact(name: &str, value: impl Into<String>) -> Line<'static> {
    Line::from(vec![Span::from(format!("{name:<14}")).bold(), Span::from(value.into())])
}

fn facts(volume: &Followed, Answer { counts, condition, disk }: &Answer) -> Vec<Line<'static>> {
    let mut lines = vec![fact("backing store", volume.last.record.path.display().to_string())];
    if let Some(model) = &condition.slowed {
        lines.push(fact("slowed", slowed(model)));
    }
    let Some(of) = &counts.volume else { return lines };
    let blocks = |n: u64| Size(n * BLOCK_BYTES);
    let VolumeCounts { ledger, space, dedup, .. } = of;
    let saved = of.saved().map_or_else(
        || "still counting".to_owned(),
        |saved| format!("{} of clients' blocks in {} that hold them", Size(saved.logical_bytes), Size(saved.physical_bytes)),
    );
    let ratio = ledger.amplification().map_or_else(String::new, |ratio| format!(", {ratio:.2} of that"));
    lines.extend([
        fact("content", saved),
        fact(
            "space",
            format!(
                "{} of {} free, and {} free that still hold old content to be found again",
                blocks(space.free_blocks),
                blocks(space.data_blocks),
                blocks(space.kept_blocks)
            ),
        ),
        fact("written", format!("{} by clients, {} to the store{ratio}", blocks(ledger.client_units), blocks(ledger.device_units))),
        fact("disk wrote", disk_in_a_line(disk)),
        fact("flushes", format!("{} by clients, {} of the store", ledger.client_flushes, ledger.device_flushes)),
        fact("found", found(dedup)),
        fact("index", format!("{} of {} entries", dedup.index_entries, dedup.index_capacity)),
        fact("out of line", dedup::in_a_line(&of.out_of_line)),
        fact("scrub", scrub::in_a_line(&of.scrub)),
        fact("at work on", if space.recount_running { format!("{}, and recounting", of.phase) } else { of.phase.clone() }),
    ]);
    if counts.streams.len() > 1 {
        lines.push(fact("streams", streams_in_a_line(&counts.streams)));
    }
    lines.extend(condition.adaptation.as_ref().map(|adaptation| fact("adapted to", Adaptation::in_a_line(adaptation))));
    lines
}

fn streams_in_a_line(streams: &[StreamUnits]) -> String {
    let of = |stream: &StreamUnits| format!("{} {}", stream.stream, Size(stream.client_units * BLOCK_BYTES));
    streams.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn draw_curves(volume: &Followed, area: Rect, buffer: &mut Buffer) {
    let areas: [Rect; CURVES.len()] = Layout::horizontal([Constraint::Fill(1); CURVES.len()]).areas(area);
    for ((name, of), area) in CURVES.into_iter().zip(areas) {
        let width = usize::from(area.width.saturating_sub(2));
        let rates: Vec<u64> = volume.rates.iter().skip(volume.rates.len().saturating_sub(width)).map(of).collect();
        let most = Size(rates.iter().copied().max().unwrap_or(0));
        let now = volume.rates_now().map_or_else(String::new, |rates| format!("{}/s", Size(of(&rates))));
        let block = Block::bordered().title(format!(" {name} {now} ")).title_bottom(format!(" most {most}/s "));
        Sparkline::default().block(block).data(&rates).render(area, buffer);
    }
}

#[allow(clippy::cast_precision_loss)] // a share, to draw
fn draw_memory(parts: &[PartUse], area: Rect, buffer: &mut Buffer) {
    let [title, area] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let used: u64 = parts.iter().map(|part| part.used_bytes).sum();
    let limit: u64 = parts.iter().map(|part| part.limit_bytes).sum();
    fact("memory", format!("{} of {}", Size(used), Size(limit))).render(title, buffer);
    let columns: [Rect; 2] = Layout::horizontal([Constraint::Fill(1); 2]).spacing(2).areas(area);
    let half = parts.len().div_ceil(2).max(1);
    for (parts, column) in parts.chunks(half).zip(columns) {
        let lines = Layout::vertical(parts.iter().map(|_| Constraint::Length(1))).split(column);
        for (part, &line) in parts.iter().zip(&*lines) {
            let share = (part.used_bytes as f64 / part.limit_bytes.max(1) as f64).clamp(0.0, 1.0);
            let [used, limit] = [part.used_bytes, part.limit_bytes].map(|bytes| Size(bytes).to_string());
            let label = format!("{:<14}{used:>10} of {limit:>10} {:>3.0} %", part.part, 100.0 * share);
            LineGauge::default()
                .ratio(share)
                .label(label)
                .filled_style(Style::new().bold())
                .unfilled_style(Style::new().dim())
                .render(line, buffer);
        }
    }
}
