// cpu.ref of moert.router/1: logits in f64, the rule of routing.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/router.hpp>

#include "matrix.hpp"
#include "router_tensors.hpp"
#include "routing.hpp"

namespace moert::cpu {

class RefRouter final : public Router {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"methods", kMethods}, {"scorings", kScorings}};
  static constexpr FeatureInfo kFeature = {"cpu.ref", MOERT_RANK_REFERENCE, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_routing_t& routing);
  RefRouter(const Host& host, const moert_routing_t& routing, const Options& options);

  void load(uint32_t which, const moert_tensor_t& tensor) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void logits(const moert_router_args_t& args) override;
  void route(const moert_router_args_t& args) override;

 private:
  struct Rows;
  Rows check_route(const moert_router_args_t& args);
  // Whether row t is replayed; throws for one that is neither that nor all -1.
  bool forced(const Rows& rows, int64_t t) const;
  // Throws for a token id that is neither -1 nor in the table.
  void check_token(const Rows& rows, int64_t t) const;
  void read_hidden(const Matrix& hidden, int64_t t, double* x) const;
  // Ids of row t if they are given, as forced ones or by the token table.
  enum class Given { none, all, absent };
  Given given_ids(const Rows& rows, int64_t t, int32_t* ids) const;
  void route_row(const Rows& rows, int64_t t, double* scratch) const;
  void expect_finished() const;
  void expect_tokens(int64_t tokens) const;

  Host host_;
  Routing rule_;
  RouterTensors tensors_;
  uint32_t activation_dtype_;
  int64_t hidden_size_, max_tokens_;
  bool finished_ = false;
};

}  // namespace moert::cpu
