-- common: the rows of contents that several applications wrote.
SELECT application, content, chunks
FROM (
    SELECT application, content, chunks, COUNT(*) OVER (PARTITION BY content) AS applications
    FROM written
) AS counted
WHERE applications > 1
