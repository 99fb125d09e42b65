/* The records of the ring: what the block layer knew of one bio, and its content. observer/src/record.rs and piece.rs read the same. */
#ifndef OBSERVE_H
#define OBSERVE_H

enum source { SOURCE_NONE, SOURCE_PAGE_CACHE, SOURCE_DIRECT, SOURCE_BTRFS, SOURCE_DISK, SOURCE_XFS_BUFFER, SOURCE_DISK_CACHE };

enum fact {
    FACT_META = 1,
    FACT_FUA = 2,
    /* The bytes of the bio follow each other in the file; otherwise file_offset is that of the first page only. */
    FACT_LINEAR = 4,
    /* What was written before has to be durable when the bio is done. */
    FACT_FLUSH = 8,
    /* The process is the one that changed the file, not the one that writes it back. */
    FACT_WRITER = 16,
};

#define NAME_BYTES 128 /* with the zero at the end; the rest of a longer name is cut off */

struct observation {
    __u64 time;        /* CLOCK_MONOTONIC, ns */
    __u64 sector;      /* of the whole disk, of 512 bytes */
    __u64 cgroup;
    __u32 bytes;       /* 0 of a flush alone */
    __u32 process;     /* tgid of the submitter */
    __u8 operation;    /* enum req_op; of a wish alone, OPERATION_WISH */
    __u8 facts;        /* enum fact */
    __u8 hint;         /* enum rw_hint */
    __u8 source;       /* enum source */
    __u32 owner;       /* i_uid */
    char comm[16];
    __u32 processor;   /* with the time, the name of a bio while its pieces come */
    __u32 reserved;
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

/* A bio on its way to a disk without a write cache: the kernel drops its wishes for durability before `block_bio_queue`. */
#define OPERATION_WISH 255

/*
 * A part of the content of a write, within one block of 4 KiB of the range and one vector. The pieces of a bio come before its
 * observation. A piece is as long as this structure, whatever its `bytes`.
 */
#define BLOCK_BYTES 4096

struct piece {
    __u64 time;        /* these two are those of the observation */
    __u32 processor;
    __u32 bytes;
    __u64 at;          /* bytes from the beginning of the range */
    __u8 content[BLOCK_BYTES];
};

/* A write of one whole block out of one vector, with its content. The name is empty where there is none. */
struct whole {
    struct observation seen;
    __u8 content[BLOCK_BYTES];
};

/* Places in the map `counts`. */
enum count {
    COUNT_LOST,        /* observations for which the ring had no room */
    COUNT_LOST_BLOCKS, /* blocks whose content found no room, or belonged to a bio of more pieces than are copied */
    COUNT_UNREADABLE,  /* pieces that the kernel could not read */
    KNOWN_PAGE,        /* a page whose address is known: its structure and its address; 0 until there is one */
    KNOWN_ADDRESS,
    KNOWN_AGREED,      /* other pages whose address was as computed from it */
    KNOWN_DISAGREED,   /* and those whose address was not */
    COUNTS,
};

#endif
