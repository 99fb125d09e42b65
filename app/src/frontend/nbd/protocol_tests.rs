//! Tests of every message against bytes written down by hand.

use super::*;

/// Parses bytes as `doc/proto.md` writes them, with blanks between fields.
fn wire(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn what_the_server_says_is_what_the_protocol_says() {
    assert_eq!(hello().to_vec(), wire("4e42444d41474943 49484156454f5054 0003"));
    assert_eq!(export_name_reply(0x10_0000, 0x96d).to_vec(), wire("0000000000100000 096d"));
    let mut reply = Vec::new();
    option_reply(&mut reply, option::LIST, option_reply::SERVER, &server_entry("ab"));
    assert_eq!(reply, wire("0003e889045565a9 00000003 00000002 00000006 00000002 6162"));
    reply.clear();
    option_reply(&mut reply, 0xfeed, option_reply::ERR_UNSUP, b"");
    assert_eq!(reply, wire("0003e889045565a9 0000feed 80000001 00000000"));
    assert_eq!(info_export(0x10_0000, 0x96d).to_vec(), wire("0000 0000000000100000 096d"));
    assert_eq!(info_name("ab"), wire("0001 6162"));
    assert_eq!(info_block_size(512, 4096, 1 << 20).to_vec(), wire("0003 00000200 00001000 00100000"));
    assert_eq!(simple_reply(0x0102, ErrorNumber::NoSpace as u32).to_vec(), wire("67446698 0000001c 0000000000000102"));
    assert_eq!(data_chunk(1, false, 4096, 512).to_vec(), wire("668e33ef 0000 0001 0000000000000001 00000208 0000000000001000"));
    assert_eq!(hole_chunk(1, true, 4096, 512).to_vec(), wire("668e33ef 0001 0002 0000000000000001 0000000c 0000000000001000 00000200"));
    assert_eq!(error_chunk(1, ErrorNumber::Io).to_vec(), wire("668e33ef 0001 8001 0000000000000001 00000006 00000005 0000"));
}

#[test]
fn what_a_client_says_is_read_field_by_field() {
    let both = ClientFlags { fixed_newstyle: true, no_zeroes: true };
    assert_eq!(ClientFlags::parse(&[0, 0, 0, 3]), Ok(both));
    assert_eq!(ClientFlags::parse(&[0, 0, 0, 2]), Ok(ClientFlags { fixed_newstyle: false, ..both }));
    assert_eq!(ClientFlags::parse(&[0, 0, 1, 0]), Err(Malformed::HandshakeFlags(256)));

    let head = wire("49484156454f5054 00000007 ffffffff").try_into().unwrap();
    assert_eq!(OptionHead::parse(&head), Ok(OptionHead { option: option::GO, length: u32::MAX }));
    let head = wire("49484156454f5053 00000007 00000000").try_into().unwrap();
    assert_eq!(OptionHead::parse(&head), Err(Malformed::OptionMagic(0x4948_4156_454f_5053)));

    let request = ExportRequest::parse(b"\0\0\0\x02ab\0\x02\0\x03\0\x01");
    assert_eq!(request, Ok(ExportRequest { name: "ab", wants_name: true }));
    assert_eq!(ExportRequest::parse(b"\0\0\0\0\0\0"), Ok(ExportRequest { name: "", wants_name: false }));
    assert_eq!(ExportRequest::parse(b"\xff\xff\xff\xff\0\0"), Err(Malformed::ExportRequest(6)));
    assert_eq!(ExportRequest::parse(b"\0\0\0\x01\xff\0\0"), Err(Malformed::ExportName(1)));

    let bytes = wire("25609513 0013 0006 0123456789abcdef 00000000000f0000 00001000");
    let expected = RequestHead {
        flags: command_flags::FUA | command_flags::NO_HOLE | command_flags::FAST_ZERO,
        command: Command::WriteZeroes,
        cookie: 0x0123_4567_89ab_cdef,
        offset: 0xf_0000,
        length: 4096,
    };
    assert_eq!(RequestHead::parse(&bytes.clone().try_into().unwrap()), Ok(expected));
    let commands = [0, 1, 2, 3, 4, 6, 5, 9].map(Command::parse);
    let (read, write, leave, flush, trim) = (Command::Read, Command::Write, Command::Disconnect, Command::Flush, Command::Trim);
    assert_eq!(commands, [read, write, leave, flush, trim, Command::WriteZeroes, Command::Other(5), Command::Other(9)]);
    let historic = [&wire("12560953"), &bytes[4..]].concat().try_into().unwrap();
    assert_eq!(RequestHead::parse(&historic), Err(Malformed::RequestMagic(0x1256_0953)));
}
