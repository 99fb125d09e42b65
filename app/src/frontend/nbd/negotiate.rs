//! The handshake (fixed newstyle): the client names an export and learns what it can do.
//!
//! 1. A client that breaks framing gets an error where the protocol has one, and is disconnected.
//! 2. No length that a client sends becomes an allocation above [`OPTION_BYTES_MAX`].
//! 3. Unknown options are refused by ERR_UNSUP, and the handshake goes on.

use super::meta::{self, MetaRequest};
use super::protocol::{self, ClientFlags, ExportRequest, Malformed, OptionHead, export_flags, option, option_reply};
use std::io::{self, Read, Write};

/// The longest option data that is read. Names have at most 4096 bytes by the protocol.
pub const OPTION_BYTES_MAX: u32 = 8 << 10;
/// The longest option data that is read and thrown away for a client's sake.
const OPTION_SKIP_MAX: u32 = 1 << 20;
/// The most options in one handshake.
const OPTIONS_MAX: usize = 256;
/// The longest read or write that is served, in bytes: the size that clients assume that do not ask. It is also the longest payload of a
/// refused write that is read and thrown away.
pub const PAYLOAD_MAX: u32 = 32 << 20;
/// The unit of a request that works best, in bytes.
pub const PREFERRED_BYTES: u32 = 4096;

/// The export: the volume that is served.
#[derive(Clone, Debug)]
pub struct Export {
    pub name: String,
    pub bytes: u64,
    /// The smallest unit of a request that clients learn of, in bytes.
    pub sector_bytes: u32,
    /// The largest read or write that the target takes at once, in bytes: whole blocks. Longer ones are served in pieces.
    pub piece_max: u32,
    pub read_only: bool,
}

/// The agreement of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    pub structured: bool,
    /// The client may ask for extents. Only with structured replies.
    pub allocation: bool,
}

/// The reason why a handshake ended without an agreement.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the client left: {0}")]
    Gone(#[from] io::Error),
    #[error("the client sent {0}")]
    Malformed(#[from] Malformed),
    #[error("the client sent an option of {0} bytes")]
    TooLong(u32),
    #[error("the client sent more than {OPTIONS_MAX} options")]
    TooMany,
    #[error("the client asked for an export that is not served here")]
    Unknown,
    #[error("the client sent option {0} without having agreed to fixed newstyle")]
    NotFixed(u32),
}

impl Export {
    /// Returns the transmission flags.
    #[must_use]
    pub fn flags(&self, structured: bool) -> u16 {
        let mut flags = export_flags::HAS_FLAGS
            | export_flags::SEND_FLUSH
            | export_flags::SEND_FUA
            | export_flags::SEND_TRIM
            | export_flags::SEND_WRITE_ZEROES
            | export_flags::SEND_FAST_ZERO
            | export_flags::CAN_MULTI_CONN;
        if self.read_only {
            flags |= export_flags::READ_ONLY;
        }
        if structured {
            flags |= export_flags::SEND_DF;
        }
        flags
    }

    /// The empty name means the default export: this one.
    fn is(&self, name: &str) -> bool {
        name.is_empty() || name == self.name
    }
}

/// Leads the handshake. `None`: the client changed its mind and left in order.
///
/// # Errors
/// When the client is gone or must go; it has got the reason where the protocol can carry it.
pub fn negotiate(stream: &mut (impl Read + Write), export: &Export) -> Result<Option<Agreement>, Refusal> {
    stream.write_all(&protocol::hello())?;
    let mut flags = [0; protocol::CLIENT_FLAGS_BYTES];
    stream.read_exact(&mut flags)?;
    let flags = ClientFlags::parse(&flags)?;

    let mut handshake = Handshake { stream, export, flags, agreed: Agreement::default() };
    for _ in 0..OPTIONS_MAX {
        match handshake.option()? {
            Step::Next => {}
            Step::Serve => return Ok(Some(handshake.agreed)),
            Step::Leave => return Ok(None),
        }
    }
    Err(Refusal::TooMany)
}

enum Step {
    Next,
    Serve,
    Leave,
}

struct Handshake<'a, S> {
    stream: &'a mut S,
    export: &'a Export,
    flags: ClientFlags,
    agreed: Agreement,
}

impl<S: Read + Write> Handshake<'_, S> {
    fn option(&mut self) -> Result<Step, Refusal> {
        let mut head = [0; protocol::OPTION_HEAD_BYTES];
        self.stream.read_exact(&mut head)?;
        let OptionHead { option: number, length } = OptionHead::parse(&head)?;
        if number != option::EXPORT_NAME && !self.flags.fixed_newstyle {
            return Err(Refusal::NotFixed(number));
        }
        if length > OPTION_BYTES_MAX {
            return self.too_long(number, length);
        }
        let mut data = vec![0; usize::try_from(length).expect("checked above")];
        self.stream.read_exact(&mut data)?;
        match number {
            option::EXPORT_NAME => self.export_name(&data),
            option::GO | option::INFO => self.describe(number, &data),
            option::ABORT => {
                // Some clients have closed by now; they do not miss the answer.
                let _ = self.reply(number, option_reply::ACK, &[]);
                Ok(Step::Leave)
            }
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                self.reply(number, option_reply::ERR_INVALID, b"this option has no data")
            }
            option::LIST => {
                let entry = protocol::server_entry(&self.export.name);
                self.replies(number, &[(option_reply::SERVER, &entry), (option_reply::ACK, &[])])
            }
            option::STRUCTURED_REPLY => {
                self.agreed.structured = true;
                self.reply(number, option_reply::ACK, &[])
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(number, &data),
            option::STARTTLS => self.reply(number, option_reply::ERR_UNSUP, b"no TLS here: only local clients are served"),
            _ => self.reply(number, option_reply::ERR_UNSUP, b"this option is not known here"),
        }
    }

    /// Handles EXPORT_NAME, which has no error reply: an unknown name ends the connection.
    fn export_name(&mut self, data: &[u8]) -> Result<Step, Refusal> {
        if !self.export.is(protocol::export_name(data)?) {
            return Err(Refusal::Unknown);
        }
        let mut out = protocol::export_name_reply(self.export.bytes, self.export.flags(self.agreed.structured)).to_vec();
        if !self.flags.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        self.stream.write_all(&out)?;
        Ok(Step::Serve)
    }

    fn describe(&mut self, number: u32, data: &[u8]) -> Result<Step, Refusal> {
        let Ok(request) = ExportRequest::parse(data) else {
            return self.reply(number, option_reply::ERR_INVALID, b"the lengths in this request do not add up");
        };
        if !self.export.is(request.name) {
            return self.reply(number, option_reply::ERR_UNKNOWN, b"no export of that name here");
        }
        let export = protocol::info_export(self.export.bytes, self.export.flags(self.agreed.structured));
        let sizes = protocol::info_block_size(self.export.sector_bytes, PREFERRED_BYTES.max(self.export.sector_bytes), PAYLOAD_MAX);
        let name = protocol::info_name(&self.export.name);
        let mut replies: Vec<(u32, &[u8])> = vec![(option_reply::INFO, &export), (option_reply::INFO, &sizes)];
        if request.wants_name {
            replies.push((option_reply::INFO, &name));
        }
        replies.push((option_reply::ACK, &[]));
        self.replies(number, &replies)?;
        Ok(if number == option::GO { Step::Serve } else { Step::Next })
    }

    /// Lists or sets metadata contexts. Setting some takes earlier ones back.
    fn contexts(&mut self, number: u32, data: &[u8]) -> Result<Step, Refusal> {
        self.agreed.allocation &= number != option::SET_META_CONTEXT;
        let Ok(request) = MetaRequest::parse(number, data) else {
            return self.reply(number, option_reply::ERR_INVALID, b"the lengths in this request do not add up");
        };
        if !self.agreed.structured {
            return self.reply(number, option_reply::ERR_INVALID, b"structured replies come first");
        }
        if !self.export.is(request.export) {
            return self.reply(number, option_reply::ERR_UNKNOWN, b"no export of that name here");
        }
        self.agreed.allocation |= request.wants_allocation && number == option::SET_META_CONTEXT;
        let context = meta::context();
        let found = request.wants_allocation.then_some((option_reply::META_CONTEXT, &context[..]));
        self.replies(number, &found.into_iter().chain([(option_reply::ACK, &[][..])]).collect::<Vec<_>>())
    }

    fn too_long(&mut self, number: u32, length: u32) -> Result<Step, Refusal> {
        if length > OPTION_SKIP_MAX || number == option::EXPORT_NAME {
            if number != option::EXPORT_NAME {
                self.reply(number, option_reply::ERR_TOO_BIG, b"this option is far too long")?;
            }
            return Err(Refusal::TooLong(length));
        }
        let skipped = io::copy(&mut Read::by_ref(self.stream).take(u64::from(length)), &mut io::sink())?;
        if skipped < u64::from(length) {
            return Err(Refusal::Gone(io::ErrorKind::UnexpectedEof.into()));
        }
        self.reply(number, option_reply::ERR_TOO_BIG, b"this option is too long")
    }

    fn reply(&mut self, number: u32, kind: u32, data: &[u8]) -> Result<Step, Refusal> {
        self.replies(number, &[(kind, data)])
    }

    fn replies(&mut self, number: u32, replies: &[(u32, &[u8])]) -> Result<Step, Refusal> {
        let mut out = Vec::new();
        for (kind, data) in replies {
            protocol::option_reply(&mut out, number, *kind, data);
        }
        self.stream.write_all(&out)?;
        Ok(Step::Next)
    }
}
