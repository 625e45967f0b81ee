//! Lists in sentences for users.

use std::fmt::Display;

/// As many are named.
const NAMED: usize = 3;

/// The first three, and how many more there are: `a, b, c and 2 more`.
pub fn first_few(all: impl ExactSizeIterator<Item = impl Display>) -> String {
    first(NAMED, all)
}

/// The first `count`, and how many more there are.
pub fn first(count: usize, all: impl ExactSizeIterator<Item = impl Display>) -> String {
    let more = all.len().saturating_sub(count);
    let named: Vec<_> = all.take(count).map(|one| one.to_string()).collect();
    let named = named.join(", ");
    if more > 0 {
        format!("{named} and {more} more")
    } else {
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_are_named() {
        let few = |all: &[&str]| first_few(all.iter());
        assert_eq!(few(&[]), "");
        assert_eq!(few(&["a", "b", "c"]), "a, b, c");
        assert_eq!(few(&["a", "b", "c", "d"]), "a, b, c and 1 more");
    }
}
