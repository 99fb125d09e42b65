-- written: a row for each content of each application, and how many chunks the application wrote of it.
SELECT application, content, COUNT(*) AS chunks
FROM chunks
WHERE content IS NOT NULL
GROUP BY application, content
