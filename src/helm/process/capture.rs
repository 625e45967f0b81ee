//! Bounded memory for what a process prints.

use tokio::io::{AsyncRead, AsyncReadExt};

const CHUNK: usize = 16 * 1024;

/// Which end of a too long output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Head,
    Tail,
}

/// Output of one pipe, cut to a number of bytes.
#[derive(Debug)]
pub(in crate::helm) struct Capture {
    keep: Keep,
    limit: usize,
    bytes: Vec<u8>,
    truncated: bool,
}

impl Capture {
    /// Keeps the first `limit` bytes: results are read from the start, and a cut one is of no use anyway.
    pub(super) fn head(limit: usize) -> Self {
        Self {
            keep: Keep::Head,
            limit,
            bytes: Vec::new(),
            truncated: false,
        }
    }

    /// Keeps the last `limit` bytes: helm's error stands at the end.
    pub(super) fn tail(limit: usize) -> Self {
        Self {
            keep: Keep::Tail,
            ..Self::head(limit)
        }
    }

    /// Reads until the pipe is closed, dropping what exceeds the limit, so that the writer never blocks.
    pub(super) async fn fill(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
            self.push(&chunk[..count]);
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        match self.keep {
            Keep::Head => {
                let room = self.limit - self.bytes.len();
                self.bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                self.truncated |= chunk.len() > room;
            }
            Keep::Tail => {
                self.bytes.extend_from_slice(chunk);
                // Cut only now and then: each cut moves the whole rest.
                if self.bytes.len() > 2 * self.limit {
                    self.cut_front();
                }
            }
        }
    }

    fn cut_front(&mut self) {
        let excess = self.bytes.len().saturating_sub(self.limit);
        self.truncated |= excess > 0;
        self.bytes.drain(..excess);
    }

    /// Ends the capture; its size is within the limit from here on.
    pub(super) fn finish(mut self) -> Self {
        self.cut_front();
        self
    }

    /// Whether something was left out.
    pub(in crate::helm) fn truncated(&self) -> bool {
        self.truncated
    }

    /// The kept output; bytes that are no UTF-8 become U+FFFD.
    pub(in crate::helm) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn captured(mut capture: Capture, input: &[u8]) -> (String, bool) {
        capture.fill(Some(input)).await;
        let capture = capture.finish();
        (capture.text(), capture.truncated())
    }

    #[tokio::test]
    async fn the_right_end_is_kept() {
        let text = "0123456789".repeat(10_000);
        let input = text.as_bytes();

        assert_eq!(captured(Capture::head(4), input).await, ("0123".to_owned(), true));
        assert_eq!(captured(Capture::tail(4), input).await, ("6789".to_owned(), true));
        assert_eq!(
            captured(Capture::head(100_000), input).await,
            (text.clone(), false)
        );
        assert_eq!(
            captured(Capture::tail(100_000), input).await,
            (text.clone(), false)
        );
        assert_eq!(
            captured(Capture::tail(99_999), input).await,
            (text[1..].to_owned(), true)
        );
        assert_eq!(captured(Capture::head(4), b"").await, (String::new(), false));
    }

    #[tokio::test]
    async fn memory_stays_near_the_limit() {
        let mut capture = Capture::tail(1000);
        for _ in 0..1000 {
            capture.push(&[b'x'; 700]);
            assert!(capture.bytes.len() <= 2 * 1000 + 700, "{}", capture.bytes.len());
        }
    }
}
