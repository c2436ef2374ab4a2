// A store in one file: a log of records behind a header (store_records.h).
//
// Every change is one append under flock. A process that is killed in the middle leaves a tail that
// is not a whole record, and the next writer cuts it off, so a value is there entirely or not at
// all. The file is opened anew for every call, so that a lock is never shared with a forked child.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <optional>

#include "transports/base/fork_guard.h"
#include "transports/bootstrap/private_file.h"
#include "transports/bootstrap/sockets.h"
#include "transports/bootstrap/store.h"
#include "transports/bootstrap/store_messages.h"
#include "transports/bootstrap/store_records.h"
#include "transports/bootstrap/store_value.h"

namespace ringwood {
namespace {

using store_messages::kMaxKey;
using store_messages::kMaxValue;

// Holders of the lock do a few system calls; one that was stopped meanwhile must not delay all
// others for ever, nor beyond their deadlines.
constexpr Duration kLockTime = std::chrono::seconds(30);

Deadline lock_time(Deadline deadline = Deadline::never()) {
  return deadline.within(kLockTime).not_before(kMinTime);
}

class FileStore final : public Store {
 public:
  explicit FileStore(std::string path) : path_(std::move(path)) {
    Locked(*this, lock_time()).refresh();
  }

  ~FileStore() override {
    try {
      Locked locked(*this, lock_time());
      locked.refresh();
      if (values_.empty()) unlink(path_.c_str());
    } catch (const Error&) {
      // The file stays; if the folder or its permissions are gone, there is nothing to clean up.
    }
  }

  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    if (key.size() > kMaxKey || value.size() > kMaxValue) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("store: a key has at most {} bytes and a value {}; these have {} and {}",
                      kMaxKey, kMaxValue, key.size(), value.size()));
    }
    Locked locked(*this, lock_time(deadline));
    locked.refresh();
    locked.append(key, value);
  }

  std::string get(const std::string& key, Deadline deadline) override {
    auto began = Clock::now();
    Backoff backoff;
    for (;;) {
      {
        Locked locked(*this, lock_time(deadline));
        locked.refresh();
        if (auto found = values_.find(key); found != values_.end()) return found->second;
      }
      if (deadline.passed()) throw key_timeout(key, began, path_);
      backoff.sleep(deadline);
    }
  }

  bool has(const std::string& key, Deadline deadline) override {
    Locked locked(*this, lock_time(deadline));
    locked.refresh();
    return values_.count(key) > 0;
  }

  int64_t add(const std::string& key, int64_t delta, Deadline deadline) override {
    Locked locked(*this, lock_time(deadline));
    locked.refresh();
    auto found = values_.find(key);
    int64_t sum = add_to_value(key, found == values_.end() ? "" : found->second, delta);
    if (delta != 0) locked.append(key, std::to_string(sum));
    return sum;
  }

  void remove(const std::string& key) override {
    Locked locked(*this, lock_time());
    locked.refresh();
    if (values_.count(key) > 0) locked.append(key, std::nullopt);
  }

 private:
  // The file, open and locked against all threads and processes.
  class Locked {
   public:
    Locked(FileStore& store, Deadline deadline) : store_(store), lock_(store.mutex_) {
      // If the file was removed while this call waited for its lock, no other process sees the one
      // that is locked.
      do {
        close_connection(fd_);
        fd_ = open_own(store.path_);
        close_on_fork(fd_);
        wait_for_lock(deadline);
      } while (removed());
    }
    ~Locked() { close_connection(fd_); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

    // Brings the values up to date; cuts off a tail that is not a whole record.
    void refresh() {
      uint64_t bytes = size();
      if (bytes < LogHeader::kBytes && may_begin()) {
        write_header(Clock::now().time_since_epoch().count());
        bytes = LogHeader::kBytes;
      }
      LogHeader header;
      if (!decode(read_at(0, LogHeader::kBytes), header) || header.magic != LogHeader::kMagic) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} is not a Ringwood store; name a file that does not exist",
                                store_.path_));
      }
      if (header.epoch != store_.epoch_ || inode_ != store_.inode_ || bytes < store_.end_) {
        store_.values_.clear();
        store_.end_ = LogHeader::kBytes;
        store_.epoch_ = header.epoch;
        store_.inode_ = inode_;
      }
      parse(read_at(store_.end_, bytes - store_.end_));
      if (store_.end_ < bytes && ftruncate(fd_, static_cast<off_t>(store_.end_)) != 0)
        fail("ftruncate");
    }

    // Precondition: refreshed.
    void append(const std::string& key, const std::optional<std::string>& value) {
      std::string record = encode_record({key, value});
      write_at(store_.end_, record);
      parse(record);
      if (!store_.values_.empty()) return;
      // Nothing is left: starts over, so that jobs that clean up never make the file grow.
      write_header(store_.epoch_ + 1);
      if (ftruncate(fd_, LogHeader::kBytes) != 0) fail("ftruncate");
      store_.epoch_ += 1;
      store_.end_ = LogHeader::kBytes;
    }

   private:
    static int open_own(const std::string& path) {
      auto [file, why] = open_private_file(path, O_RDWR | O_CREAT);
      if (!file)
        throw Error(ErrorCode::system,
                    fmt::format("store {}: {}; the file must be this user's alone, and need not "
                                "exist",
                                path, why));
      return file.release();
    }

    [[noreturn]] void fail(const char* call) {
      int error = errno;
      close_connection(fd_);
      fd_ = -1;
      throw Error(ErrorCode::system,
                  fmt::format("store {}: {}", store_.path_, system_message(call, error)));
    }

    void wait_for_lock(Deadline deadline) {
      Backoff backoff;
      while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) fail("flock");
        if (deadline.passed()) {
          errno = ETIMEDOUT;
          fail("flock (another process holds the lock)");
        }
        backoff.sleep(deadline);
      }
    }

    bool removed() {
      struct stat open_file {};
      struct stat named {};
      if (fstat(fd_, &open_file) != 0) fail("fstat");
      inode_ = open_file.st_ino;
      return lstat(store_.path_.c_str(), &named) != 0 || named.st_ino != open_file.st_ino ||
             named.st_dev != open_file.st_dev;
    }

    // The file is empty, or contains a part of a header.
    bool may_begin() { return encode(LogHeader{}).starts_with(read_at(0, sizeof(uint64_t))); }

    uint64_t size() {
      struct stat status {};
      if (fstat(fd_, &status) != 0) fail("fstat");
      return static_cast<uint64_t>(status.st_size);
    }

    void write_header(uint64_t epoch) { write_at(0, encode(LogHeader{.epoch = epoch})); }

    std::string read_at(uint64_t at, uint64_t bytes) {
      std::string data(bytes, '\0');
      for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd_, data.data() + done, bytes - done, static_cast<off_t>(at + done));
        if (got < 0 && errno != EINTR) fail("read");
        if (got == 0) {
          data.resize(done);
          break;
        }
        if (got > 0) done += static_cast<size_t>(got);
      }
      return data;
    }

    void write_at(uint64_t at, std::string_view data) {
      while (!data.empty()) {
        ssize_t done = pwrite(fd_, data.data(), data.size(), static_cast<off_t>(at));
        if (done < 0 && errno != EINTR) fail("write");
        if (done <= 0) continue;
        data.remove_prefix(static_cast<size_t>(done));
        at += static_cast<uint64_t>(done);
      }
    }

    // Takes the whole records at the beginning of `log`.
    void parse(std::string_view log) {
      LogRecord record;
      while (const size_t bytes = decode_record(log, record)) {
        if (record.value) {
          store_.values_[std::string(record.key)] = *record.value;
        } else {
          store_.values_.erase(std::string(record.key));
        }
        log.remove_prefix(bytes);
        store_.end_ += bytes;
      }
    }

    FileStore& store_;
    std::lock_guard<std::mutex> lock_;
    int fd_ = -1;
    ino_t inode_ = 0;
  };

  const std::string path_;
  std::mutex mutex_;
  // What was read so far: the values after the first `end_` bytes of this inode and epoch.
  std::map<std::string, std::string> values_;
  uint64_t end_ = 0, epoch_ = 0;
  ino_t inode_ = 0;
};

}  // namespace

std::shared_ptr<Store> file_store(const std::string& path) {
  return std::make_shared<FileStore>(path);
}

}  // namespace ringwood
