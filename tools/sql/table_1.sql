-- table_1: Table I, a row for each application, with the names of `onefold-lab trace analyze --json`.
WITH durations AS (
    SELECT trace, MAX(time_ns) - MIN(time_ns) AS duration_ns
    FROM requests
    GROUP BY trace
),

by_trace AS (
    SELECT
        application,
        trace,
        SUM(CASE WHEN op = 'read' THEN 1 ELSE 0 END) AS reads,
        SUM(CASE WHEN op = 'write' THEN 1 ELSE 0 END) AS writes,
        SUM(CASE WHEN op = 'read' THEN bytes ELSE 0 END) AS read_bytes,
        SUM(CASE WHEN op = 'write' THEN bytes ELSE 0 END) AS written_bytes,
        SUM(CASE WHEN op = 'write' THEN end_at + 4095 - (end_at + 4095) % 4096 - begin_at + begin_at % 4096 ELSE 0 END) AS chunk_bytes
    FROM requests
    WHERE op IN ('read', 'write')
    GROUP BY application, trace
),

counted AS (
    SELECT
        application,
        SUM(reads) AS reads,
        SUM(writes) AS writes,
        SUM(read_bytes) AS read_bytes,
        SUM(written_bytes) AS written_bytes,
        SUM(duration_ns) AS duration_ns,
        CAST(SUM(chunk_bytes) / 4096 AS BIGINT) AS chunks
    FROM by_trace
    INNER JOIN durations ON by_trace.trace = durations.trace
    GROUP BY application
),

contents AS (
    SELECT
        application,
        SUM(CASE WHEN length(content) = 0 THEN chunks ELSE 0 END) AS zeros,
        SUM(CASE WHEN length(content) > 0 THEN chunks ELSE 0 END) AS known,
        SUM(CASE WHEN length(content) > 0 THEN 1 ELSE 0 END) AS contents
    FROM written
    GROUP BY application
),

joined AS (
    SELECT
        counted.*,
        COALESCE(zeros, 0) AS zeros,
        COALESCE(known, 0) AS known,
        COALESCE(contents.contents, 0) AS contents
    FROM counted
    LEFT JOIN contents ON counted.application = contents.application
)

SELECT
    application AS name,
    reads,
    writes,
    read_bytes,
    written_bytes,
    duration_ns,
    (reads + writes) * 1e9 / NULLIF(duration_ns, 0) AS requests_per_second,
    (read_bytes + written_bytes) * 1e0 / (reads + writes) AS request_bytes_mean,
    writes * 1e0 / (reads + writes) AS write_ratio,
    chunks,
    zeros,
    chunks - zeros - known AS unknown,
    contents,
    (known - contents + CASE WHEN zeros > 0 THEN zeros - 1 ELSE 0 END) * 1e0 / NULLIF(chunks, 0) AS redundancy,
    (known - contents) * 1e0 / NULLIF(chunks, 0) AS redundancy_without_zeros
FROM joined
ORDER BY name
