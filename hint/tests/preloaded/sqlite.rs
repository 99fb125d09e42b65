//! SQLite: the same answers, and databases of the same content, in every mode of its journal.

use crate::rig::{Run, has};
use crate::server::{Server, State};

const SCRIPT: &str = "
for mode in delete truncate persist wal memory off; do
sqlite3 $mode.db <<E
PRAGMA journal_mode=$mode;
PRAGMA cache_size=10; PRAGMA temp_store=FILE;
CREATE TABLE t(id INTEGER PRIMARY KEY, word TEXT UNIQUE, number INT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<2000)
INSERT INTO t SELECT i, 'word ' || (i * 7919 % 99991), i % 17 FROM n;
BEGIN; UPDATE t SET number = number + 1; SAVEPOINT s; DELETE FROM t WHERE id > 1000; ROLLBACK TO s; COMMIT;
ATTACH '$mode-2.db' AS other; CREATE TABLE other.u AS SELECT * FROM t ORDER BY word;
BEGIN; DELETE FROM t WHERE number = 3; DELETE FROM other.u WHERE number = 4; COMMIT;
INSERT INTO t VALUES (1, 'again', 1);
CREATE INDEX i ON t(number, word); DETACH other; VACUUM; PRAGMA integrity_check; PRAGMA wal_checkpoint(TRUNCATE);
SELECT number, count(*), min(word) FROM t GROUP BY number;
E
echo exit $?
sqlite3 $mode.db .dump | md5sum; sqlite3 -readonly $mode-2.db .dump | md5sum
sqlite3 missing/x.db 'CREATE TABLE t(x)'; echo exit $?
done; ls";

#[test]
fn sqlite_does_the_same_in_every_state_of_the_server() {
    if !has("sqlite_does_the_same_in_every_state_of_the_server", "sqlite3") {
        return;
    }
    let left = |state: Option<State>| {
        let directory = tempfile::tempdir().unwrap();
        let server = state.map(Server::begin);
        let left = Run { server: server.as_ref(), hint: "nodedup,prefetch", ..Run::default() }.shell(directory.path(), SCRIPT);
        (left.exit, left.out, left.err)
    };
    let alone = left(None);
    assert!(alone.1.matches("\nok\n").count() == 6 && alone.2.contains("UNIQUE"), "{} {}", alone.1, alone.2);
    for state in State::ALL {
        assert_eq!(left(Some(state)), alone, "{state:?}");
    }
}
