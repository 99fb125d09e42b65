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
/* Addresses of the functions that end a bio; they tell what its bi_private is. 0 where the kernel has no such function or hides it. */
const volatile __u64 IOMAP_DIRECT_END = 0;
const volatile __u64 DISK_DIRECT_END = 0;
const volatile __u64 DISK_DIRECT_ASYNC_END = 0;
const volatile __u64 WAITED_FOR_END = 0;
const volatile __u64 OLD_DIRECT_END = 0;
const volatile __u64 OLD_DIRECT_ASYNC_END = 0;
const volatile __u64 BTRFS_END = 0;
const volatile __u64 XFS_BUFFER_END = 0;

/* Records are written without a wake-up: the reader looks at the shared memory when a request arrives. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} ring SEC(".maps");

/* The number of records for which the ring had no room; the reader has it in its memory. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, __u64);
} lost SEC(".maps");

#define TYPE_MASK 0170000
#define BLOCK_DEVICE 0060000
#define PAGE_STRUCT_BYTES ((unsigned long)bpf_core_type_size(struct page))

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

static __always_inline int is(unsigned long end, __u64 function)
{
    return function && end == function;
}

/* Returns how long the record is with the file. */
static __always_inline __u32 put_file(struct bio *bio, struct observation *seen)
{
    unsigned long end = (unsigned long)bio->bi_end_io;
    struct hlist_node *alias;
    struct dentry *dentry = 0;
    struct inode *inode = 0;

    /* Who submitted it first, then the page: the memory of a direct write may be another file's page cache. */
    if (is(end, IOMAP_DIRECT_END)) {
        struct iomap_dio *direct = bio->bi_private;
        struct kiocb *request = BPF_CORE_READ(direct, iocb);
        struct file *file = BPF_CORE_READ(request, ki_filp);

        inode = BPF_CORE_READ(file, f_inode);
        if (WANT_NAMES)
            dentry = BPF_CORE_READ(file, f_path.dentry);
        /* ki_pos stays at the start until all of the request's bios are done; size counts what was submitted, with this one. */
        seen->file_offset = BPF_CORE_READ(request, ki_pos) + BPF_CORE_READ(direct, size) - seen->bytes;
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
    seen->owner = BPF_CORE_READ(inode, i_uid.val);
    seen->generation = BPF_CORE_READ(inode, i_generation);
    if (seen->source == SOURCE_PAGE_CACHE && (BPF_CORE_READ(inode, i_mode) & TYPE_MASK) == BLOCK_DEVICE) {
        seen->source = SOURCE_DISK_CACHE;
        return BYTES_WITHOUT_NAME;
    }
    if (!WANT_NAMES)
        return BYTES_WITHOUT_NAME;
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

SEC("tp_btf/block_bio_queue")
int observe(__u64 *arguments)
{
    struct bio *bio = (void *)arguments[0];
    /* The whole disk, not bd_dev: on a partition that is another number, while the sector is already the disk's. */
    struct gendisk *disk = bio->bi_bdev->bd_disk;
    __u32 flags, bytes = BYTES_WITHOUT_FILE, first = 0;
    struct observation seen;
    __u64 *count;

    if ((__u32)disk->first_minor != DISK_MINOR || (__u32)disk->major != DISK_MAJOR)
        return 0;
    flags = bio->bi_opf;
    seen.operation = flags & 0xFF;
    seen.bytes = bio->bi_iter.bi_size;
    if (!seen.bytes)
        return 0; /* a flush */
    if (seen.operation == READ) {
        if (!WANT_READS)
            return 0;
    } else if (seen.operation != WRITE && seen.operation != DISCARD && seen.operation != SECURE_ERASE && seen.operation != WRITE_ZEROES) {
        return 0;
    }

    seen.time = bpf_ktime_get_ns();
    seen.sector = bio->bi_iter.bi_sector;
    seen.cgroup = cgroup_of(bio);
    seen.process = bpf_get_current_pid_tgid() >> 32;
    seen.facts = 0;
    if (flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_META) & 1)
        seen.facts |= FACT_META;
    if (flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_FUA) & 1)
        seen.facts |= FACT_FUA;
    seen.hint = hint_of(bio);
    seen.source = SOURCE_NONE;
    seen.owner = 0;
    bpf_get_current_comm(seen.comm, sizeof(seen.comm));
    /* A discard has no memory, and no file that its bio would lead to. */
    if (WANT_FILES && (seen.operation == READ || seen.operation == WRITE)) {
        __builtin_memset(&seen.inode, 0, sizeof(seen) - BYTES_WITHOUT_FILE);
        bytes = put_file(bio, &seen);
    }
    /* One copy: a record that is reserved first and filled then would hold back the reader of the records behind it for all that time. */
    if (bpf_ringbuf_output(&ring, &seen, bytes, BPF_RB_NO_WAKEUP)) {
        count = bpf_map_lookup_elem(&lost, &first);
        if (count)
            __sync_fetch_and_add(count, 1);
    }
    return 0;
}
