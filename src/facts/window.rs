//! The daily maintenance window of a Gardener shoot, as ConfigMap `kube-system/shoot-info` tells it.

use std::fmt;

use jiff::fmt::strtime;
use jiff::{SignedDuration, Timestamp};

const DAY: i64 = 24 * 60 * 60;

/// A window that opens at the same time every day. It may cross midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// Second of the UTC day at which it opens.
    begin: i64,
    /// Second of the UTC day at which it is closed again.
    end: i64,
}

/// The window as read at one moment; the error says why it is not known.
pub type WindowFacts = Result<MaintenanceWindow, String>;

/// Why the words for a window cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// No time of day with an offset, for example 220000+0100.
    #[error("'{0}' is no time like 220000+0100")]
    Time(String),
    /// The window would never be open.
    #[error("the window begins and ends at {0}")]
    Empty(String),
}

impl MaintenanceWindow {
    /// Reads both ends in Gardener's format: hours, minutes, seconds and the offset from UTC.
    pub fn parse(begin: &str, end: &str) -> Result<Self, WindowError> {
        let window = Self {
            begin: second_of_day(begin)?,
            end: second_of_day(end)?,
        };
        if window.begin == window.end {
            return Err(WindowError::Empty(begin.to_owned()));
        }
        Ok(window)
    }

    /// True where the window is open.
    pub fn contains(&self, at: Timestamp) -> bool {
        let at = at.as_second().rem_euclid(DAY);
        if self.begin < self.end {
            (self.begin..self.end).contains(&at)
        } else {
            at >= self.begin || at < self.end
        }
    }

    /// When it opens next; now, if it opens now.
    pub fn next_begin(&self, now: Timestamp) -> Timestamp {
        let wait = (self.begin - now.as_second()).rem_euclid(DAY);
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        whole + SignedDuration::from_secs(wait)
    }
}

/// As Gardener writes it, in UTC.
impl fmt::Display for MaintenanceWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |at: i64| format!("{:02}:{:02}", at / 3600, at / 60 % 60);
        write!(f, "{} to {} UTC", time(self.begin), time(self.end))
    }
}

fn second_of_day(text: &str) -> Result<i64, WindowError> {
    let wrong = || WindowError::Time(text.chars().take(32).collect());
    let parsed = strtime::parse("%H%M%S%z", text).map_err(|_| wrong())?;
    let time = parsed.to_time().map_err(|_| wrong())?;
    let offset = parsed.offset().ok_or_else(wrong)?;
    let local = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    Ok((local - i64::from(offset.seconds())).rem_euclid(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_is_open_between_its_ends_in_their_own_offset() {
        let window = MaintenanceWindow::parse("220000+0100", "230000+0100").unwrap();
        assert_eq!(window.to_string(), "21:00 to 22:00 UTC");
        for (time, open) in [
            ("20:59:59", false),
            ("21:00:00", true),
            ("21:59:59", true),
            ("22:00:00", false),
        ] {
            let at = at(&format!("2026-11-30T{time}Z"));
            assert_eq!(window.contains(at), open, "{time}");
        }
        let next = |now: &str| window.next_begin(at(now)).to_string();
        assert_eq!(next("2026-11-30T20:59:59.5Z"), "2026-11-30T21:00:00Z");
        assert_eq!(next("2026-11-30T21:00:00Z"), "2026-11-30T21:00:00Z");
        assert_eq!(next("2026-11-30T21:00:01Z"), "2026-12-01T21:00:00Z");
    }

    #[test]
    fn a_window_may_cross_midnight() {
        for (begin, end) in [("233000+0000", "003000+0000"), ("003000+0100", "053000+0500")] {
            let window = MaintenanceWindow::parse(begin, end).unwrap();
            for (time, open) in [
                ("23:29:59", false),
                ("23:30:00", true),
                ("00:29:59", true),
                ("00:30:00", false),
                ("12:00:00", false),
            ] {
                let at = at(&format!("2026-11-30T{time}Z"));
                assert_eq!(window.contains(at), open, "{begin} {time}");
            }
        }
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for text in ["", "2200", "220000", "250000+0000", "220000+01", "220000Z", "x"] {
            let error = MaintenanceWindow::parse(text, "230000+0100").unwrap_err();
            assert_eq!(error, WindowError::Time(text.to_owned()), "{text}");
        }
        assert!(MaintenanceWindow::parse("220000+0100", "210000+0000").is_err());
    }
}
