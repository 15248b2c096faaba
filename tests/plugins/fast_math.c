/* Changes the floating-point environment wherever it gets the chance: when it is opened (start-up code
 * of -ffast-math, where the compiler has one, and a constructor), asked, started and stopped.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>

#include <moert/abi/entry.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

MOERT_DEFINE_NOTE("org.zoo.fast_math", "1.0.0", 0u);

static void change(void) {
  fesetround(FE_TOWARDZERO);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040u); /* flush to zero, denormals are zero */
#elif defined(__aarch64__)
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | (1u << 24)));
#endif
}

__attribute__((constructor)) static void opened(void) { change(); }

static moert_code_t start(const moert_host_t* host, const moert_kv_t* options, uint32_t n_options,
                          moert_error_t* error) {
  (void)host, (void)options, (void)n_options, (void)error;
  change();
  return MOERT_OK;
}

static const moert_feature_t feature = {
    sizeof(moert_feature_t), 0, "zoo.unknown/1", "fast_math.x", 0, 0, 0, 0};
static const moert_feature_t* const features[] = {&feature};
static const moert_plugin_t plugin = {sizeof(moert_plugin_t),
                                      MOERT_ABI_MAJOR,
                                      MOERT_ABI_MINOR,
                                      0,
                                      "org.zoo.fast_math",
                                      "fast_math",
                                      "The zoo",
                                      "1.0.0",
                                      0,
                                      features,
                                      1,
                                      0,
                                      start,
                                      change};

MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host);
MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host) {
  (void)host;
  change();
  return &plugin;
}
