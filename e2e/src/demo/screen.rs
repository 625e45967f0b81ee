//! What the demo prints: phases with their duration, progress with the time, commands with their output.

use std::io::Write;
use std::time::{Duration, Instant};

/// Indentation of everything below a headline.
const INDENT: &str = "  ";

/// Writes for a person who looks on.
///
/// A reader who has gone away ends nothing: what was started must be cleaned up all the same, so failed writes are
/// ignored.
pub struct Screen<'a> {
    out: Box<dyn Write + Send + 'a>,
    phases: Vec<(String, Duration)>,
    current: Option<(String, Instant)>,
}

impl<'a> Screen<'a> {
    /// A screen that writes to `out`.
    pub fn new(out: impl Write + Send + 'a) -> Self {
        Self {
            out: Box::new(out),
            phases: Vec::new(),
            current: None,
        }
    }

    /// Ends the phase before and begins one.
    pub fn phase(&mut self, title: &str) {
        self.end_phase();
        self.headline(title);
        self.current = Some((title.to_owned(), Instant::now()));
    }

    /// A headline outside of the phases.
    pub fn headline(&mut self, title: &str) {
        self.write(&format!("\n{title}"));
    }

    fn end_phase(&mut self) {
        if let Some((title, started)) = self.current.take() {
            self.phases.push((title, started.elapsed()));
        }
    }

    /// One or more lines of text.
    pub fn say(&mut self, text: &str) {
        for line in text.lines() {
            let line = format!("{INDENT}{line}");
            self.write(line.trim_end());
        }
    }

    /// A line of progress: how long the phase has lasted, and what has happened.
    pub fn progress(&mut self, what: &str) {
        let elapsed = self
            .current
            .as_ref()
            .map_or(Duration::ZERO, |(_, started)| started.elapsed());
        self.say(&format!("{:>6.1} s  {what}", elapsed.as_secs_f64()));
    }

    /// A command that the reader can run too, and what it printed.
    pub fn command(&mut self, shown: &str, output: &str) {
        self.say(&format!("$ {shown}"));
        self.say(output);
    }

    /// Rows under a header, in columns.
    pub fn table<const N: usize>(&mut self, header: [&str; N], rows: &[[String; N]]) {
        let header = header.map(str::to_owned);
        let width = |column: usize| {
            let cells = std::iter::once(&header).chain(rows).map(|row| row[column].len());
            cells.max().unwrap_or_default()
        };
        let widths: [usize; N] = std::array::from_fn(width);
        for row in std::iter::once(&header).chain(rows) {
            let cells = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"));
            self.say(&cells.collect::<Vec<_>>().join("  "));
        }
    }

    /// Ends the last phase and shows how long each one took.
    pub fn durations(&mut self) {
        self.end_phase();
        self.headline("Time");
        let phases = std::mem::take(&mut self.phases);
        let total = phases.iter().map(|(_, time)| *time).sum();
        for (title, time) in phases.iter().chain([&("All of it".to_owned(), total)]) {
            self.say(&format!("{:>6.1} s  {title}", time.as_secs_f64()));
        }
    }

    fn write(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl FnOnce(&mut Screen<'_>)) -> String {
        let mut text = Vec::new();
        write(&mut Screen::new(&mut text));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["gpu-0", "1"], ["a-long-name", "none"]].map(|row| row.map(str::to_owned));
        let text = shown(|screen| screen.table(["NAME", "GPUS"], &rows));
        assert_eq!(
            text,
            "  NAME         GPUS\n  gpu-0        1\n  a-long-name  none\n"
        );
    }

    #[test]
    fn every_phase_has_its_duration() {
        let text = shown(|screen| {
            screen.phase("First");
            screen.progress("begun");
            screen.phase("Second");
            screen.durations();
        });
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "",
                "First",
                "0.0 s  begun",
                "",
                "Second",
                "",
                "Time",
                "0.0 s  First",
                "0.0 s  Second",
                "0.0 s  All of it"
            ]
        );
    }
}
