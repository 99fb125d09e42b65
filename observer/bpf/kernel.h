/* The few types of the kernel that the program reads, by name only: CO-RE puts in the offsets of the running kernel when it is loaded. */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2, BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1, BPF_F_MMAPABLE = 1 << 10 };

/* Their values differ between kernels; these are placeholders that CO-RE replaces. */
enum req_flag_bits { __REQ_META = 12, __REQ_FUA = 17, __REQ_PREFLUSH = 18 };

enum rw_hint { WRITE_LIFE_NOT_SET } __attribute__((packed));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct hlist_node { struct hlist_node *next; };
struct hlist_head { struct hlist_node *first; };
struct qstr { const unsigned char *name; };
struct inode;
struct dentry { struct dentry *d_parent; struct qstr d_name; struct inode *d_inode; union { struct hlist_node d_alias; } d_u; };
typedef struct { __u32 val; } kuid_t;
struct path { struct dentry *dentry; };
struct file { struct inode *f_inode; struct path f_path; };
struct kiocb { struct file *ki_filp; __s64 ki_pos; };
struct iomap_dio { struct kiocb *iocb; __s64 size; };
struct address_space { struct inode *host; };
struct inode { __u16 i_mode; unsigned long i_ino; kuid_t i_uid; __u32 i_generation; struct hlist_head i_dentry; struct address_space i_data; };
struct page { unsigned long compound_head; };
struct folio { struct address_space *mapping; unsigned long index; };
struct bio_vec { struct page *bv_page; __u32 bv_len; __u32 bv_offset; };
struct task_struct { struct task_struct *group_leader; char comm[16]; };
struct buffer_head { char *b_data; };
struct bvec_iter { __u64 bi_sector; __u32 bi_size; __u32 bi_idx; __u32 bi_bvec_done; };
struct gendisk { int major; int first_minor; };
struct block_device { struct gendisk *bd_disk; };
struct kernfs_node { __u64 id; };
struct cgroup { struct kernfs_node *kn; };
struct cgroup_subsys_state { struct cgroup *cgroup; };
struct blkcg { struct cgroup_subsys_state css; };
struct blkcg_gq { struct blkcg *blkcg; };
struct bio {
    struct block_device *bi_bdev;
    __u32 bi_opf;
    enum rw_hint bi_write_hint;
    struct bvec_iter bi_iter;
    void *bi_end_io;
    void *bi_private;
    struct blkcg_gq *bi_blkg;
    __u16 bi_vcnt;
    struct bio_vec *bi_io_vec;
};
/* Before Linux 5.18 the hint was an integer, which is another type to CO-RE; from then to 6.9 there was none. */
struct bio___integer { __u16 bi_write_hint; };
struct btrfs_inode { struct inode vfs_inode; };
struct btrfs_bio { struct btrfs_inode *inode; __u64 file_offset; struct bio bio; };
struct xfs_buf_ops { char *name; };
struct xfs_buf { const struct xfs_buf_ops *b_ops; };
#pragma clang attribute pop

#endif
