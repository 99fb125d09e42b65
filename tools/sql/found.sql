-- found: the duplicates that an index finds, zeros excluded, as parts of all chunks: one index for all applications, or one for each.
SELECT
    (known - (contents - (rows_in_common - contents_in_common))) * 1e0 / NULLIF(chunks, 0) AS by_one_index,
    (known - contents) * 1e0 / NULLIF(chunks, 0) AS by_one_each
FROM (
    SELECT SUM(chunks) AS chunks, SUM(chunks - zeros - unknown) AS known, SUM(contents) AS contents
    FROM table_1
) AS totals
CROSS JOIN (
    SELECT COUNT(*) AS rows_in_common, COUNT(DISTINCT content) AS contents_in_common
    FROM common
    WHERE length(content) > 0
) AS commons
