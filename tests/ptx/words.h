// Strong accesses of one range of memory: words with histories.
//
// A word is the address and size of strong accesses. Each store appends a message, with what its
// thread published by a release or a fence before it. A load may return any message that is not
// older than what its thread must have seen: the newest message that it knows, and the newest that
// anybody has read in an access that it knows. A read-modify-write reads the newest message and
// passes on what that one published.
//
// Two unordered accesses to a word of which one writes must have scopes that contain each other's
// threads, and must not be weak: anything else is a Conflict. Accesses of other sizes to the same
// bytes count as weak. What others than kernels write is found by looking, and is a message of
// nobody: it may be seen or not.
#pragma once

#include <memory>
#include <vector>

#include "tests/ptx/clock.h"
#include "tests/ptx/shadow.h"

namespace ringwood::ptx {

struct Strong {
  uint64_t address = 0;
  uint32_t bytes = 0;
  Order order = Order::relaxed;
  Scope scope = Scope::sys;
  uint32_t line = 0;
};

class Words {
 public:
  // `bytes` is where the memory at address `base` lies.
  Words(Shadow& shadow, uint64_t base, char* bytes) : shadow_(shadow), delta_(bytes), base_(base) {}

  uint64_t load(Agent& agent, const Strong& access, Random& random);
  void store(Agent& agent, const Strong& access, uint64_t value);
  // `change` gets the old value and returns whether there is a new one.
  template <class Change>
  uint64_t modify(Agent& agent, const Strong& access, Change change) {
    Word& word = newest(agent, access);
    const uint64_t old = word.history.back().value;
    uint64_t value = old;
    if (change(value)) append(agent, access, word, value, true);
    return old;
  }

  // A weak access met the word: it must be ordered with all strong ones.
  void check_weak(const Agent& agent, const Touch& touch, uint32_t word);
  // After a weak store, which others read as a message.
  void note_weak_write(const Agent& agent, uint32_t word, uint32_t line);
  // What is found in the word from now on, and is not of a kernel, was written by this agent.
  void expect_outside(const Agent& agent, uint32_t word) { words_[word].outside = agent.now(); }
  uint64_t stale() const { return stale_; }

 private:
  struct Message {
    uint64_t value = 0;
    Epoch epoch = 0;
    Place place;
    Scope scope = Scope::sys;
    bool weak = false;
    uint32_t line = 0;
    std::shared_ptr<const Publications> published;
  };
  struct Seen {  // the newest message that a thread has read up to a tick
    uint32_t tick = 0, index = 0, line = 0;
    Scope scope = Scope::sys;
  };
  struct Reader {
    uint32_t thread = 0;
    Place place;
    std::vector<Seen> seen;
  };
  struct Word {
    uint64_t address = 0;
    uint32_t bytes = 0;
    bool alone = true;    // no word of another size overlaps it
    bool narrow = false;  // somebody uses less than the whole system's scope
    Epoch outside = 0;
    std::vector<Message> history;
    std::vector<Trace> writers;  // strong ones, the last of each thread
    std::vector<Reader> readers;
    std::vector<Trace> weak_writes, weak_reads;
  };

  Word& word_of(const Strong& access);
  uint64_t value_now(const Word& word) const;
  void find_outside_write(Word& word);
  // All that must hold before a strong access.
  Word& checked_word(Agent& agent, const Strong& access, bool writes);
  void check_others(const Agent& agent, const Strong& access, const Word& word, bool writes);
  void check_scopes(const Agent& agent, const Strong& access, const Word& word, bool writes) const;
  uint32_t oldest_visible(const Agent& agent, const Word& word) const;
  void note_read(Agent& agent, const Strong& access, Word& word, uint32_t index);
  void receive(Agent& agent, const Strong& access, const Message& message);
  Word& newest(Agent& agent, const Strong& access);
  void append(Agent& agent, const Strong& access, Word& word, uint64_t value, bool modifies);
  std::shared_ptr<const Publications> published(Agent& agent, const Strong& access,
                                                const Message* before);

  Shadow& shadow_;
  char* delta_;
  uint64_t base_;
  std::vector<Word> words_;
  uint64_t stale_ = 0;
};

// Joins what a fence acquires, publishes what it releases. Sequentially consistent fences are
// ordered as they are executed: each learns of those before it whose scope has it, if its own has
// them.
class Fences {
 public:
  void fence(Agent& agent, Order order, Scope scope);

 private:
  struct Consistent {
    Place place;
    Scope scope = Scope::sys;
    Clock clock;
  };
  std::vector<Consistent> consistent_;
};

}  // namespace ringwood::ptx
