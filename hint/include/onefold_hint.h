/*
 * Hints about files on volumes of Onefold. See docs/hints-library.md.
 *
 * A program passes the flags to open(2), or calls onefold_hint(). open(2) acts on them where libonefold_hint.so is linked or preloaded,
 * and otherwise ignores them.
 */
#ifndef ONEFOLD_HINT_H
#define ONEFOLD_HINT_H

#ifdef __cplusplus
extern "C" {
#endif

/* The content that is written to this file has no duplicates, or is meant to have copies of its own. */
#define O_NODEDUP 0x10000000

/* The content that is read from this file is likely to be written again soon. */
#define O_PREFETCH 0x20000000

/*
 * Passes a hint about an open regular file: O_NODEDUP, O_PREFETCH, or both.
 *
 * Returns 0 when a server has taken it. Otherwise returns -1 and sets errno:
 *   EBADF          fd is not an open descriptor
 *   EINVAL         flags are none or others, or fd is not a regular file
 *   ENODEV         the file lies on no attached volume that this user may reach
 *   EMFILE         no descriptor is free (also ENFILE and ENOMEM)
 *   ENOTCONN       no server answered in time, now or before; the process asks none any more
 *
 * It is async-signal-safe and thread-safe. It waits at most a few milliseconds.
 */
int onefold_hint(int fd, int flags);

#ifdef __cplusplus
}
#endif

#endif
