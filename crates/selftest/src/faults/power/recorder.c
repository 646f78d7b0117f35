/* Logs a program's writes to a database's files, in order, so that the disk after a power failure can be rebuilt: see
   ../power.rs. Loaded before the C library (LD_PRELOAD), compiled by `selftest faults`.

   RECAPD_POWER_FILE is the database, RECAPD_POWER_LOG the log. A record is a line `W|T|S|U file offset length`, followed by
   the bytes of a write. An operation and its record are atomic with respect to others. Each sync is delayed by up to
   RECAPD_POWER_SYNC_US microseconds, as on a disk, so that faults hit unsynced data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static const char *database;
static unsigned sync_us;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_unlink)(const char *);

__attribute__((constructor)) static void begin(void) {
  real_write = dlsym(RTLD_NEXT, "write");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_unlink = dlsym(RTLD_NEXT, "unlink");
  database = getenv("RECAPD_POWER_FILE");
  const char *path = getenv("RECAPD_POWER_LOG"), *us = getenv("RECAPD_POWER_SYNC_US");
  sync_us = us ? (unsigned)atoi(us) : 0;
  if (database && path) log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* 'd' the database, 'w' its write-ahead log, 'j' its journal; 0 any other file. */
static char file_at(const char *path) {
  size_t length = strlen(database);
  if (strncmp(path, database, length) != 0) return 0;
  const char *end = path + length;
  return *end == 0 ? 'd' : strcmp(end, "-wal") == 0 ? 'w' : strcmp(end, "-journal") == 0 ? 'j' : 0;
}

static char file_of(int fd) {
  char link[64], path[4096];
  if (log_fd < 0 || fd < 0 || fd == log_fd) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return file_at(path);
}

static void record(char what, char file, off_t offset, const void *bytes, size_t length) {
  char head[64];
  int size = snprintf(head, sizeof head, "%c%c %lld %zu\n", what, file, (long long)offset, length);
  struct iovec parts[2] = {{head, (size_t)size}, {(void *)bytes, bytes ? length : 0}};
  int before = errno;
  if (writev(log_fd, parts, 2) != (ssize_t)(parts[0].iov_len + parts[1].iov_len)) abort();
  errno = before;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
  char file = file_of(fd);
  if (!file) return real_pwrite(fd, bytes, length, offset);
  pthread_mutex_lock(&lock);
  ssize_t done = real_pwrite(fd, bytes, length, offset);
  if (done > 0) record('W', file, offset, bytes, (size_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

ssize_t write(int fd, const void *bytes, size_t length) {
  char file = file_of(fd);
  if (!file) return real_write(fd, bytes, length);
  pthread_mutex_lock(&lock);
  off_t offset = lseek(fd, 0, SEEK_CUR);
  ssize_t done = real_write(fd, bytes, length);
  if (done > 0) record('W', file, offset, bytes, (size_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}

int ftruncate64(int fd, off_t length) {
  char file = file_of(fd);
  if (!file) return real_ftruncate(fd, length);
  pthread_mutex_lock(&lock);
  int failed = real_ftruncate(fd, length);
  if (!failed) record('T', file, length, NULL, 0);
  pthread_mutex_unlock(&lock);
  return failed;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int sync_with(int (*real)(int), int fd) {
  char file = file_of(fd);
  if (!file) return real(fd);
  if (sync_us) usleep((unsigned)((uintptr_t)pthread_self() ^ (unsigned)lseek(fd, 0, SEEK_END)) % sync_us);
  pthread_mutex_lock(&lock);
  int failed = real(fd);
  if (!failed) record('S', file, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return failed;
}
int fsync(int fd) { return sync_with(real_fsync, fd); }
int fdatasync(int fd) { return sync_with(real_fdatasync, fd); }

int unlink(const char *path) {
  char file = log_fd < 0 ? 0 : file_at(path);
  if (!file) return real_unlink(path);
  pthread_mutex_lock(&lock);
  int failed = real_unlink(path);
  if (!failed) record('U', file, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return failed;
}
