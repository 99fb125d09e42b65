//! `top`: shows on one screen what volumes do, again and again.
//!
//! A thread looks at the volumes, so that keys are answered while a server is not.

mod look;
mod screen;

use crate::exit::{Exit, Failed, Outcome};
use crate::files::stopped_by_signals;
use crate::output;
use look::{Followed, Look, records, take};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use screen::Screen;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The longest time until a new look, or a signal, is noticed.
const PATIENCE: Duration = Duration::from_millis(100);
/// The size of the screen that is printed, in characters.
const PRINTED: (u16, u16) = (120, 40);
const KEYS: &str = "q quit   up, down: another volume";

/// Show what attached volumes do, on one screen, live
///
/// A table of the volumes, and of one of them the savings, the throughput of its clients and its device, memory by part, the work in the
/// background, and notices. All rates are bytes a second over the last interval.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these: path, label, UUID, or where it is attached. Default: all that are attached.
    #[arg(value_name = "VOLUME")]
    volumes: Vec<String>,
    /// The time between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Print one screen as text, with the rates of one interval.
    #[arg(long)]
    once: bool,
}

/// Shows the screen until the user has had enough.
///
/// # Errors
/// When one of the volumes is not attached, or there is no terminal.
pub fn run(arguments: &Arguments) -> Outcome {
    let Arguments { volumes, interval, once } = arguments;
    let (mut followed, interval) = (Vec::new(), Duration::from_secs(*interval));
    take(&mut followed, looks(volumes)?);
    if *once {
        std::thread::sleep(interval);
        take(&mut followed, looks(volumes)?);
        output::say(&printed(&followed));
        return Ok(());
    }
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        return Err(Failed::new(Exit::Usage, "top needs a terminal").next("`onefold top --once` prints one screen."));
    }
    let (names, (to_screen, from_looks), (_alive, is_over)) = (volumes.clone(), channel(), channel());
    std::thread::spawn(move || look_again_and_again(&names, interval, &to_screen, &is_over));
    let mut terminal = ratatui::try_init().map_err(|e| Failed::system("cannot draw on this terminal", e))?;
    let shown = show(&mut terminal, followed, &from_looks);
    ratatui::restore();
    shown
}

/// Looks at all volumes once.
fn looks(names: &[String]) -> Outcome<Vec<Look>> {
    Ok(records(names)?.into_iter().map(Look::at).collect())
}

/// Looks until nobody waits for it any more, or until a volume that was named is gone.
fn look_again_and_again(names: &[String], interval: Duration, to_screen: &Sender<Outcome<Vec<Look>>>, is_over: &Receiver<()>) {
    while is_over.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let looks = looks(names);
        let is_last = looks.is_err();
        if to_screen.send(looks).is_err() || is_last {
            return;
        }
    }
}

/// Draws whenever there is something new, until a key or a signal ends it.
fn show(terminal: &mut ratatui::DefaultTerminal, mut volumes: Vec<Followed>, from_looks: &Receiver<Outcome<Vec<Look>>>) -> Outcome {
    let failed = |e| Failed::system("cannot draw on this terminal", e);
    let is_killed = stopped_by_signals()?;
    let (mut chosen, mut is_new) = (0, true);
    while !is_killed.load(Ordering::Relaxed) {
        for looks in from_looks.try_iter() {
            take(&mut volumes, looks?);
            is_new = true;
        }
        chosen = chosen.min(volumes.len().saturating_sub(1));
        if std::mem::take(&mut is_new) {
            let screen = Screen { volumes: &volumes, chosen, keys: KEYS };
            terminal.draw(|frame| frame.render_widget(&screen, frame.area())).map_err(failed)?;
        }
        if !event::poll(PATIENCE).map_err(failed)? {
            continue;
        }
        // A key, or another size of the terminal.
        is_new = true;
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event::read().map_err(failed)? else { continue };
        match code {
            KeyCode::Char('q') | KeyCode::Esc => break,
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => break,
            KeyCode::Down | KeyCode::Char('j') => chosen += 1,
            KeyCode::Up | KeyCode::Char('k') => chosen = chosen.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// The screen as text, without blank lines.
fn printed(volumes: &[Followed]) -> String {
    let (width, height) = PRINTED;
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    Screen { volumes, chosen: 0, keys: "" }.render(area, &mut buffer);
    let lines = (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>());
    let says_something = |line: &String| !line.chars().all(|symbol| symbol == '│' || symbol == ' ');
    lines.filter(says_something).map(|line| format!("{}\n", line.trim_end())).collect()
}
