//! The answers to requests: the decisions of the transmission phase, apart from sockets and threads.
//!
//! 1. A request reaches the target only when it covers whole sectors within the export, with flags that its command takes.
//! 2. A refused request keeps the connection, as long as the payload that follows it can be read and thrown away.
//! 3. A read is answered by exactly the bytes that it asked for, or by an error.

use super::meta;
use super::negotiate::{Agreement, Export, PAYLOAD_MAX};
use super::protocol::{self, Command, ErrorNumber, RequestHead, command_flags};
use super::replies::Replies;
use onefold_engine::interface::{Failure, Op, Reply, Segment};
use onefold_engine::units::{SECTOR_BYTES, count};

/// The cost of a request against its connection's limit besides its payload, in bytes: about the memory that it takes.
const REQUEST_COST: u64 = 512;

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Serve {
        op: Op,
        fua: bool,
    },
    /// Answer with the error, and throw away the `payload` bytes that follow.
    Refuse {
        error: ErrorNumber,
        payload: u32,
    },
    /// Answer with the error and close.
    Close {
        error: ErrorNumber,
    },
    /// The client ends the connection in order.
    Disconnect,
}

/// Decides on a request.
#[must_use]
pub fn judge(head: &RequestHead, export: &Export, agreement: Agreement) -> Decision {
    let structured = agreement.structured;
    let decision = match head.command {
        Command::Disconnect => return Decision::Disconnect,
        Command::Other(_) => Err(ErrorNumber::Invalid),
        Command::BlockStatus if !agreement.allocation => Err(ErrorNumber::Invalid),
        Command::BlockStatus => check(head, export, structured).map(|()| Op::Extents),
        Command::Read => check(head, export, structured).map(|()| Op::Read),
        Command::Write => check(head, export, structured).map(|()| Op::Write),
        Command::Flush => check(head, export, structured).map(|()| Op::Flush),
        Command::Trim => check(head, export, structured).map(|()| Op::Discard),
        Command::WriteZeroes => check(head, export, structured).map(|()| Op::WriteZeroes),
    };
    match decision {
        Ok(op) => Decision::Serve { op, fua: head.flags & command_flags::FUA != 0 && !matches!(op, Op::Read | Op::Extents) },
        Err(error) if head.command != Command::Write => Decision::Refuse { error, payload: 0 },
        Err(error) if head.length > PAYLOAD_MAX => Decision::Close { error },
        Err(error) => Decision::Refuse { error, payload: head.length },
    }
}

fn check(head: &RequestHead, export: &Export, structured: bool) -> Result<(), ErrorNumber> {
    let own_flags = match head.command {
        Command::Read if structured => command_flags::DF,
        Command::WriteZeroes => command_flags::NO_HOLE | command_flags::FAST_ZERO,
        Command::BlockStatus => command_flags::REQ_ONE,
        _ => 0,
    };
    // The protocol makes servers take FUA on every command.
    if head.flags & !(own_flags | command_flags::FUA) != 0 {
        return Err(ErrorNumber::Invalid);
    }
    if head.command == Command::Flush {
        return if head.offset == 0 && head.length == 0 { Ok(()) } else { Err(ErrorNumber::Invalid) };
    }
    if export.read_only && !matches!(head.command, Command::Read | Command::BlockStatus) {
        return Err(ErrorNumber::NotPermitted);
    }
    let is_whole = head.command == Command::Read && head.flags & command_flags::DF != 0;
    let longest = if is_whole { export.piece_max } else { PAYLOAD_MAX };
    if head.length > longest {
        match head.command {
            // A client that knows structured replies expects this error and asks again for less.
            Command::Read if structured => return Err(ErrorNumber::TooLarge),
            Command::Read | Command::Write => return Err(ErrorNumber::Invalid),
            _ => {}
        }
    }
    let length = u64::from(head.length);
    if length == 0 || length % SECTOR_BYTES != 0 || head.offset % SECTOR_BYTES != 0 {
        return Err(ErrorNumber::Invalid);
    }
    if head.offset.checked_add(length).is_none_or(|end| end > export.bytes) {
        let grows = matches!(head.command, Command::Write | Command::WriteZeroes);
        return Err(if grows { ErrorNumber::NoSpace } else { ErrorNumber::Invalid });
    }
    // The target does not show whether zeroing beats writing; this error is the protocol's answer in that case.
    if head.flags & command_flags::FAST_ZERO != 0 {
        return Err(ErrorNumber::NotSupported);
    }
    Ok(())
}

/// A part of a read or write, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub offset: u64,
    pub length: u32,
    pub is_first: bool,
    pub is_last: bool,
}

/// The facts of a request, or of a piece of one, that are kept until its answer.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    cookie: u64,
    piece: Piece,
    form: Form,
}

/// The shape of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// No data.
    Plain,
    /// A read's data after a simple reply.
    Bytes,
    /// A read's data in chunks, with holes in chunks of their own.
    Chunks,
    /// A read's data in one chunk.
    OneChunk,
    /// Extents in one chunk.
    Extents { is_one: bool },
}

impl Form {
    const fn is_read(self) -> bool {
        matches!(self, Self::Bytes | Self::Chunks | Self::OneChunk)
    }
}

impl Ticket {
    #[must_use]
    pub fn new(head: &RequestHead, agreement: Agreement) -> Self {
        Self::of_piece(head, Piece { offset: head.offset, length: head.length, is_first: true, is_last: true }, agreement)
    }

    /// Makes the ticket for one piece of the read `head`: its pieces are to be answered in order, up to the first that fails.
    #[must_use]
    pub fn of_piece(head: &RequestHead, piece: Piece, agreement: Agreement) -> Self {
        let form = match head.command {
            Command::Read if !agreement.structured => Form::Bytes,
            Command::Read if head.flags & command_flags::DF != 0 => Form::OneChunk,
            Command::Read => Form::Chunks,
            Command::BlockStatus if agreement.structured => Form::Extents { is_one: head.flags & command_flags::REQ_ONE != 0 },
            _ => Form::Plain,
        };
        Self { cookie: head.cookie, piece, form }
    }

    /// Returns the cost of a request or piece with this many bytes of data against its connection's limit, from its arrival until its reply
    /// has left, in bytes.
    #[must_use]
    pub fn cost(bytes: u32) -> u64 {
        REQUEST_COST + u64::from(bytes)
    }

    /// Appends the answer to `out`; returns whether it is a success.
    pub fn answer(&self, reply: Reply, out: &mut Replies) -> bool {
        let error = match reply {
            Reply::Failed(failure) => failure.into(),
            Reply::Done if self.form == Form::Plain => {
                out.head(&protocol::simple_reply(self.cookie, 0));
                return true;
            }
            Reply::Data(segments) if self.form.is_read() && self.is_whole(&segments) => {
                self.data(segments, out);
                return true;
            }
            Reply::Extents(extents) => {
                let Form::Extents { is_one } = self.form else { return self.misfit(out) };
                let Some(chunk) = meta::status_chunk(self.cookie, self.piece.length, is_one, &extents) else { return self.misfit(out) };
                out.head(&chunk);
                return true;
            }
            Reply::Done | Reply::Data(_) => return self.misfit(out),
        };
        self.refuse(error, out);
        false
    }

    fn misfit(&self, out: &mut Replies) -> bool {
        tracing::error!(?self, "the target's answer does not fit the request");
        self.refuse(ErrorNumber::Io, out);
        false
    }

    /// Appends an error reply to `out`: nothing where a simple reply has begun.
    pub fn refuse(&self, error: ErrorNumber, out: &mut Replies) {
        if matches!(self.form, Form::Chunks | Form::OneChunk | Form::Extents { .. }) {
            out.head(&protocol::error_chunk(self.cookie, error));
        } else if self.piece.is_first {
            out.head(&protocol::simple_reply(self.cookie, error as u32));
        }
    }

    fn is_whole(&self, segments: &[Segment]) -> bool {
        segments.iter().map(bytes_of).sum::<u64>() == u64::from(self.piece.length) && segments.iter().all(|s| bytes_of(s) > 0)
    }

    fn data(&self, segments: Vec<Segment>, out: &mut Replies) {
        match self.form {
            Form::Chunks => return self.chunks(segments, out),
            Form::OneChunk => out.head(&protocol::data_chunk(self.cookie, true, self.piece.offset, self.piece.length)),
            Form::Bytes if !self.piece.is_first => {}
            Form::Bytes | Form::Plain | Form::Extents { .. } => out.head(&protocol::simple_reply(self.cookie, 0)),
        }
        for segment in segments {
            out.segment(segment);
        }
    }

    /// Appends one chunk for each range of data or of zeroes, however many segments it came in.
    fn chunks(&self, segments: Vec<Segment>, out: &mut Replies) {
        let end = self.piece.offset + u64::from(self.piece.length);
        let mut at = self.piece.offset;
        let mut rest = segments.into_iter();
        while let Some(first) = rest.as_slice().first() {
            let hole = is_hole(first);
            let stretch = rest.as_slice().iter().take_while(|s| is_hole(s) == hole);
            let (many, bytes) = stretch.fold((0, 0), |(n, bytes), s| (n + 1, bytes + bytes_of(s)));
            let length = u32::try_from(bytes).expect("a stretch is no longer than its read");
            let last = self.piece.is_last && at + bytes == end;
            if hole {
                out.head(&protocol::hole_chunk(self.cookie, last, at, length));
                rest.by_ref().take(many).for_each(drop);
            } else {
                out.head(&protocol::data_chunk(self.cookie, last, at, length));
                rest.by_ref().take(many).for_each(|segment| out.segment(segment));
            }
            at += bytes;
        }
    }
}

fn is_hole(segment: &Segment) -> bool {
    matches!(segment, Segment::Zeroes { .. })
}

fn bytes_of(segment: &Segment) -> u64 {
    match segment {
        Segment::Zeroes { bytes } => *bytes,
        Segment::Data { bytes, .. } => count(*bytes),
    }
}

impl From<Failure> for ErrorNumber {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io => Self::Io,
            Failure::NoSpace | Failure::Full => Self::NoSpace,
            Failure::ReadOnly => Self::NotPermitted,
            Failure::Invalid => Self::Invalid,
        }
    }
}
