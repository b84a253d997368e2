//! What is going on, on stderr: two lines that change on a terminal, plain lines now and then elsewhere.
//!
//! Cheap enough to be called once a second while the load runs, and never in the way of it: a closed stderr, or one
//! that can't be written, loses no measurement. Clones show the same.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::load::trial::Second;

/// A line on stderr that is lost if nobody can read it any more: `eprintln!` would panic in the middle of a stop.
pub fn say(line: &str) {
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}

/// Without a terminal, a second is printed this seldom.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// A line that wraps can't be replaced; the width isn't asked for, so the narrowest usual one is assumed.
const WIDTH: usize = 79;

#[derive(Clone)]
pub struct Progress {
    terminal: bool,
    begun: Instant,
    state: Arc<Mutex<State>>,
}

struct State {
    output: Box<dyn Write + Send>,
    /// `2 of 14: redis-threads`
    scenario: Option<String>,
    /// When the scenario under way, and all after it, are likely to be over.
    over_at: Option<Instant>,
    /// That is the latest, not the likely time.
    at_most: bool,
    /// The case or the phase.
    what: String,
    /// Of the second before.
    figures: String,
    /// Lines that are replaced by the next ones.
    drawn: usize,
    plain_at: Option<Instant>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

impl Progress {
    pub fn start() -> Self {
        Self::on(std::io::stderr().is_terminal(), Box::new(std::io::stderr()))
    }

    fn on(terminal: bool, output: Box<dyn Write + Send>) -> Self {
        let state = State {
            output,
            scenario: None,
            over_at: None,
            at_most: false,
            what: String::new(),
            figures: String::new(),
            drawn: 0,
            plain_at: None,
        };
        Self { terminal, begun: Instant::now(), state: Arc::new(Mutex::new(state)) }
    }

    /// The `number`-th of `of` scenarios begins. `left` is how long it and all after it are likely to take, if
    /// anybody knows.
    pub fn scenario(&self, number: usize, of: usize, name: &str, left: Option<Duration>) {
        let mut state = self.state();
        state.scenario = Some(format!("{number} of {of}: {name}"));
        state.over_at = left.map(|left| Instant::now() + left);
        state.at_most = false;
        state.what.clear();
        state.figures.clear();
        if !self.terminal {
            let line = format!("{} scenario {number} of {of}: {name}{}\n", self.clock(), state.left());
            state.write(&line);
        }
        self.draw(&mut state);
    }

    /// Who runs knows better by now: so long until all is over, at most; a search may end much sooner.
    pub fn expect_at_most(&self, left: Duration) {
        let mut state = self.state();
        (state.over_at, state.at_most) = (Some(Instant::now() + left), true);
    }

    /// Something has begun: a case, a phase. On a terminal it is shown until the next.
    pub fn doing(&self, what: &str) {
        let mut state = self.state();
        what.clone_into(&mut state.what);
        state.figures.clear();
        state.plain_at = Some(Instant::now());
        self.draw(&mut state);
    }

    /// The same, and a line without a terminal, too: there are few of them.
    pub fn phase(&self, what: &str) {
        self.doing(what);
        if !self.terminal {
            let line = format!("{} {what}\n", self.clock());
            self.state().write(&line);
        }
    }

    /// Something is waited for, and how far it is: may be called at each look, and is printed now and then.
    pub fn waiting(&self, what: &str) {
        let mut state = self.state();
        what.clone_into(&mut state.what);
        state.figures.clear();
        self.draw_or(&mut state, |_| format!("waiting: {what}"));
    }

    /// A second of the load has passed, or the part of one at a trial's end: what came in that is no rate. Nothing is
    /// shown of a load that has no name.
    pub fn second(&self, second: &Second) {
        let mut state = self.state();
        if state.what.is_empty() || second.at_s.fract() > 0.0 {
            return;
        }
        let Second { good, refused, bad, p99_us, in_flight, .. } = *second;
        state.figures = format!("{good}/s, p99 {:.1} ms, {in_flight} in flight", p99_us as f64 / 1000.0);
        for (count, name) in [(refused, "refused"), (bad, "BAD")] {
            if count > 0 {
                state.figures += &format!(", {count} {name}");
            }
        }
        self.draw_or(&mut state, |of| format!("{}: {}{}", of.what, of.figures, of.left()));
    }

    /// On a terminal; elsewhere this line, now and then.
    fn draw_or(&self, state: &mut State, line: impl FnOnce(&State) -> String) {
        if self.terminal {
            return self.draw(state);
        }
        if state.plain_at.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) {
            state.plain_at = Some(Instant::now());
            let line = format!("{} {}\n", self.clock(), line(state));
            state.write(&line);
        }
    }

    /// Something is done: a line that stays.
    pub fn done(&self, what: &str) {
        let mut state = self.state();
        state.clear();
        state.what.clear();
        state.figures.clear();
        let line = format!("{} {what}\n", self.clock());
        state.write(&line);
    }

    /// Nothing is going on any more; what is written to the terminal next stands by itself.
    pub fn finish(&self) {
        let mut state = self.state();
        state.clear();
        state.scenario = None;
    }

    fn draw(&self, state: &mut State) {
        if !self.terminal {
            return;
        }
        let clock = self.clock();
        let mut lines = Vec::new();
        if let Some(scenario) = &state.scenario {
            lines.push(format!("{clock} {scenario}{}", state.left()));
        }
        if !state.what.is_empty() || !state.figures.is_empty() {
            let between = if state.figures.is_empty() { " ..." } else { ": " };
            let place = if lines.is_empty() { format!("{clock} ") } else { "  ".to_owned() };
            // The figures change, and matter more than the end of a long name.
            let room = WIDTH.saturating_sub(place.len() + between.len() + state.figures.len());
            lines.push(format!("{place}{}{between}{}", clipped(&state.what, room), state.figures));
        }
        state.clear();
        state.drawn = lines.len();
        let lines: Vec<String> = lines.iter().map(|line| clipped(line, WIDTH)).collect();
        state.write(&lines.join("\n"));
    }

    fn clock(&self) -> String {
        let seconds = self.begun.elapsed().as_secs();
        format!("[{:02}:{:02}]", seconds / 60, seconds % 60)
    }

    /// A thread that panicked while it held the lock left nothing worse than a strange line.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Back to the start of the first of our lines, with nothing below.
    fn clear(&mut self) {
        if self.drawn > 0 {
            let up = "\x1b[1A".repeat(self.drawn - 1);
            self.write(&format!("\r{up}\x1b[J"));
            self.drawn = 0;
        }
    }

    fn left(&self) -> String {
        let Some(over_at) = self.over_at else { return String::new() };
        let seconds = over_at.saturating_duration_since(Instant::now()).as_secs();
        let about = if self.at_most { "at most" } else { "about" };
        match seconds {
            0 => ", should be over soon".to_owned(),
            1..=90 => format!(", {about} {seconds} s left"),
            _ => format!(", {about} {} min left", seconds.div_ceil(60)),
        }
    }

    /// A closed stderr is no reason to lose a measurement.
    fn write(&mut self, text: &str) {
        drop(self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush()));
    }
}

fn clipped(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let mut clipped: String = line.chars().take(width.saturating_sub(1)).collect();
    clipped.push('~');
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn taken(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    fn on(terminal: bool) -> (Progress, Screen) {
        let screen = Screen::default();
        (Progress::on(terminal, Box::new(screen.clone())), screen)
    }

    fn second(good: u64) -> Second {
        Second { at_s: 1.0, good, refused: 0, bad: 2, p50_us: 500, p99_us: 1500, in_flight: 7 }
    }

    #[test]
    fn a_terminal_has_two_lines_that_replace_each_other() {
        let (progress, screen) = on(true);
        progress.scenario(2, 14, "redis-threads", Some(Duration::from_secs(600)));
        assert_eq!(screen.taken(), "[00:00] 2 of 14: redis-threads, about 10 min left");
        progress.doing("set, 50 threads");
        assert_eq!(
            screen.taken(),
            "\r\x1b[J[00:00] 2 of 14: redis-threads, about 10 min left\n  set, 50 threads ..."
        );
        progress.second(&second(41_000));
        let drawn = screen.taken();
        assert!(drawn.starts_with("\r\x1b[1A\x1b[J[00:00] 2 of 14"), "{drawn:?}");
        assert!(drawn.ends_with("\n  set, 50 threads: 41000/s, p99 1.5 ms, 7 in flight, 2 BAD"), "{drawn:?}");
        progress.expect_at_most(Duration::from_secs(900));
        progress.doing("more");
        assert!(screen.taken().contains("redis-threads, at most 15 min left\n  more ..."));
        progress.done("all cases measured");
        assert_eq!(screen.taken(), "\r\x1b[1A\x1b[J[00:00] all cases measured\n");
        progress.finish();
        assert_eq!(screen.taken(), "");
    }

    #[test]
    fn no_line_of_a_terminal_wraps() {
        let (progress, screen) = on(true);
        progress.doing(&"ö".repeat(300));
        progress.second(&second(1));
        let drawn = screen.taken();
        let last = drawn.rsplit("\x1b[J").next().unwrap();
        assert_eq!(last.chars().count(), WIDTH);
        assert!(last.ends_with("2 BAD"), "{last}");
    }

    #[test]
    fn what_is_no_rate_of_a_phase_is_not_shown() {
        for terminal in [true, false] {
            let (progress, screen) = on(terminal);
            progress.second(&second(5));
            assert_eq!(screen.taken(), "", "it has no name");
            progress.doing("orders");
            screen.taken();
            progress.state().plain_at = None;
            progress.second(&Second { at_s: 1.5, ..second(5) });
            assert_eq!(screen.taken(), "", "half a second");
            progress.second(&second(5));
            assert!(screen.taken().contains("orders: 5/s"));
        }
    }

    #[test]
    fn elsewhere_lines_are_plain_and_few() {
        let (progress, screen) = on(false);
        progress.scenario(1, 2, "orders", None);
        progress.doing("warming up");
        progress.second(&second(5));
        progress.second(&second(6));
        progress.done("measured");
        assert_eq!(screen.taken(), "[00:00] scenario 1 of 2: orders\n[00:00] measured\n");
        progress.doing("at rest");
        progress.second(&second(5));
        progress.state().plain_at = Some(Instant::now() - PLAIN_EVERY);
        progress.second(&second(6));
        let lines = screen.taken();
        assert!(
            lines.ends_with("at rest: 6/s, p99 1.5 ms, 7 in flight, 2 BAD\n") && !lines.contains('\x1b'),
            "{lines}"
        );
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }
}
