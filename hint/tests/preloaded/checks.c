/*
 * A program that opens files in every way that the library stands before, and says what it got. Its output is the same with the library,
 * without it, and in whatever state the server is.
 *
 * usage: checks NAME, in a directory with a file "a"
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "onefold_hint.h"

extern int onefold_hint(int fd, int flags) __attribute__((weak));

static int early = -1;

/* Opens a file before main. */
__attribute__((constructor)) static void begin(void)
{
	early = open("a", O_RDONLY | O_PREFETCH);
}

static int count_descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) != -1;
	return count;
}

/* Says what a call returned, with its errno, and what the descriptor is like. */
static int report(const char *what, int fd)
{
	int number = errno;
	printf("%s: %d errno %d flags %o descriptor flags %o\n", what, fd, number, fd < 0 ? 0 : fcntl(fd, F_GETFL),
	       fd < 0 ? 0 : fcntl(fd, F_GETFD));
	errno = 77;
	return fd;
}

static void report_stream(const char *what, FILE *stream)
{
	char line[64] = "";
	report(what, stream ? fileno(stream) : -1);
	if (stream && fgets(line, sizeof line, stream))
		printf("  reads %s", line);
	if (stream)
		fclose(stream);
	errno = 77;
}

static int numbers(void)
{
	volatile int flags = O_RDWR | O_NODEDUP | O_PREFETCH;
	char template[] = "temporary.XXXXXX", another[] = "temporary.XXXXXX";
	printf("early: %d\n", early);
	errno = 77;
	report("open", open("a", O_RDONLY));
	report("open with a hint", open("a", O_RDONLY | O_PREFETCH));
	report("open of the fortified library", open("a", flags));
	report("open that makes", open("new", O_CREAT | O_EXCL | O_WRONLY | O_NODEDUP | O_CLOEXEC, 0640));
	report("open that cannot make", open("new", O_CREAT | O_EXCL | O_WRONLY | O_NODEDUP, 0640));
	report("open of nothing", open("nothing", O_RDWR | O_NODEDUP));
	report("open of a wrong address", open((const char *)8, O_RDWR | O_NODEDUP));
	report("open of a directory", open(".", O_RDONLY | O_DIRECTORY | O_PREFETCH));
	report("open of a directory to write", open(".", flags));
	report("open of a path alone", open("a", O_PATH | O_PREFETCH));
	report("open of a device", open("/dev/null", flags));
	report("open without a name", open(".", O_TMPFILE | O_RDWR | O_NODEDUP, 0600));
	report("open64", open64("a", O_WRONLY | O_APPEND | O_NODEDUP));
	report("openat", openat(AT_FDCWD, "at", O_CREAT | O_WRONLY | O_NODEDUP, 0604));
	report("openat of the fortified library", openat(AT_FDCWD, "at", flags));
	report("openat of a wrong directory", openat(999, "at", O_RDONLY | O_PREFETCH));
	report("openat64", openat64(AT_FDCWD, "at", O_RDONLY));
	report("creat", creat("created", 0400));
	report("creat64", creat64("created64", 0400));
	report("creat of nothing", creat("no/thing", 0400));
	report("mkstemp", mkstemp(template));
	report("mkostemp", mkostemp(another, O_APPEND | O_CLOEXEC | O_NODEDUP));
	report_stream("fopen", fopen("a", "re"));
	report_stream("fopen64", fopen64("written", "w+"));
	report_stream("fopen of nothing", fopen("nothing", "r"));
	report_stream("fopen in no mode", fopen("a", "?"));
	report_stream("freopen", freopen("a", "r", stdin));
	struct stat status;
	for (int i = 0; i < 2; i++) {
		stat(i ? "at" : "new", &status);
		printf("mode %o\n", status.st_mode);
	}
	printf("%d descriptors\n", count_descriptors());
	return 0;
}

static volatile sig_atomic_t handled, failed;

static void handler(int number)
{
	(void)number;
	int before = errno, fd = open("a", O_RDONLY | O_PREFETCH);
	if (fd < 0 || close(fd))
		failed = 1;
	handled++;
	errno = before;
}

/* Opens files in handlers that interrupt the opening of files, on a small stack of their own. */
static int signals(void)
{
	static char stack[16384];
	stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	int expected = dup(0);
	close(expected);
	sigaltstack(&alternative, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 20000 && (i < 2000 || handled < 200); i++) {
		int fd = open("a", O_RDONLY | O_PREFETCH);
		if (fd != expected || close(fd))
			failed = 1;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigset_t blocked;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	printf("failed %d, blocked %d, interrupted %d, %d descriptors\n", failed, sigismember(&blocked, SIGALRM) || sigismember(&blocked, SIGTERM),
	       handled > 20, count_descriptors());
	return 0;
}

static void *opener(void *argument)
{
	(void)argument;
	for (int i = 0; i < 300; i++) {
		int fd = open("a", O_RDONLY | O_PREFETCH | O_CLOEXEC);
		if (fd < 0 || close(fd))
			__atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Opens files in threads, while the process forks and the children open files. */
static int threads(void)
{
	pthread_t thread[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, opener, NULL);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		if (child == 0) {
			opener(NULL);
			_exit(failed);
		}
		int status = 0;
		waitpid(child, &status, 0);
		if (status)
			failed = 1;
	}
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	printf("failed %d, %d descriptors\n", failed, count_descriptors());
	return 0;
}

static int children(void)
{
	pid_t child = vfork();
	if (child == 0) {
		int fd = open("a", O_RDONLY | O_PREFETCH);
		_exit(fd);
	}
	int status = 0;
	waitpid(child, &status, 0);
	printf("the child of vfork got %d, ", WEXITSTATUS(status));
	printf("its parent %d, %d descriptors\n", open("a", O_RDWR | O_NODEDUP), count_descriptors());
	return 0;
}

static void cleaned(void *argument)
{
	*(int *)argument = 1;
}

static int is_cleaned;

/* Is cancelled where it opens a file, which is a cancellation point. */
static void *cancelled(void *argument)
{
	pthread_cleanup_push(cleaned, &is_cleaned);
	pthread_cancel(pthread_self());
	if (argument)
		printf("not cancelled: %p\n", (void *)fopen("a", "r"));
	else
		printf("not cancelled: %d\n", open("a", O_RDONLY | O_PREFETCH));
	pthread_cleanup_pop(0);
	return NULL;
}

static int cancellation(void)
{
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		void *result = NULL;
		is_cleaned = 0;
		pthread_create(&thread, NULL, cancelled, i ? &thread : NULL);
		pthread_join(thread, &result);
		printf("cancelled %d, cleaned %d, ", result == PTHREAD_CANCELED, is_cleaned);
	}
	printf("%d descriptors\n", count_descriptors());
	return 0;
}

/* Opens files up to the limit of descriptors. */
static int limit(void)
{
	struct rlimit few = {12, 1024}, more = {64, 1024};
	setrlimit(RLIMIT_NOFILE, &few);
	for (int i = 0; i < 12; i++)
		report("open", open("a", O_RDWR | O_NODEDUP));
	setrlimit(RLIMIT_NOFILE, &more);
	report("open", open("a", O_RDWR | O_PREFETCH));
	return 0;
}

static int is_watched, allocated;

extern void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
	allocated += is_watched;
	return __libc_malloc(size);
}

static int memory(void)
{
	is_watched = 1;
	for (int i = 0; i < 100; i++)
		close(open("a", O_RDWR | O_NODEDUP | O_PREFETCH));
	is_watched = 0;
	printf("allocated %d\n", allocated);
	return 0;
}

/* Takes little more time than without the library. */
static int patience(void)
{
	struct timespec began, ended;
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < 2000; i++)
		close(open("a", O_RDWR | O_NODEDUP | O_PREFETCH));
	clock_gettime(CLOCK_MONOTONIC, &ended);
	long ms = (ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000;
	printf("%ld\n", ms);
	return 0;
}

/* Calls the library. */
static int direct(void)
{
	int before = count_descriptors();
	int calls[][2] = {{open("a", O_RDWR), O_NODEDUP}, {open("a", O_RDONLY), O_PREFETCH}, {open("a", O_RDONLY), O_NODEDUP | O_PREFETCH},
			  {999, O_NODEDUP}, {open(".", O_RDONLY), O_NODEDUP}, {0, 0}, {open("a", O_RDONLY), O_NODEDUP | O_RDWR}};
	if (!onefold_hint)
		return 3;
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
		errno = 77;
		int result = onefold_hint(calls[i][0], calls[i][1]);
		int number = errno;
		printf("%d %s\n", result, number == 77 ? "unchanged" : strerrorname_np(number));
	}
	printf("%d more descriptors\n", count_descriptors() - before);
	return 0;
}

/* Ends in opening the file of another program. */
static int executed(void)
{
	int fd = open("a", O_RDONLY | O_PREFETCH);
	dup2(fd, 9);
	execlp("sh", "sh", "-c", "ls /proc/self/fd; md5sum <&9", NULL);
	return 1;
}

int main(int count, char **words)
{
	struct {
		const char *name;
		int (*run)(void);
	} all[] = {{"numbers", numbers}, {"signals", signals}, {"threads", threads},   {"children", children}, {"cancellation", cancellation},
		   {"limit", limit},	 {"memory", memory},   {"patience", patience}, {"direct", direct},     {"executed", executed}};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (count == 2 && !strcmp(words[1], all[i].name))
			return all[i].run();
	return 2;
}
