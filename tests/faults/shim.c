/* Fails some calls of the C library, for LD_PRELOAD.
 *
 * BOCHNER_FAULT=NAME:FIRST:LAST:ERROR fails the calls FIRST to LAST (from 1) of the function NAME with errno ERROR;
 * ERROR 0 is a short write of half of the bytes. BOCHNER_FAULT_COUNTS=FILE writes a line "NAME CALLS" per function when
 * the process ends. Children run without faults.
 *
 * Calls inside the C library are not seen. For files of stdio the functions of stdio fail; streams in memory and
 * standard error do not count. The clock of a thread advances by a millisecond per call, so that files which contain
 * times are the same in every run; only the clock of the thread pool, which is read while threads wait, shows the
 * time. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALLS(X)                                                                                                       \
    X(read)                                                                                                            \
    X(pread)                                                                                                           \
    X(write)                                                                                                           \
    X(pwrite)                                                                                                          \
    X(fsync)                                                                                                           \
    X(fdatasync)                                                                                                       \
    X(rename)                                                                                                          \
    X(link)                                                                                                            \
    X(open)                                                                                                            \
    X(mkdir)                                                                                                           \
    X(mmap)                                                                                                            \
    X(ftruncate)                                                                                                       \
    X(close)                                                                                                           \
    X(pthread_create)                                                                                                  \
    X(fopen)                                                                                                           \
    X(fdopen)                                                                                                          \
    X(fread)                                                                                                           \
    X(fwrite)                                                                                                          \
    X(fflush)                                                                                                          \
    X(fclose)                                                                                                          \
    X(opendir)
#define NUMBER(name) NUMBER_##name,
#define NAME(name)   #name,
enum { CALLS(NUMBER) COUNT };
static const char *const names[] = {CALLS(NAME)};

static atomic_long calls[COUNT];
static long first, last;
static int failing = -1, failure;

__attribute__((constructor)) static void start(void)
{
    char name[32];
    const char *text = getenv("BOCHNER_FAULT");
    unsetenv("LD_PRELOAD");
    if (!text) return;
    if (sscanf(text, "%31[a-z_]:%ld:%ld:%d", name, &first, &last, &failure) != 4) abort();
    for (int i = 0; i < COUNT; i++)
        if (strcmp(names[i], name) == 0) failing = i;
    if (failing < 0) abort();
}

static void *real(int number)
{
    return dlsym(RTLD_NEXT, names[number]);
}
#define REAL(name) ((__typeof__(&name))real(NUMBER_##name))

/* Counts a call. Returns true, with errno set, if it has to fail. */
static bool fails(int number)
{
    const long n = atomic_fetch_add(&calls[number], 1) + 1;
    if (number != failing || n < first || n > last) return false;
    errno = failure;
    return true;
}
#define FAILS(name) fails(NUMBER_##name)

__attribute__((destructor)) static void finish(void)
{
    const char *path = getenv("BOCHNER_FAULT_COUNTS");
    FILE *out = path ? REAL(fopen)(path, "w") : NULL;
    for (int i = 0; out && i < COUNT; i++)
        if (calls[i]) fprintf(out, "%s %ld\n", names[i], (long)calls[i]);
    if (out) REAL(fclose)(out);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static _Thread_local long milliseconds = 1000000;
    if (clock == CLOCK_MONOTONIC_RAW) return (int)syscall(SYS_clock_gettime, clock, now);
    const long t = milliseconds++;
    *now = (struct timespec){.tv_sec = t / 1000, .tv_nsec = t % 1000 * 1000000};
    return 0;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

ssize_t read(int fd, void *bytes, size_t size)
{
    return FAILS(read) ? -1 : REAL(read)(fd, bytes, size);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t at)
{
    return FAILS(pread) ? -1 : REAL(pread)(fd, bytes, size, at);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    if (fd == STDERR_FILENO || !FAILS(write)) return REAL(write)(fd, bytes, size);
    return failure ? -1 : REAL(write)(fd, bytes, (size + 1) / 2);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    if (!FAILS(pwrite)) return REAL(pwrite)(fd, bytes, size, at);
    return failure ? -1 : REAL(pwrite)(fd, bytes, (size + 1) / 2, at);
}

int fsync(int fd)
{
    return FAILS(fsync) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return FAILS(fdatasync) ? -1 : REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t size)
{
    return FAILS(ftruncate) ? -1 : REAL(ftruncate)(fd, size);
}

/* The descriptor is closed in any case, as on Linux. */
int close(int fd)
{
    const bool failed = FAILS(close);
    const int result = REAL(close)(fd);
    if (failed) errno = failure;
    return failed ? -1 : result;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return FAILS(open) ? -1 : REAL(open)(path, flags, mode);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t at)
{
    return FAILS(mmap) ? MAP_FAILED : REAL(mmap)(address, size, protection, flags, fd, at);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

int rename(const char *from, const char *to)
{
    return FAILS(rename) ? -1 : REAL(rename)(from, to);
}

int link(const char *from, const char *to)
{
    return FAILS(link) ? -1 : REAL(link)(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    return FAILS(mkdir) ? -1 : REAL(mkdir)(path, mode);
}

DIR *opendir(const char *path)
{
    return FAILS(opendir) ? NULL : REAL(opendir)(path);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return FAILS(pthread_create) ? failure : REAL(pthread_create)(thread, attributes, run, argument);
}

/* ---- stdio ------------------------------------------------------------------------------------------------------- */

static bool counts(FILE *file)
{
    return file && fileno(file) >= 0 && fileno(file) != STDERR_FILENO;
}

/* Sets the error indicator of a stream of the GNU C library. */
static void spoil(FILE *file)
{
    enum { ERROR_SEEN = 0x20 };
    file->_flags |= ERROR_SEEN;
    errno = failure;
}

FILE *fopen(const char *path, const char *mode)
{
    return FAILS(fopen) ? NULL : REAL(fopen)(path, mode);
}

FILE *fdopen(int fd, const char *mode)
{
    return FAILS(fdopen) ? NULL : REAL(fdopen)(fd, mode);
}

size_t fread(void *bytes, size_t size, size_t count, FILE *file)
{
    if (!counts(file) || !FAILS(fread)) return REAL(fread)(bytes, size, count, file);
    spoil(file);
    return 0;
}

size_t fwrite(const void *bytes, size_t size, size_t count, FILE *file)
{
    if (!counts(file) || !FAILS(fwrite)) return REAL(fwrite)(bytes, size, count, file);
    spoil(file);
    return 0;
}

int fflush(FILE *file)
{
    if (!counts(file) || !FAILS(fflush)) return REAL(fflush)(file);
    spoil(file);
    return EOF;
}

int fclose(FILE *file)
{
    const bool failed = counts(file) && FAILS(fclose);
    const int result = REAL(fclose)(file);
    if (failed) errno = failure;
    return failed ? EOF : result;
}
