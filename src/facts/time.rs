//! Times that others have written.

use jiff::Timestamp;

/// No time that counts is later. What is added to it, all pauses and limits of the module, is still a time.
const LATEST: Timestamp = Timestamp::constant(253_000_000_000, 0);

/// A time as an object or a status tells it, which anybody may have written: at most the year 9987.
pub fn told(at: Timestamp) -> Timestamp {
    at.min(LATEST)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn something_can_be_added_to_every_time() {
        for at in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            let later = told(at) + SignedDuration::from_hours(24 * 365);
            assert!(later > told(at));
        }
        assert_eq!(told(Timestamp::UNIX_EPOCH), Timestamp::UNIX_EPOCH);
    }
}
