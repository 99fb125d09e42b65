//! Mutated texts of each form: the property of the fuzz targets, on mutations of valid lines.

use onefold_trace::text::Records;
use onefold_trace::text::blkparse::Action;
use onefold_trace::text::detect::FormName;
use onefold_trace::text::exercise::exercise;
use proptest::prelude::*;

const SOUND: [(FormName, &str); 6] = [
    (
        FormName::Recorded,
        "#x\n0\tF\t0\t0\t-\t-\t-\t\n9\tW\t27\t2\tM\tFWFS\tmkfs/ext4/17\t620f0b67a91f7f74bf7210d53f4eb2d0\n9\tM\t0\t0\t-\t-\t-\trun\n\
         10\tR\t5\t5\t-\tRA\t-\t\n11\tZ\t801\t512\t-\t-\tx/-\t\n",
    ),
    (
        FormName::Fiu,
        "8996 20782 gz ip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n8999 4 x 9 1 W 6 0 620f0b67a91f7f74151bc5be745b7110\n",
    ),
    (FormName::FiuHomes, "1 2 x 8 2 W 8 1 bf619eac0cdf3f68d496ea9344137e8b56f11b711d91a065a2b6458eca924523\n"),
    (
        FormName::Mobile,
        "7.430000743 \tR\t     1548752\t         8\t       744\t       Binder_5\tfb0ece031db8f58df6849c2211df8c5a\n\
         8.5 W 8 16 1 a b 620f0b67a91f7f74151bc5be745b7110-56f11b711d91a065a2b6458eca924523\n",
    ),
    (
        FormName::Blkparse,
        "  8,0    3        2     0.000000500   697  Q   W 223490 + 8 [kjournald]\n\
         \x20 8,0    3        3     0.000002000   697  Q FWFS 16 + 8 [j d]\n\
         8,0    3        4     0.000003000   697  Q FWS [x]\n  8,0    3        7     1.000005000     1  Q   D 8 + 65536 [y]\nCPU3 (8,0):\n",
    ),
    (
        FormName::Csv,
        "#onefold-trace version=1 algorithm=md5 width=2 clock=a%20b gaps=[]\n\
         time_ns,op,fua,offset,length,process,note,fingerprints,compressed\n\
         7,write,true,4096,12288,\"a, \"\"b\"\"\",,0 0102 ?,? 192 ?\n8,flush,,0,0,,\"\",,\n9,mark,false,0,0,,run,,\n",
    ),
];

/// Generates a mutation: a position, the number of bytes to remove there, and the bytes to insert.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, Vec<u8>)> {
    let bytes = prop_oneof![
        4 => Just(Vec::new()),
        4 => prop::sample::select(b"0159WRFDQ \t\n,.-+?[]\"#/=%".to_vec()).prop_map(|byte| vec![byte]),
        1 => prop::collection::vec(any::<u8>(), 1..4),
        1 => Just("\u{a0}".as_bytes().to_vec()),
        1 => Just(b"18446744073709551615".to_vec()),
    ];
    (any::<prop::sample::Index>(), 0usize..3, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn accepted_text_is_read_back(form in 0..SOUND.len(), changes in prop::collection::vec(change(), 0..6)) {
        let (form, sound) = SOUND[form];
        let mut text = sound.as_bytes().to_vec();
        for (at, taken, put) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + taken).min(text.len());
            text.splice(at..end, put);
        }
        exercise(form, &text);
    }
}

#[test]
fn the_sound_lines_are_sound() {
    for (form, sound) in SOUND {
        let records: Vec<_> = Records::new(form.form(Action::Queued), "sound", sound.as_bytes()).collect();
        let malformed: Vec<_> = records.iter().filter_map(|record| record.as_ref().err()).collect();
        assert!(malformed.is_empty() && !records.is_empty(), "{form}: {malformed:?}");
    }
}
