//! A JSON object as programs write it, read in one pass: the body that comes with each order of a rush.
//!
//! It has texts without escapes, whole numbers, objects, and no line ends. Whatever else there is, and whatever is no JSON,
//! is left to the parser: `None` says nothing of a body. Must not: read anything in another way than the parser does.

use super::Number;

/// Any number of so many digits is one that the parser reads as a [`Number`], too.
const DIGITS_MAX: usize = 18;

/// A place in a body.
#[derive(Debug)]
pub(in crate::http) struct Plain<'a> {
    body: &'a str,
    at: usize,
}

impl<'a> Plain<'a> {
    /// Looks at all of it once for what ends a text otherwise than a quote does.
    pub(in crate::http) fn of(body: &'a [u8]) -> Option<Plain<'a>> {
        // Written as one pass without branches, which the compiler turns into vector instructions.
        let odd = body.iter().fold(false, |odd, byte| odd | (*byte == b'\\') | (*byte < b' '));
        if odd { None } else { Some(Plain { body: std::str::from_utf8(body).ok()?, at: 0 }) }
    }

    /// An object: `read` reads the value of each name.
    pub(in crate::http) fn object(
        &mut self,
        mut read: impl FnMut(&mut Plain<'a>, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let quoted = self.text()?;
            self.take(b':')?;
            read(self, &quoted[1..quoted.len() - 1])?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    /// A text, with its quotes.
    pub(in crate::http) fn text(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let begun = self.at - 1;
        self.at += self.rest().iter().position(|byte| *byte == b'"')? + 1;
        Some(&self.body[begun..self.at])
    }

    pub(in crate::http) fn number(&mut self) -> Option<Number> {
        self.skip_blanks();
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).take(DIGITS_MAX + 1).count();
        if digits == 0 || digits > DIGITS_MAX || (digits > 1 && rest[0] == b'0') {
            return None;
        }
        self.at += digits;
        let number = rest[..digits].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        Some(Number(number))
    }

    /// A text or a number that nobody reads.
    pub(in crate::http) fn pass_over(&mut self) -> Option<()> {
        self.text().map(|_text| ()).or_else(|| self.number().map(|_number| ()))
    }

    /// Nothing follows.
    pub(in crate::http) fn end(mut self) -> Option<()> {
        self.skip_blanks();
        self.rest().is_empty().then_some(())
    }

    /// The next byte that is no blank, if it is this one.
    fn take(&mut self, wanted: u8) -> Option<()> {
        self.skip_blanks();
        let is_wanted = self.rest().first() == Some(&wanted);
        self.at += usize::from(is_wanted);
        is_wanted.then_some(())
    }

    fn skip_blanks(&mut self) {
        while self.rest().first() == Some(&b' ') {
            self.at += 1;
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.body.as_bytes()[self.at..]
    }
}

/// Puts what a name says where it belongs. `None`: the name was there before.
pub(in crate::http) fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}
