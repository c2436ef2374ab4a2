// What a communicator consists of, for those who need more than its interface: tools that measure
// its links, and tests that change its parameters. Every Communicator of Communicator::create() is
// one.
#pragma once

namespace ringwood {

class Communicator;
class Mesh;
class GroupPlanner;

class GroupParts {
 public:
  virtual const Mesh& mesh() const = 0;
  virtual const GroupPlanner& plans() const = 0;

 protected:
  ~GroupParts() = default;
};

// As long as the group lives.
const GroupParts& parts_of(const Communicator& group);

}  // namespace ringwood
