//! RESP2: commands as they come in, replies as they go out.

/// A command: its name, and its arguments.
pub type Parts = Vec<Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Number(i64),
    Text(Vec<u8>),
    Nothing,
    Status(String),
    /// With its code, and without the hyphen.
    Error(String),
    List(Vec<Reply>),
}

impl Reply {
    /// Of what is a count or a length here.
    pub(crate) fn count(count: usize) -> Reply {
        Reply::Number(i64::try_from(count).expect("memory ends before"))
    }

    pub(crate) fn text_or_nothing(text: Option<&[u8]>) -> Reply {
        text.map_or(Reply::Nothing, |text| Reply::Text(text.to_vec()))
    }

    pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Reply {
        Reply::List(texts.into_iter().map(|text| Reply::Text(text.to_vec())).collect())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Reply::Number(number) => line(into, b':', &number.to_string()),
            Reply::Text(text) => {
                line(into, b'$', &text.len().to_string());
                into.extend_from_slice(text);
                into.extend_from_slice(b"\r\n");
            }
            Reply::Nothing => line(into, b'$', "-1"),
            Reply::Status(text) => line(into, b'+', &one_line(text)),
            Reply::Error(text) => line(into, b'-', &one_line(text)),
            Reply::List(replies) => {
                line(into, b'*', &replies.len().to_string());
                replies.iter().for_each(|reply| reply.write(into));
            }
        }
    }
}

/// A line break would be the reply's end.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn line(into: &mut Vec<u8>, kind: u8, rest: &str) {
    into.push(kind);
    into.extend_from_slice(rest.as_bytes());
    into.extend_from_slice(b"\r\n");
}

/// Takes apart what a client has packed.
///
/// # Panics
/// If it is not whole commands: a client of ours writes nothing else.
pub fn commands(packed: &[u8]) -> Vec<Parts> {
    let mut rest = packed;
    let mut commands = Vec::new();
    while !rest.is_empty() {
        let parts = header(&mut rest, b'*');
        let part = |_| {
            let len = header(&mut rest, b'$');
            let (part, after) = rest.split_at_checked(len).expect("a part is as long as it says");
            rest = after.strip_prefix(b"\r\n").expect("a part ends with its line");
            part.to_vec()
        };
        commands.push((0..parts).map(part).collect());
    }
    commands
}

fn header(rest: &mut &[u8], kind: u8) -> usize {
    let end = rest.windows(2).position(|two| two == b"\r\n").expect("a header is a line");
    let (line, after) = rest.split_at(end);
    *rest = &after[2..];
    let digits = line.strip_prefix(&[kind]).expect("a command is an array of bulk strings");
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).expect("a header has a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_commands_are_taken_apart_whatever_bytes_they_carry() {
        let packed = b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n$1\r\n*1\r\n$0\r\n\r\n";
        let expected: [Parts; 2] = [vec![b"GET".to_vec(), b"\r\n$1".to_vec()], vec![Vec::new()]];
        assert_eq!(commands(packed), expected);
    }

    #[test]
    fn an_error_is_one_line() {
        assert_eq!(Reply::Error("ERR a\r\nb".into()).bytes(), b"-ERR a  b\r\n");
    }
}
