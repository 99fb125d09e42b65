//! The messages of NBD: constants, and one function for each message that a server parses or builds. No I/O, no state.
//!
//! Source: `doc/proto.md` of the NetworkBlockDevice/nbd project. All numbers on the wire are big-endian.
//!
//! 1. Parsing is total: any bytes give a message or a [`Malformed`] that carries the offending number.
//! 2. The messages parsed here are well-formed, not yet allowed: `negotiate` and `transmission` decide that.

/// "NBDMAGIC", the first bytes that a client sees.
pub const HELLO_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT", which comes before the server's flags and before every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The magic before every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The magic before every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The magic before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The magic before a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the same bits in both directions.
pub mod handshake {
    /// Options other than EXPORT_NAME may be sent.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The 124 zeroes after EXPORT_NAME are left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Transmission flags: what an export can do.
pub mod export_flags {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Options of the handshake.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = (1 << 31) | 1;
    pub const ERR_INVALID: u32 = (1 << 31) | 3;
    pub const ERR_UNKNOWN: u32 = (1 << 31) | 6;
    pub const ERR_TOO_BIG: u32 = (1 << 31) | 9;
}

/// Kinds of information about an export.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of a request.
pub mod command_flags {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of chunks in a structured reply, and the flag of the last one.
pub mod chunk {
    pub const DONE: u16 = 1;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = (1 << 15) | 1;
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    BlockStatus,
    /// A number that this server does not know. It has no payload.
    Other(u16),
}

impl Command {
    fn parse(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Other(other),
        }
    }
}

/// The error numbers that a reply may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorNumber {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    TooLarge = 75,
    NotSupported = 95,
}

/// Bytes that are not the message they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("handshake flags {0:#x}, of which only 0x3 are known")]
    HandshakeFlags(u32),
    #[error("option magic {0:#018x}")]
    OptionMagic(u64),
    #[error("request magic {0:#010x}")]
    RequestMagic(u32),
    #[error("a request for an export does not fit its {0} bytes")]
    ExportRequest(usize),
    #[error("a request for metadata contexts does not fit its {0} bytes")]
    MetaRequest(usize),
    #[error("an export name of {0} bytes that are not UTF-8")]
    ExportName(usize),
}

/// The client's answer to the server's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    pub fixed_newstyle: bool,
    pub no_zeroes: bool,
}

/// The size of the client's flags.
pub const CLIENT_FLAGS_BYTES: usize = 4;

impl ClientFlags {
    /// # Errors
    /// For an unknown bit: the client expects what this server does not do.
    pub fn parse(bytes: &[u8; CLIENT_FLAGS_BYTES]) -> Result<Self, Malformed> {
        let flags = u32::from_be_bytes(*bytes);
        let (fixed, no_zeroes) = (u32::from(handshake::FIXED_NEWSTYLE), u32::from(handshake::NO_ZEROES));
        if flags & !(fixed | no_zeroes) != 0 {
            return Err(Malformed::HandshakeFlags(flags));
        }
        Ok(Self { fixed_newstyle: flags & fixed != 0, no_zeroes: flags & no_zeroes != 0 })
    }
}

/// The head of an option, before its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHead {
    pub option: u32,
    /// The number of bytes of data that follow, as the client wrote it: not checked.
    pub length: u32,
}

/// The size of an option head.
pub const OPTION_HEAD_BYTES: usize = 16;

impl OptionHead {
    /// # Errors
    /// For a wrong magic.
    pub fn parse(bytes: &[u8; OPTION_HEAD_BYTES]) -> Result<Self, Malformed> {
        let magic = u64_at(bytes, 0);
        if magic != OPTION_MAGIC {
            return Err(Malformed::OptionMagic(magic));
        }
        Ok(Self { option: u32_at(bytes, 8), length: u32_at(bytes, 12) })
    }
}

/// The data of INFO and GO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRequest<'a> {
    pub name: &'a str,
    /// The client asks for the name that the server uses.
    pub wants_name: bool,
}

impl<'a> ExportRequest<'a> {
    /// # Errors
    /// When the lengths inside do not add up to the whole, or the name is not UTF-8.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let misfit = Malformed::ExportRequest(bytes.len());
        let (length, rest) = bytes.split_first_chunk().ok_or(misfit)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| misfit)?;
        let (name, rest) = rest.split_at_checked(length).ok_or(misfit)?;
        let (count, kinds) = rest.split_first_chunk().ok_or(misfit)?;
        if kinds.len() != usize::from(u16::from_be_bytes(*count)) * 2 {
            return Err(misfit);
        }
        let wants_name = kinds.chunks_exact(2).any(|kind| kind == info::NAME.to_be_bytes());
        Ok(Self { name: export_name(name)?, wants_name })
    }
}

/// The data of EXPORT_NAME.
///
/// # Errors
/// When it is not UTF-8.
pub fn export_name(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::ExportName(bytes.len()))
}

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    pub flags: u16,
    pub command: Command,
    /// The client's own number for it, which the reply repeats.
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

/// The size of a request head.
pub const REQUEST_BYTES: usize = 28;

impl RequestHead {
    /// # Errors
    /// For a wrong magic: after it no byte of the client can be trusted to be a request.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, Malformed> {
        let magic = u32_at(bytes, 0);
        if magic != REQUEST_MAGIC {
            return Err(Malformed::RequestMagic(magic));
        }
        Ok(Self {
            flags: u16_at(bytes, 4),
            command: Command::parse(u16_at(bytes, 6)),
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u32_at(bytes, 24),
        })
    }
}

/// Returns the server's first message.
#[must_use]
pub fn hello() -> [u8; 18] {
    joined([&HELLO_MAGIC.to_be_bytes(), &OPTION_MAGIC.to_be_bytes(), &(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes()])
}

/// Returns the answer to EXPORT_NAME, without the 124 zeroes that some clients expect after it.
#[must_use]
pub fn export_name_reply(bytes: u64, flags: u16) -> [u8; 10] {
    joined([&bytes.to_be_bytes(), &flags.to_be_bytes()])
}

/// Appends one reply to an option.
///
/// # Panics
/// When `data` has 4 GiB or more.
pub fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    let length = u32::try_from(data.len()).expect("an option's reply is short");
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    for number in [option, kind, length] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(data);
}

/// Returns the data of an `option_reply::SERVER`: one export's name.
///
/// # Panics
/// When `name` has 4 GiB or more.
#[must_use]
pub fn server_entry(name: &str) -> Vec<u8> {
    let length = u32::try_from(name.len()).expect("an export's name is short");
    [&length.to_be_bytes(), name.as_bytes()].concat()
}

/// Returns the data of an `option_reply::INFO` of kind EXPORT.
#[must_use]
pub fn info_export(bytes: u64, flags: u16) -> [u8; 12] {
    joined([&info::EXPORT.to_be_bytes(), &bytes.to_be_bytes(), &flags.to_be_bytes()])
}

/// Returns the data of an `option_reply::INFO` of kind NAME.
#[must_use]
pub fn info_name(name: &str) -> Vec<u8> {
    [&info::NAME.to_be_bytes(), name.as_bytes()].concat()
}

/// Returns the data of an `option_reply::INFO` of kind BLOCK_SIZE; all in bytes.
#[must_use]
pub fn info_block_size(minimum: u32, preferred: u32, payload_max: u32) -> [u8; 14] {
    joined([&info::BLOCK_SIZE.to_be_bytes(), &minimum.to_be_bytes(), &preferred.to_be_bytes(), &payload_max.to_be_bytes()])
}

/// Returns a simple reply; a read's bytes follow where `error` is 0.
#[must_use]
pub fn simple_reply(cookie: u64, error: u32) -> [u8; 16] {
    joined([&SIMPLE_REPLY_MAGIC.to_be_bytes(), &error.to_be_bytes(), &cookie.to_be_bytes()])
}

/// Returns the head of a chunk of bytes found at `offset`; `bytes` of them follow.
///
/// # Panics
/// When `bytes` and the offset's 8 do not fit 32 bits.
#[must_use]
pub fn data_chunk(cookie: u64, last: bool, offset: u64, bytes: u32) -> [u8; 28] {
    let length = bytes.checked_add(8).expect("a chunk's length fits 32 bits");
    joined([&chunk_head(cookie, last, chunk::OFFSET_DATA, length), &offset.to_be_bytes()])
}

/// Returns a chunk that stands for `bytes` zeroes at `offset`.
#[must_use]
pub fn hole_chunk(cookie: u64, last: bool, offset: u64, bytes: u32) -> [u8; 32] {
    joined([&chunk_head(cookie, last, chunk::OFFSET_HOLE, 12), &offset.to_be_bytes(), &bytes.to_be_bytes()])
}

/// Returns the only chunk of a reply to BLOCK_STATUS.
///
/// # Panics
/// When `payload` has 4 GiB or more.
#[must_use]
pub fn status_chunk(cookie: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a reply is short");
    [&chunk_head(cookie, true, chunk::BLOCK_STATUS, length), payload].concat()
}

/// Returns the only chunk of a read that failed, without a text for humans.
#[must_use]
pub fn error_chunk(cookie: u64, error: ErrorNumber) -> [u8; 26] {
    joined([&chunk_head(cookie, true, chunk::ERROR, 6), &(error as u32).to_be_bytes(), &0_u16.to_be_bytes()])
}

fn chunk_head(cookie: u64, last: bool, kind: u16, length: u32) -> [u8; 20] {
    let flags = if last { chunk::DONE } else { 0 };
    joined([&CHUNK_MAGIC.to_be_bytes(), &flags.to_be_bytes(), &kind.to_be_bytes(), &cookie.to_be_bytes(), &length.to_be_bytes()])
}

/// Joins the fields; `N` is the sum of their lengths, otherwise the copy panics in every test that builds the message.
fn joined<const N: usize, const FIELDS: usize>(fields: [&[u8]; FIELDS]) -> [u8; N] {
    let mut out = [0; N];
    let mut at = 0;
    for field in fields {
        out[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    }
    assert_eq!(at, N);
    out
}

fn u16_at<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    (u32::from(u16_at(bytes, at)) << 16) | u32::from(u16_at(bytes, at + 2))
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    (u64::from(u32_at(bytes, at)) << 32) | u64::from(u32_at(bytes, at + 4))
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
