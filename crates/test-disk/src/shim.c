/* A disk that fails and a kernel that lies, for one process.
 *
 * Loaded in front of the C library (LD_PRELOAD), it stands between SQLite and the kernel for everything that is
 * written below one folder. It can keep a journal of what was written and when it was flushed, from which the test
 * works out what a disk would hold after a loss of power; it can fail writes and flushes; and it can lie about the
 * file system and about the process. What it does is set by a control file of one line, read at every call, so that the
 * test can change it while the process runs:
 *
 *     fail <write|sync> <suffix|any> <from> <count> <errno>   from the nth such call on, so many (0: all of them)
 *     tear <suffix> <from> <errno>                            the nth write is cut in half, all after it fail
 *     lie nfs                                                 the folder is on a network file system
 *     lie pid                                                 this is another process than it was
 *     lie rights                                              this user may read what is there, and not write it
 *
 * Every call is made and written down under one lock, so that the journal has the order in which things happened.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NFS 0x6969

/* The next definition of a function: the C library's own. */
#define REAL(name) ((__typeof__(&name))real(#name))

enum kind { WRITE = 1, TRUNCATE, SYNC, FAILED_SYNC, UNLINK };

struct head {
    uint32_t kind;
    uint32_t path_length;
    uint64_t offset;
    uint64_t length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The control line as it was last seen, and how many calls it has been asked about. */
static char current[128];
static long asked;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static int below_folder(const char *path) {
    const char *folder = getenv("SHIM_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

/* Whether the file is one of those that are looked after; finds its path. */
static int is_watched(int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below_folder(path);
}

static void read_control(char line[128]) {
    const char *path = getenv("SHIM_CONTROL");
    line[0] = 0;
    int fd = path ? REAL(open)(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    ssize_t length = read(fd, line, 127);
    line[length > 0 ? length : 0] = 0;
    close(fd);
}

static int ends_with(const char *path, const char *suffix) {
    size_t a = strlen(path), b = strlen(suffix);
    return strcmp(suffix, "any") == 0 || (a >= b && strcmp(path + a - b, suffix) == 0);
}

enum verdict { DO, FAIL, TEAR };

/* What is to become of a call. */
static enum verdict judge(const char *call, const char *path, int *error) {
    char line[128], failing[16], suffix[64];
    long from, count;
    read_control(line);
    if (strcmp(line, current) != 0) {
        strcpy(current, line);
        asked = 0;
    }
    if (sscanf(line, "tear %63s %ld %d", suffix, &from, error) == 3) {
        if (strcmp(call, "write") != 0 || !ends_with(path, suffix)) return DO;
        asked++;
        return asked < from ? DO : asked == from ? TEAR : FAIL;
    }
    if (sscanf(line, "fail %15s %63s %ld %ld %d", failing, suffix, &from, &count, error) == 5) {
        if (strcmp(call, failing) != 0 || !ends_with(path, suffix)) return DO;
        asked++;
        return asked >= from && (count == 0 || asked < from + count) ? FAIL : DO;
    }
    return DO;
}

static void note(enum kind kind, const char *path, off_t offset, const void *bytes, size_t length) {
    static int journal = -1;
    const char *name = getenv("SHIM_JOURNAL");
    if (!name) return;
    if (journal < 0) journal = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct head head = { kind, (uint32_t)strlen(path), (uint64_t)offset, length };
    struct iovec parts[3] = {
        { &head, sizeof head }, { (void *)path, head.path_length }, { (void *)bytes, bytes ? length : 0 }
    };
    if (writev(journal, parts, 3) < 0) abort();
}

/* Where a write without an offset goes. */
static off_t place(int fd) {
    struct stat stat;
    if (!(fcntl(fd, F_GETFL) & O_APPEND)) return lseek(fd, 0, SEEK_CUR);
    return fstat(fd, &stat) == 0 ? stat.st_size : 0;
}

static ssize_t do_write(int fd, const void *bytes, size_t length, off_t offset, int moves) {
    char path[PATH_MAX];
    int error = 0;
    if (!is_watched(fd, path)) {
        return moves ? REAL(write)(fd, bytes, length) : REAL(pwrite)(fd, bytes, length, offset);
    }
    pthread_mutex_lock(&lock);
    enum verdict verdict = judge("write", path, &error);
    ssize_t written = -1;
    if (verdict == TEAR) length /= 2;
    if (verdict != FAIL) {
        off_t at = moves ? place(fd) : offset;
        written = moves ? REAL(write)(fd, bytes, length) : REAL(pwrite)(fd, bytes, length, offset);
        error = errno;
        if (written > 0) note(WRITE, path, at, bytes, (size_t)written);
    }
    pthread_mutex_unlock(&lock);
    if (written < 0) errno = error;
    return written;
}

ssize_t write(int fd, const void *bytes, size_t length) { return do_write(fd, bytes, length, 0, 1); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return do_write(fd, bytes, length, at, 0); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return do_write(fd, bytes, length, at, 0); }

static int do_truncate(int fd, off_t length) {
    char path[PATH_MAX];
    int error = 0, result = -1;
    if (!is_watched(fd, path)) return REAL(ftruncate)(fd, length);
    pthread_mutex_lock(&lock);
    if (judge("write", path, &error) == DO) {
        result = REAL(ftruncate)(fd, length);
        error = errno;
        if (result == 0) note(TRUNCATE, path, length, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    if (result < 0) errno = error;
    return result;
}

int ftruncate(int fd, off_t length) { return do_truncate(fd, length); }
int ftruncate64(int fd, off_t length) { return do_truncate(fd, length); }

static int do_sync(int fd, int (*sync)(int)) {
    char path[PATH_MAX];
    int error = 0, result = -1;
    if (!is_watched(fd, path)) return sync(fd);
    pthread_mutex_lock(&lock);
    if (judge("sync", path, &error) == DO) {
        result = sync(fd);
        error = errno;
    }
    note(result == 0 ? SYNC : FAILED_SYNC, path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    if (result < 0) errno = error;
    return result;
}

int fsync(int fd) { return do_sync(fd, REAL(fsync)); }
int fdatasync(int fd) { return do_sync(fd, REAL(fdatasync)); }

int unlink(const char *path) {
    pthread_mutex_lock(&lock);
    int result = REAL(unlink)(path);
    int error = errno;
    if (result == 0 && below_folder(path)) note(UNLINK, path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static int lies(const char *about) {
    char line[128];
    read_control(line);
    return strcmp(line, about) == 0;
}

int statfs(const char *path, struct statfs *found) {
    int result = REAL(statfs)(path, found);
    if (result == 0 && below_folder(path) && lies("lie nfs")) found->f_type = NFS;
    return result;
}

int statfs64(const char *path, struct statfs64 *found) {
    int result = REAL(statfs64)(path, found);
    if (result == 0 && below_folder(path) && lies("lie nfs")) found->f_type = NFS;
    return result;
}

pid_t getpid(void) {
    pid_t process = (pid_t)syscall(SYS_getpid);
    return lies("lie pid") ? process + 1 : process;
}

/* Whether a file that is there may not be written. What is not there can be made: the folder is open to every user. */
static int is_not_ours(const char *path, int flags) {
    return (flags & O_ACCMODE) != O_RDONLY && below_folder(path) && access(path, F_OK) == 0 && lies("lie rights");
}

static int opened(const char *path, int flags, mode_t mode, __typeof__(&open) next) {
    if (!is_not_ours(path, flags)) return next(path, flags, mode);
    errno = EACCES;
    return -1;
}

/* The mode is there only if a file may be made; what is read in its place otherwise is not looked at. */
#define OPENS(name)                                       \
    int name(const char *path, int flags, ...) {          \
        va_list more;                                     \
        va_start(more, flags);                            \
        mode_t mode = (mode_t)va_arg(more, int);          \
        va_end(more);                                     \
        return opened(path, flags, mode, REAL(name));     \
    }

OPENS(open)
OPENS(open64)
