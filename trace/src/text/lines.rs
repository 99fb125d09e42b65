//! Reading lines of bounded length.

use super::Reason;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

/// The longest line that is accepted. The 32 hexadecimal digits for each 4 KiB of a request of 256 MiB take half of it.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// The lines of an input, counted.
pub struct Lines<R: Read> {
    input: BufReader<R>,
    file: Arc<str>,
    number: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(file: &str, input: R) -> Self {
        Self { input: BufReader::with_capacity(1 << 16, input), file: file.into(), number: 0, line: Vec::new() }
    }

    pub(super) fn file(&self) -> Arc<str> {
        Arc::clone(&self.file)
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line without its line break, or the reason why it cannot be read as text; none after the last line.
    pub(super) fn advance(&mut self) -> io::Result<Option<Result<&str, Reason>>> {
        self.line.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        if (&mut self.input).take(most).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line.len() > LINE_BYTES_MAX {
            self.skip_to_end_of_line()?;
            return Ok(Some(Err(format!("longer than {LINE_BYTES_MAX} bytes"))));
        }
        Ok(Some(std::str::from_utf8(&self.line).map_err(|error| format!("invalid UTF-8 at byte {}", error.valid_up_to() + 1))))
    }

    fn skip_to_end_of_line(&mut self) -> io::Result<()> {
        loop {
            let buffered = match self.input.fill_buf() {
                Ok(buffered) => buffered,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (skipped, is_end) = match buffered.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffered.len(), buffered.is_empty()),
            };
            self.input.consume(skipped);
            if is_end {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<Result<String, Reason>> {
        let mut lines = Lines::new("x", input);
        std::iter::from_fn(|| lines.advance().expect("memory can be read").map(|line| line.map(str::to_owned))).collect()
    }

    #[test]
    fn a_line_that_is_too_long_costs_one_line() {
        let mut input = vec![b'x'; LINE_BYTES_MAX + 100_000];
        input.extend_from_slice(b"\nnext\n\xff\nlast");
        let lines = all(&input);
        assert!(lines[0].as_ref().is_err_and(|reason| reason.contains("longer")));
        assert_eq!(lines[1], Ok("next".to_owned()));
        assert!(lines[2].as_ref().is_err_and(|reason| reason.contains("UTF-8")));
        assert_eq!(lines[3..], [Ok("last".to_owned())]);
    }

    #[test]
    fn the_longest_line_is_read() {
        let mut input = vec![b'x'; LINE_BYTES_MAX];
        input.push(b'\n');
        assert_eq!(all(&input).iter().map(|line| line.as_ref().map(String::len)).collect::<Vec<_>>(), [Ok(LINE_BYTES_MAX)]);
    }
}
