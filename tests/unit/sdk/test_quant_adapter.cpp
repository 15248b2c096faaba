// The quant methods' adapter: a scheme is a text, and nothing is made of none.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <moert/sdk/quant_method.hpp>

namespace {

using namespace moert;

class AnyScheme : public QuantMethod {
 public:
  static constexpr FeatureInfo kFeature = {"test.any"};
  static Support supports(const Host&, std::string_view scheme) {
    return scheme == "any" ? Support::yes() : Support::no("only 'any'");
  }
  AnyScheme(const Host&, std::string_view, const Options&) {}
  std::vector<moert_quant_param_t> parameters(int64_t, int64_t) const override { return {}; }
  void check(const moert_tensor_t&) const override {}
  void decode(const moert_tensor_t&, int64_t, int64_t, float*, int64_t) const override {}
};

TEST(QuantAdapter, ANullSchemeIsAnErrorNotACrash) {
  const moert_quant_method_t& table = QuantMethod::Kind::table<AnyScheme>;
  moert_host_t host{};
  host.struct_size = sizeof host;
  moert_support_t support{};
  support.struct_size = sizeof support;
  moert_error_t error{sizeof error, 0, 0, {}, {}};
  void* self = nullptr;
  EXPECT_EQ(table.supports(&host, nullptr, &support, &error), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(table.create(&host, nullptr, nullptr, 0, &self, &error), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(self, nullptr);
  EXPECT_STREQ(error.message, "the scheme is NULL");
  ASSERT_EQ(table.supports(&host, "any", &support, &error), MOERT_OK);
  EXPECT_EQ(support.verdict, 1);
  ASSERT_EQ(table.create(&host, "any", nullptr, 0, &self, &error), MOERT_OK);
  table.destroy(self);
}

}  // namespace
