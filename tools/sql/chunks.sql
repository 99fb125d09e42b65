-- chunks: a row for each written block of 4 KiB that one fingerprint covers whole. Its content is null if it is unknown, and empty if the
-- block is all zeros.
SELECT
    application,
    explode(slice(fingerprints, 1, CAST((bytes - bytes % 4096) / 4096 AS INT))) AS content
FROM requests
WHERE op = 'write' AND begin_at % 4096 = 0 AND fingerprints IS NOT NULL
