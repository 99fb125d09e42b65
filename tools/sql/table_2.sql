-- table_2: Table II off its diagonal, a row for each two applications that share any content: the part of the chunks of the one (name)
-- whose content the other wrote, too. The diagonal is the redundancy in table_1.
SELECT
    name,
    other,
    shared * 1e0 / chunks AS share,
    shared_without_zeros * 1e0 / chunks AS share_without_zeros
FROM (
    SELECT
        a.application,
        b.application AS other,
        SUM(a.chunks) AS shared,
        SUM(CASE WHEN length(a.content) > 0 THEN a.chunks ELSE 0 END) AS shared_without_zeros
    FROM common AS a
    INNER JOIN common AS b ON a.content = b.content
    WHERE a.application <> b.application
    GROUP BY a.application, b.application
) AS pairs
INNER JOIN table_1 ON pairs.application = table_1.name
ORDER BY name, other
