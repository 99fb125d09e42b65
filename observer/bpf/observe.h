/* One record of the ring: what the block layer knew of one bio. observer/src/record.rs reads the same layout. */
#ifndef OBSERVE_H
#define OBSERVE_H

enum source { SOURCE_NONE, SOURCE_PAGE_CACHE, SOURCE_DIRECT, SOURCE_BTRFS, SOURCE_DISK, SOURCE_XFS_BUFFER, SOURCE_DISK_CACHE };

enum fact {
    FACT_META = 1,
    FACT_FUA = 2,
    /* The bytes of the bio follow each other in the file; otherwise file_offset is that of the first page only. */
    FACT_LINEAR = 4,
};

#define NAME_BYTES 128 /* with the zero at the end; the rest of a longer name is cut off */

struct observation {
    __u64 time;        /* CLOCK_MONOTONIC, ns */
    __u64 sector;      /* of the whole disk, of 512 bytes */
    __u64 cgroup;
    __u32 bytes;
    __u32 process;     /* tgid of the submitter */
    __u8 operation;    /* enum req_op */
    __u8 facts;        /* enum fact */
    __u8 hint;         /* enum rw_hint */
    __u8 source;       /* enum source */
    __u32 owner;       /* i_uid */
    char comm[16];
    /* A record ends here where files are not wanted. */
    __u64 inode;
    __u64 file_offset; /* bytes; of the bio's first byte */
    __u64 generation;  /* i_generation: another one when the number is given to another file */
    __u64 directory;   /* inode number of the parent */
    /* A record ends with the name, whose length its own length tells. */
    char name[NAME_BYTES];
};

#define BYTES_WITHOUT_FILE __builtin_offsetof(struct observation, inode)
#define BYTES_WITHOUT_NAME __builtin_offsetof(struct observation, name)

#endif
