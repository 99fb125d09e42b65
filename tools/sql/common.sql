-- common: the rows of contents that several applications wrote. They are found by grouping, which goes to disk when memory is used up;
-- DataFusion has the whole input of a window function in memory.
SELECT application, content, chunks
FROM written
WHERE content IN (SELECT content FROM written GROUP BY content HAVING COUNT(*) > 1)
