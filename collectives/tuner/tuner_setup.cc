// TunerSetup: what the ranks agree on before the first choice.
#include "collectives/tuner/machine/group_model.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/tuner/plugin/plugin_tuner.h"
#include "collectives/tuner/tuner.h"
#include "collectives/tuner/tuning/group_tuning.h"

namespace ringwood {

TunerSetup::TunerSetup(int rank, int size, const Options& options)
    : options_(options),
      tuning_(std::make_unique<GroupTuning>(rank, size, options)),
      plugin_(load_plugin(options)) {}

TunerSetup::~TunerSetup() = default;

std::string TunerSetup::announcement() const { return tuning_->announcement(); }

LinkAgreement TunerSetup::links() { return tuning_->links(); }

void TunerSetup::read(Mesh& mesh) { tuning_->unmark(mesh.announcement); }

void TunerSetup::agree(Mesh& mesh) {
  agree_on_network(mesh, options_);
  tuning_->agree(mesh);
}

std::shared_ptr<const Tuner> TunerSetup::tuner(const Mesh& mesh) const {
  auto model =
      std::make_shared<ModelTuner>(machine_model_of(mesh), options_, parse_tuning(tuning_->text()));
  if (!plugin_) return model;
  return with_plugin(std::move(model), *plugin_, mesh.size, options_);
}

void agree_on_network(Mesh& mesh, const Options& options) {
  agree_on_parameters(mesh, with(options, mesh.link_settings));
}

std::string parameters_of(const Mesh& mesh) { return print(machine_model_of(mesh)); }

}  // namespace ringwood
