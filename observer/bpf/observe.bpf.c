// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Sees each bio of one disk in submit_bio, before the disk's driver gets it and before it is split or merged.
 *
 * The order of the tests is the order of their cost: another disk's bio ends after four loads. Pointers from the tracepoint's own
 * argument are typed, so that their loads need no helper; what hangs on a `void *` or on a masked pointer is read by probes.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "observe.h"

/* Helpers that read the kernel's memory are for programs whose licence is compatible with the GPL, as MIT is. */
char _license[] SEC("license") = "Dual MIT/GPL";

enum operation { READ = 0, WRITE = 1, DISCARD = 3, SECURE_ERASE = 5, WRITE_ZEROES = 9 };

/* Set before the program is loaded: the verifier then drops what is not wanted. */
const volatile __u32 DISK_MAJOR = 0;
const volatile __u32 DISK_MINOR = 0;
const volatile __u32 PAGE_SHIFT = 12;
const volatile __u32 WANT_READS = 0;
const volatile __u32 WANT_FILES = 0;
const volatile __u32 WANT_NAMES = 0;
/* For `record` alone: the part of the disk, in sectors. */
const volatile __u64 RANGE_START = 0;
const volatile __u64 RANGE_END = 0;
const volatile __u32 WANT_CONTENT = 0;
const volatile __u32 IS_RECORDING = 0;
const volatile __u64 RING_BYTES = 0;
/* Addresses of the functions that end a bio; they tell what its bi_private is. 0 where the kernel has no such function or hides it. */
const volatile __u64 IOMAP_DIRECT_END = 0;
const volatile __u64 DISK_DIRECT_END = 0;
const volatile __u64 DISK_DIRECT_ASYNC_END = 0;
const volatile __u64 WAITED_FOR_END = 0;
const volatile __u64 OLD_DIRECT_END = 0;
const volatile __u64 OLD_DIRECT_ASYNC_END = 0;
const volatile __u64 BTRFS_END = 0;
const volatile __u64 XFS_BUFFER_END = 0;
const volatile __u64 BUFFER_HEAD_END = 0;

/* The reader looks at the shared memory: a server when a request arrives, a recorder at intervals, and when much waits. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} ring SEC(".maps");

/* The reader has them in its memory. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, COUNTS);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 what, __u64 more)
{
    __u64 *counted = bpf_map_lookup_elem(&counts, &what);

    if (counted)
        __sync_fetch_and_add(counted, more);
}

#define TYPE_MASK 0170000
#define BLOCK_DEVICE 0060000
#define PAGE_STRUCT_BYTES ((unsigned long)bpf_core_type_size(struct page))

/* The last process that made a page of a file dirty, by the address of its inode. */
struct writer {
    __u64 inode;
    __u32 process;
    char comm[16] __attribute__((aligned(8)));
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u64);
    __type(value, struct writer);
} writers SEC(".maps");

/* For `record` alone: the last file that this processor has told of. Neighbouring bios are often of one file, whose name is known then. */
struct told {
    __u64 address, inode;
    __u32 generation, owner;
    __u32 is_disk, reserved;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct told);
} told SEC(".maps");

/* The folio of a page, and the page's number in its file. */
static __always_inline struct folio *folio_of(unsigned long page, __u64 *number)
{
    unsigned long head = BPF_CORE_READ((struct page *)page, compound_head);
    unsigned long folio = head & 1 ? head - 1 : page;

    *number = BPF_CORE_READ((struct folio *)folio, index) + (page - folio) / PAGE_STRUCT_BYTES;
    return (struct folio *)folio;
}

/*
 * Whether a write-back's pages follow each other in the file. ext4 puts what is adjacent on the disk into one bio, so that a sparse file's
 * pages may be apart. They come in ascending order: if the last one has the number that it should have, none is missing in between.
 */
static __always_inline int is_linear(struct bio *bio, struct bio_vec *first, __u64 first_number)
{
    __u32 vectors = bio->bi_vcnt, done = bio->bi_iter.bi_bvec_done;
    __u64 bytes = bio->bi_iter.bi_size, last_number;
    struct bio_vec last;

    if (first->bv_offset + done + bytes <= 1UL << PAGE_SHIFT)
        return 1;
    if (!vectors)
        return 0; /* a clone, which does not tell where its vectors end */
    if (bpf_probe_read_kernel(&last, sizeof(last), bio->bi_io_vec + (vectors - 1)))
        return 0;
    folio_of((unsigned long)last.bv_page + ((last.bv_offset + last.bv_len - 1) >> PAGE_SHIFT) * PAGE_STRUCT_BYTES, &last_number);
    return last_number == first_number + ((first->bv_offset + done + bytes - 1) >> PAGE_SHIFT);
}

static __always_inline struct inode *of_page_cache(struct bio *bio, struct observation *seen)
{
    struct bio_vec first;
    unsigned long mapping;
    struct inode *inode;
    struct folio *folio;
    __u64 number;

    /* Not always element 0: the second copy of Btrfs' metadata is a clone. */
    if (bpf_probe_read_kernel(&first, sizeof(first), bio->bi_io_vec + bio->bi_iter.bi_idx) || !first.bv_page)
        return 0;
    folio = folio_of((unsigned long)first.bv_page, &number);
    mapping = (unsigned long)BPF_CORE_READ(folio, mapping);
    if (!mapping || mapping & 3)
        return 0; /* anonymous memory, or none of a file's */
    /* Memory of the kernel's own, such as the buffers of XFS' log, has something else there. */
    inode = BPF_CORE_READ((struct address_space *)mapping, host);
    if (!inode || (unsigned long)inode + bpf_core_field_offset(struct inode, i_data) != mapping)
        return 0;
    number += first.bv_offset >> PAGE_SHIFT;
    first.bv_offset &= (1 << PAGE_SHIFT) - 1;
    seen->file_offset = (number << PAGE_SHIFT) + first.bv_offset + bio->bi_iter.bi_bvec_done;
    if (is_linear(bio, &first, number))
        seen->facts |= FACT_LINEAR;
    seen->source = SOURCE_PAGE_CACHE;
    return inode;
}

/* Returns how long the record is with the name. */
static __always_inline __u32 put_name(const void *name, struct observation *seen)
{
    long bytes = bpf_probe_read_kernel_str(seen->name, NAME_BYTES, name);

    return bytes > 0 && bytes <= NAME_BYTES ? BYTES_WITHOUT_NAME + bytes : BYTES_WITHOUT_NAME;
}

/* Names the process that changed a file in place of the one that writes it back. */
static __always_inline void put_writer(struct inode *inode, struct observation *seen)
{
    __u64 address = (__u64)inode;
    struct writer *writer = bpf_map_lookup_elem(&writers, &address);

    if (!writer || writer->inode != seen->inode)
        return; /* not known, or another inode that had the same address */
    seen->process = writer->process;
    __builtin_memcpy(seen->comm, writer->comm, sizeof(seen->comm));
    seen->facts |= FACT_WRITER;
}

static __always_inline int is(unsigned long end, __u64 function)
{
    return function && end == function;
}

/* Returns a word of a structure whose beginning was read by one call; where this kernel has the field elsewhere, it is read by another. */
static __always_inline __u64 word_at(const void *read, __u32 bytes, const void *from, __u32 offset)
{
    __u64 word = 0;

    if (offset + sizeof(word) <= bytes)
        return *(const __u64 *)(read + offset);
    bpf_probe_read_kernel(&word, sizeof(word), from + offset);
    return word;
}

#define WORD(read, from, type, field) word_at(read, sizeof(read), from, bpf_core_field_offset(type, field))

/* Returns how long the record is with the file. */
static __always_inline __u32 put_file(struct bio *bio, struct observation *seen)
{
    unsigned long end = (unsigned long)bio->bi_end_io;
    struct hlist_node *alias;
    struct dentry *dentry = 0;
    struct inode *inode = 0;
    struct file *opened = 0;
    struct told *last = 0;
    __u32 first = 0, is_told = 0, is_disk;

    /* Who submitted it first, then the page: the memory of a direct write may be another file's page cache. */
    if (is(end, IOMAP_DIRECT_END)) {
        void *direct = bio->bi_private, *request;
        __u64 of_direct[4], of_request[2];

        bpf_probe_read_kernel(of_direct, sizeof(of_direct), direct);
        request = (void *)WORD(of_direct, direct, struct iomap_dio, iocb);
        bpf_probe_read_kernel(of_request, sizeof(of_request), request);
        opened = (void *)WORD(of_request, request, struct kiocb, ki_filp);
        inode = BPF_CORE_READ(opened, f_inode);
        /* ki_pos stays at the start until all of the request's bios are done; size counts what was submitted, with this one. */
        seen->file_offset = WORD(of_request, request, struct kiocb, ki_pos) + WORD(of_direct, direct, struct iomap_dio, size) - seen->bytes;
        seen->facts |= FACT_LINEAR;
        seen->source = SOURCE_DIRECT;
    } else if (is(end, BTRFS_END)) {
        struct btrfs_bio *outer = (void *)bio - bpf_core_field_offset(struct btrfs_bio, bio);
        struct btrfs_inode *owner = BPF_CORE_READ(outer, inode);

        inode = owner ? (void *)owner + bpf_core_field_offset(struct btrfs_inode, vfs_inode) : 0;
        seen->file_offset = BPF_CORE_READ(outer, file_offset);
        seen->facts |= FACT_LINEAR;
        seen->source = SOURCE_BTRFS;
    } else if (is(end, XFS_BUFFER_END)) {
        seen->source = SOURCE_XFS_BUFFER;
        return WANT_NAMES ? put_name(BPF_CORE_READ((struct xfs_buf *)bio->bi_private, b_ops, name), seen) : BYTES_WITHOUT_NAME;
    } else if (is(end, DISK_DIRECT_END) || is(end, DISK_DIRECT_ASYNC_END)) {
        seen->source = SOURCE_DISK;
    } else if (!is(end, WAITED_FOR_END) && !is(end, OLD_DIRECT_END) && !is(end, OLD_DIRECT_ASYNC_END)) {
        inode = of_page_cache(bio, seen);
    }
    if (!inode)
        return BYTES_WITHOUT_NAME;
    seen->inode = BPF_CORE_READ(inode, i_ino);
    seen->generation = BPF_CORE_READ(inode, i_generation);
    if (IS_RECORDING) {
        last = bpf_map_lookup_elem(&told, &first);
        if (!last)
            return BYTES_WITHOUT_NAME;
        is_told = last->address == (__u64)inode && last->inode == seen->inode && last->generation == seen->generation;
    }
    if (is_told) {
        seen->owner = last->owner;
        is_disk = last->is_disk;
    } else {
        seen->owner = BPF_CORE_READ(inode, i_uid.val);
        is_disk = (BPF_CORE_READ(inode, i_mode) & TYPE_MASK) == BLOCK_DEVICE;
        if (last) {
            last->address = (__u64)inode;
            last->inode = seen->inode;
            last->generation = seen->generation;
            last->owner = seen->owner;
            last->is_disk = is_disk;
        }
    }
    if (seen->source == SOURCE_PAGE_CACHE && is_disk) {
        seen->source = SOURCE_DISK_CACHE;
        return BYTES_WITHOUT_NAME;
    }
    if (IS_RECORDING && seen->source != SOURCE_DIRECT)
        put_writer(inode, seen);
    if (!WANT_NAMES || is_told)
        return BYTES_WITHOUT_NAME;
    if (opened)
        dentry = BPF_CORE_READ(opened, f_path.dentry);
    if (!dentry) {
        alias = BPF_CORE_READ(inode, i_dentry.first);
        if (!alias)
            return BYTES_WITHOUT_NAME;
        dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u);
    }
    seen->directory = BPF_CORE_READ(dentry, d_parent, d_inode, i_ino);
    return put_name(BPF_CORE_READ(dentry, d_name.name), seen);
}

static __always_inline __u8 hint_of(struct bio *bio)
{
    struct bio___integer *older = (void *)bio;

    if (bpf_core_field_exists(bio->bi_write_hint))
        return bio->bi_write_hint;
    if (bpf_core_field_exists(older->bi_write_hint))
        return BPF_CORE_READ(older, bi_write_hint);
    return 0;
}

static __always_inline __u64 cgroup_of(struct bio *bio)
{
    if (!bpf_core_field_exists(bio->bi_blkg) || !bio->bi_blkg)
        return 0;
    return bio->bi_blkg->blkcg->css.cgroup->kn->id;
}

/* The name of the process, and not of its thread. */
static __always_inline void put_program(char *comm)
{
    const struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
    const __u64 *words = (const void *)&leader->comm;

    ((__u64 *)comm)[0] = words[0];
    ((__u64 *)comm)[1] = words[1];
}

/* Fills in all that needs no file and no process. */
static __always_inline void put_facts(struct bio *bio, __u32 flags, struct observation *seen)
{
    seen->operation = flags & 0xFF;
    seen->bytes = bio->bi_iter.bi_size;
    seen->time = bpf_ktime_get_ns();
    seen->sector = bio->bi_iter.bi_sector;
    seen->cgroup = cgroup_of(bio);
    seen->process = bpf_get_current_pid_tgid() >> 32;
    seen->facts = 0;
    if (flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_META) & 1)
        seen->facts |= FACT_META;
    if (flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_FUA) & 1)
        seen->facts |= FACT_FUA;
    if (flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH) & 1)
        seen->facts |= FACT_FLUSH;
    seen->hint = hint_of(bio);
    seen->source = SOURCE_NONE;
    seen->owner = 0;
    seen->processor = bpf_get_smp_processor_id();
    seen->reserved = 0;
}

/* Returns how long the record is. */
static __always_inline __u32 put_wanted(struct bio *bio, struct observation *seen)
{
    /* A discard has no memory, and no file that its bio would lead to. */
    if (!WANT_FILES || !seen->bytes || (seen->operation != READ && seen->operation != WRITE))
        return BYTES_WITHOUT_FILE;
    __builtin_memset(&seen->inode, 0, BYTES_WITHOUT_NAME - BYTES_WITHOUT_FILE);
    return put_file(bio, seen);
}

/* Whether a bio of this operation is looked at. */
static __always_inline int is_wanted(__u8 operation)
{
    return operation == READ ? WANT_READS != 0
                             : operation == WRITE || operation == DISCARD || operation == SECURE_ERASE || operation == WRITE_ZEROES;
}

/* The whole disk, not bd_dev: on a partition that is another number, while the sector is already the disk's. */
static __always_inline int is_of_disk(struct bio *bio)
{
    struct gendisk *disk = bio->bi_bdev->bd_disk;

    return (__u32)disk->first_minor == DISK_MINOR && (__u32)disk->major == DISK_MAJOR;
}

SEC("tp_btf/block_bio_queue")
int observe(__u64 *arguments)
{
    struct bio *bio = (void *)arguments[0];
    struct observation seen;
    __u32 flags, bytes;

    if (!is_of_disk(bio))
        return 0;
    flags = bio->bi_opf;
    if (!bio->bi_iter.bi_size || !is_wanted(flags & 0xFF))
        return 0; /* a flush, or nothing that is asked for */
    put_facts(bio, flags, &seen);
    bpf_get_current_comm(seen.comm, sizeof(seen.comm));
    bytes = put_wanted(bio, &seen);
    /* One copy: a record that is reserved first and filled then would hold back the reader of the records behind it for all that time. */
    if (bpf_ringbuf_output(&ring, &seen, bytes, BPF_RB_NO_WAKEUP))
        count(COUNT_LOST, 1);
    return 0;
}

static __always_inline __u64 address_of(__u64 page, __u64 known_page, __u64 known_address)
{
    if (page >= known_page)
        return known_address + (page - known_page) / PAGE_STRUCT_BYTES * (1UL << PAGE_SHIFT);
    return known_address - (known_page - page) / PAGE_STRUCT_BYTES * (1UL << PAGE_SHIFT);
}

/*
 * A page's address is linear in the address of its structure. A buffer head has both of one page; a read of a page of the disk itself,
 * which the reader brings about, has a buffer head. Further ones show whether it is so on this machine.
 */
static __always_inline void learn_address(struct bio *bio)
{
    __u32 page = KNOWN_PAGE, address = KNOWN_ADDRESS;
    struct bio_vec first;
    __u64 found, *known_page, *known_address;

    if (!is((unsigned long)bio->bi_end_io, BUFFER_HEAD_END) || bpf_probe_read_kernel(&first, sizeof(first), bio->bi_io_vec))
        return;
    known_page = bpf_map_lookup_elem(&counts, &page);
    known_address = bpf_map_lookup_elem(&counts, &address);
    if (!known_page || !known_address)
        return;
    found = (__u64)BPF_CORE_READ((struct buffer_head *)bio->bi_private, b_data) - first.bv_offset;
    if (!*known_page) {
        *known_address = found;
        *known_page = (__u64)first.bv_page;
    } else if ((__u64)first.bv_page != *known_page) {
        count(found == address_of((__u64)first.bv_page, *known_page, *known_address) ? KNOWN_AGREED : KNOWN_DISAGREED, 1);
    }
}

/* The place in a bio up to which its content is copied. The vector is a number: the verifier would follow a typed pointer at each step. */
struct cursor {
    __u64 vector, page, time, at, known_page, known_address;
    __u32 left, have, done, vector_offset, processor;
};

#define PIECES_MAX (1 << 16)
/* The part of the ring that content may take: the rest is for observations. */
#define CONTENT_BYTES (RING_BYTES / 8 * 7)

/*
 * A reader is woken when an eighth of the ring waits. It looks by itself whether it does before it sleeps, so once is enough. Processors
 * that pass the mark at the same time may each miss it: it has some width.
 */
#define WAKE_BYTES (RING_BYTES / 8)
#define WAKE_WIDTH (32 << 10)

static __always_inline __u64 wake_at(__u64 waiting)
{
    return waiting - WAKE_BYTES < WAKE_WIDTH ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static long copy_piece(__u32 index, struct cursor *cursor)
{
    struct bio_vec vector;
    struct piece *piece;
    __u64 address, waiting;
    __u32 bytes;

    (void)index;

    if (!cursor->have) {
        if (bpf_probe_read_kernel(&vector, sizeof(vector), (void *)cursor->vector))
            return 1;
        cursor->vector += sizeof(vector);
        cursor->page = (__u64)vector.bv_page;
        cursor->vector_offset = vector.bv_offset + cursor->done;
        cursor->have = vector.bv_len - cursor->done;
        cursor->done = 0;
    }
    bytes = BLOCK_BYTES - (cursor->at & (BLOCK_BYTES - 1));
    if (bytes > cursor->have)
        bytes = cursor->have;
    if (bytes > cursor->left)
        bytes = cursor->left;
    if (!bytes || bytes > BLOCK_BYTES)
        return 1;
    waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
    if (waiting + sizeof(*piece) > CONTENT_BYTES)
        return 1;
    piece = bpf_ringbuf_reserve(&ring, sizeof(*piece), 0);
    if (!piece)
        return 1;
    piece->time = cursor->time;
    piece->processor = cursor->processor;
    piece->bytes = bytes;
    piece->at = cursor->at;
    address = address_of(cursor->page, cursor->known_page, cursor->known_address) + cursor->vector_offset;
    if (bpf_probe_read_kernel(piece->content, bytes, (void *)address)) {
        count(COUNT_UNREADABLE, 1);
        bpf_ringbuf_discard(piece, BPF_RB_NO_WAKEUP);
    } else {
        bpf_ringbuf_submit(piece, wake_at(waiting));
    }
    cursor->at += bytes;
    cursor->left -= bytes;
    cursor->have -= bytes;
    cursor->vector_offset += bytes;
    return !cursor->left;
}

/* Copies the content of a write into the ring, piece by piece. */
static __always_inline void copy_content(struct bio *bio, struct observation *seen)
{
    __u32 page = KNOWN_PAGE, address = KNOWN_ADDRESS;
    __u64 *known_page = bpf_map_lookup_elem(&counts, &page), *known_address = bpf_map_lookup_elem(&counts, &address);
    struct cursor cursor;

    if (!known_page || !known_address || !*known_page)
        return;
    cursor.vector = (__u64)BPF_CORE_READ(bio, bi_io_vec) + bio->bi_iter.bi_idx * sizeof(struct bio_vec);
    cursor.page = 0;
    cursor.time = seen->time;
    cursor.at = (seen->sector - RANGE_START) << 9;
    cursor.known_page = *known_page;
    cursor.known_address = *known_address;
    cursor.left = seen->bytes;
    cursor.have = 0;
    cursor.done = bio->bi_iter.bi_bvec_done;
    cursor.vector_offset = 0;
    cursor.processor = seen->processor;
    bpf_loop(PIECES_MAX, copy_piece, &cursor, 0);
    if (cursor.left)
        count(COUNT_LOST_BLOCKS, (cursor.left + BLOCK_BYTES - 1) / BLOCK_BYTES);
}

static __always_inline void put_record(struct observation *seen, __u32 bytes)
{
    /* The verifier has lost sight of the length of the name by now, where the compiler has not. */
    barrier_var(bytes);
    if (bytes > sizeof(*seen))
        return;
    if (bpf_ringbuf_output(&ring, seen, bytes, wake_at(bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA))))
        count(COUNT_LOST, 1);
}

/*
 * Writes the record of a write of one block out of one vector with its content: one reservation instead of two. Returns 0 where the write
 * is another one, or where this is not possible; what is missing is counted by those who try it piece by piece then.
 */
static __always_inline int put_whole(struct bio *bio, struct observation *seen, __u32 bytes)
{
    __u32 page = KNOWN_PAGE, address = KNOWN_ADDRESS;
    __u64 *known_page, *known_address, waiting, from;
    struct bio_vec *vector = bio->bi_io_vec;
    struct whole *whole;

    if (seen->bytes != BLOCK_BYTES || ((seen->sector - RANGE_START) << 9 & (BLOCK_BYTES - 1)))
        return 0;
    if (bio->bi_iter.bi_idx || vector->bv_len - bio->bi_iter.bi_bvec_done < BLOCK_BYTES)
        return 0;
    known_page = bpf_map_lookup_elem(&counts, &page);
    known_address = bpf_map_lookup_elem(&counts, &address);
    if (!known_page || !known_address || !*known_page)
        return 0;
    waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
    if (waiting + sizeof(*whole) > CONTENT_BYTES)
        return 0;
    whole = bpf_ringbuf_reserve(&ring, sizeof(*whole), 0);
    if (!whole)
        return 0;
    /* To the verifier a pointer that comes back from memory is a number, with which it lets one reckon. */
    *(volatile __u64 *)whole->content = (__u64)vector->bv_page;
    from = address_of(*(volatile __u64 *)whole->content, *known_page, *known_address) + vector->bv_offset + bio->bi_iter.bi_bvec_done;
    if (bpf_probe_read_kernel(whole->content, BLOCK_BYTES, (void *)from)) {
        bpf_ringbuf_discard(whole, BPF_RB_NO_WAKEUP);
        return 0;
    }
    __builtin_memcpy(&whole->seen, seen, BYTES_WITHOUT_FILE);
    if (bytes >= BYTES_WITHOUT_NAME)
        __builtin_memcpy(&whole->seen.inode, &seen->inode, BYTES_WITHOUT_NAME - BYTES_WITHOUT_FILE);
    if (bytes > BYTES_WITHOUT_NAME)
        __builtin_memcpy(whole->seen.name, seen->name, NAME_BYTES);
    else
        whole->seen.name[0] = 0;
    bpf_ringbuf_submit(whole, wake_at(waiting));
    return 1;
}

static __always_inline int is_in_range(struct bio *bio)
{
    return bio->bi_iter.bi_sector >= RANGE_START && bio->bi_iter.bi_sector + (bio->bi_iter.bi_size >> 9) <= RANGE_END;
}

/* As `observe`, and the content of writes, and flushes. */
SEC("tp_btf/block_bio_queue")
int record(__u64 *arguments)
{
    struct bio *bio = (void *)arguments[0];
    struct observation seen;
    __u32 flags, bytes;

    if (!is_of_disk(bio))
        return 0;
    if (WANT_CONTENT)
        learn_address(bio);
    flags = bio->bi_opf;
    /* A flush of a partition is one of its disk, and has no place. */
    if (!is_wanted(flags & 0xFF) || (bio->bi_iter.bi_size && !is_in_range(bio)))
        return 0;
    put_facts(bio, flags, &seen);
    if (!seen.bytes && !(seen.facts & FACT_FLUSH))
        return 0;
    put_program(seen.comm);
    bytes = put_wanted(bio, &seen);
    if (WANT_CONTENT && seen.operation == WRITE && seen.bytes) {
        if (put_whole(bio, &seen, bytes))
            return 0;
        copy_content(bio, &seen);
    }
    put_record(&seen, bytes);
    return 0;
}

/* Sees the wishes for durability of a disk without a write cache. */
SEC("fentry/submit_bio_noacct")
int wish(__u64 *arguments)
{
    struct bio *bio = (void *)arguments[0];
    struct observation seen;

    if (!is_of_disk(bio) || (bio->bi_opf & 0xFF) != WRITE || (bio->bi_iter.bi_size && !is_in_range(bio)))
        return 0;
    put_facts(bio, bio->bi_opf, &seen);
    if (!(seen.facts & (FACT_FLUSH | FACT_FUA)))
        return 0;
    seen.operation = OPERATION_WISH;
    put_program(seen.comm);
    put_record(&seen, BYTES_WITHOUT_FILE);
    return 0;
}

/* Sees who makes a page of a file dirty. */
SEC("tp_btf/writeback_dirty_folio")
int dirty(__u64 *arguments)
{
    struct address_space *mapping = (void *)arguments[1];
    struct inode *inode = mapping ? mapping->host : 0;
    __u64 address = (__u64)inode;
    struct writer writer, *known;

    if (!inode)
        return 0;
    __builtin_memset(&writer, 0, sizeof(writer));
    writer.inode = inode->i_ino;
    writer.process = bpf_get_current_pid_tgid() >> 32;
    known = bpf_map_lookup_elem(&writers, &address);
    if (known && known->inode == writer.inode && known->process == writer.process)
        return 0;
    put_program(writer.comm);
    bpf_map_update_elem(&writers, &address, &writer, 0);
    return 0;
}
