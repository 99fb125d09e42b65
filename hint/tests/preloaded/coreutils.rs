//! Coreutils: results, output, exit codes and descriptors are the same with the library and without.

use crate::rig::{Run, directory_of_files, has, skipped};
use crate::server::{Server, State};

/// Commands that open files in all ways that coreutils have, some of which fail.
const COMMANDS: [&str; 34] = [
    "cp a copy && cp -p a b -t . ; cp a b",
    "cp --reflink=auto a x && cp --sparse=always b y && cp -r . /nowhere/x",
    "dd if=a of=out bs=4096 status=none && dd if=a of=out bs=512 seek=3 conv=notrunc,fsync status=none",
    "dd if=a of=out oflag=append conv=notrunc bs=1k count=3 status=none; dd if=missing of=x status=none",
    "dd if=a of=out iflag=fullblock,noatime oflag=sync bs=7k status=none; dd if=a of=. status=none",
    "sort a b c -o a",
    "sort -S 20k --parallel=1 -T . a b c | md5sum",
    "sort -m a b c | wc -l; sort -c a",
    "cat a b c >all; cat a missing - <b; cat . ",
    "tee t1 t2 <a | tail -n 3; tee -a t1 <b >/dev/null; tee /nowhere/x <a | wc -c",
    "touch a new; touch -c missing2; touch -d 2001-01-01 b; touch /nowhere/x",
    "tail -n 5 a; tail -c 100 b c; tail -n +2990 a; tail missing",
    "timeout 0.3 tail -n 1 -f a; head -n 3 a b; head -c -60000 a",
    "split -l 500 a part-; split -n 3 b piece-; csplit -s c 100 200",
    "wc a b c; wc --files0-from=/dev/null",
    "shuf --random-source=a b | md5sum; shuf -i 1-100 --random-source=c -o shuffled",
    "mv a moved; mv -n b moved; mv missing x; ln b hard; ln -s b soft; cat soft | wc -c",
    "install -m 600 a installed; install -D b deep/er/file; install missing x",
    "truncate -s 100 a; truncate -s +5k b; truncate -r a c; truncate -s 1 /nowhere/x",
    "comm <a - a b | wc; join a b | wc; paste a b c | md5sum; paste -s a | md5sum",
    "md5sum a b c >sums; md5sum -c sums; sha256sum a; cksum a b; sum c; b2sum missing",
    "uniq a u; uniq -c b | md5sum; fold -w 7 a | md5sum; fmt b | md5sum; pr a | wc -l",
    "nl a | md5sum; od -c a | md5sum; expand a b | md5sum; unexpand -a a | md5sum; tac a b | md5sum",
    "tr a-z A-Z <a >upper; cut -c 1-8 a | md5sum; base64 a | base64 -d | cmp - a; base32 missing",
    "mktemp -u ./x.XXXXXX | wc -c; f=$(mktemp ./made.XXXXXX) && echo hi >$f && cat $f && rm $f; mktemp -d nowhere/x.XXX",
    "mkfifo pipe; (cat a >pipe & cat pipe | md5sum; wait)",
    "exec 5>five 7<a; echo one >&5; read x <&7; echo $x; ls -l /proc/self/fd | wc -l",
    "shred -n 1 -z --random-source=a b; du --apparent-size -b a; stat -c %s a b; sync a missing",
    "rm -f a; cat a; rm b missing; unlink c; rmdir x; mkdir d d; chmod 0 d; ls",
    "echo x >>a; echo y >|b; : >c; cat <<E >here\ntext\nE\ncat here; cat <a >/dev/full",
    "seq 100000 >big; numfmt --to=si <big | md5sum; factor 12345678; tsort a; ptx b | md5sum",
    "cp a /dev/null; cp /dev/null empty; cat /proc/self/comm; dd if=/dev/zero of=z bs=1M count=2 status=none",
    "env -i cat a | md5sum; nice cat a | md5sum; nohup cat a 2>&1 | md5sum; stdbuf -o0 cat a | md5sum",
    "ls -U | wc -l; readlink -f a; realpath b; pathchk a; test -e a; echo $?; (ulimit -n 4; cat a | wc -c; echo $?)",
];

fn in_state(state: Option<State>, script: &str) -> crate::rig::Left {
    let directory = directory_of_files();
    let server = state.map(Server::begin);
    Run { server: server.as_ref(), hint: "nodedup,prefetch", ..Run::default() }.shell(directory.path(), script)
}

#[test]
fn coreutils_do_the_same_in_every_state_of_the_server() {
    for script in COMMANDS {
        let alone = in_state(None, script);
        for state in State::ALL {
            let with = in_state(Some(state), script);
            assert_eq!((with.exit, &with.out, &with.err), (alone.exit, &alone.out, &alone.err), "{state:?}: {script}");
            assert_eq!(with.files.keys().collect::<Vec<_>>(), alone.files.keys().collect::<Vec<_>>(), "{state:?}: {script}");
            assert!(with.files == alone.files, "{state:?}: {script}: other content");
        }
    }
}

/// Returns each call that opens a file of the directory, with the descriptor or the error that it returned.
fn opened(log: &str, directory: &str) -> Vec<String> {
    let own = |line: &&str| line.contains(directory) || line.contains(r#"(AT_FDCWD, "a"#) || line.contains(r#"(AT_FDCWD, "out"#);
    let calls = log.lines().filter(own);
    calls.map(|line| line.split_once(' ').map_or(line, |(_pid, call)| call.trim()).replace(directory, "DIRECTORY")).collect()
}

#[test]
fn descriptors_have_the_numbers_that_they_would_have() {
    let test = "descriptors_have_the_numbers_that_they_would_have";
    if !has(test, "strace") {
        return;
    }
    let scripts =
        ["cp $PWD/a $PWD/x", "dd if=$PWD/a of=$PWD/out status=none", "sort $PWD/a $PWD/b -o $PWD/out", "cat $PWD/a $PWD/b $PWD/a"];
    for script in scripts.iter().chain(&["tee $PWD/x $PWD/y <a", "split -l 100 $PWD/a $PWD/p", "touch $PWD/a $PWD/n", "tac $PWD/a $PWD/b"])
    {
        let mut alone = None;
        for state in std::iter::once(None).chain(State::ALL.map(Some)) {
            let directory = directory_of_files();
            let server = state.map(Server::begin);
            let log = tempfile::NamedTempFile::new().unwrap();
            let traced = format!("exec strace -f -e trace=open,openat,creat -o {} -- sh -c '{script}'", log.path().display());
            let run = Run { server: server.as_ref(), hint: "nodedup,prefetch", ..Run::default() };
            let left = run.shell(directory.path(), &traced);
            if left.err.contains("ptrace") {
                return skipped(test, &left.err);
            }
            let calls = opened(&std::fs::read_to_string(log.path()).unwrap(), directory.path().to_str().unwrap());
            assert!(!calls.is_empty(), "{script}: no call is seen");
            match &alone {
                None => alone = Some(calls),
                Some(alone) => assert_eq!(&calls, alone, "{state:?}: {script}"),
            }
        }
    }
}
