//! Pauses between tries that grow.

use jiff::SignedDuration;

/// The pause after `tries` before this one: `first`, doubled with each of them up to `longest`, less up to a fifth by `jitter`, a number
/// from 0 to 1. So the longest stays the longest, and what was begun together is not tried again together.
pub fn backoff(first: SignedDuration, longest: SignedDuration, tries: u32, jitter: f64) -> SignedDuration {
    let doubled = first.saturating_mul(1 << tries.min(16)).min(longest);
    doubled.mul_f64(jitter.clamp(0.0, 1.0).mul_add(0.2, 0.8))
}
