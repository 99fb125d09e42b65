//! The screen of a watch.

use crate::exit::{Failed, Outcome};
use crate::output::{Style, render};
use crate::watched::report::Watched;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize;
use ratatui::text::{Line, Text};
use std::time::Duration;

const KEYS: &str = "q: end it and print the report   up, down: scroll";

/// A terminal that shows the report so far.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    scrolled: usize,
}

impl Screen {
    /// Takes the terminal, until this is dropped.
    pub fn open() -> Outcome<Self> {
        let terminal = ratatui::try_init().map_err(|e| Failed::system("cannot draw on this terminal", e))?;
        Ok(Self { terminal, scrolled: 0 })
    }

    /// Takes the keys that were pressed; returns whether one of them ends the watch.
    pub fn is_closed(&mut self) -> bool {
        while event::poll(Duration::ZERO).is_ok_and(|is| is) {
            let Ok(Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. })) = event::read() else { continue };
            match code {
                KeyCode::Char('q') | KeyCode::Esc => return true,
                KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return true,
                KeyCode::Down | KeyCode::Char('j') => self.scrolled += 1,
                KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
                _ => {}
            }
        }
        false
    }

    /// Draws the report.
    pub fn draw(&mut self, report: &Watched) -> Outcome {
        let text = render(report, Style::Table);
        let all: Vec<&str> = text.lines().collect();
        self.scrolled = self.scrolled.min(all.len().saturating_sub(1));
        let lines: Vec<Line<'_>> = all[self.scrolled..].iter().map(|line| Line::from(*line)).collect();
        let drawn = self.terminal.draw(|frame| {
            let [body, keys] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
            frame.render_widget(Text::from(lines), body);
            frame.render_widget(Line::from(KEYS).dim(), keys);
        });
        drawn.map(|_| ()).map_err(|e| Failed::system("cannot draw on this terminal", e))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
