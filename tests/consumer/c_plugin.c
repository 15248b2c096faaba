/* A router in C11 with nothing but the C headers: softmax, top k, and the tables written by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <moert/abi/entry.h>
#include <moert/abi/router.h>

typedef struct plain_router {
  const moert_host_t* host;
  int64_t hidden, experts, top_k;
  uint32_t renormalize, finished;
  double eps, scale;
  float* gate; /* [experts, hidden]; NULL until it is loaded */
} plain_router_t;

static moert_code_t fail(moert_error_t* error, moert_code_t code, const char* message) {
  if (error != NULL && error->struct_size >= sizeof *error) {
    error->code = code;
    snprintf(error->where, sizeof error->where, "plain.router");
    snprintf(error->message, sizeof error->message, "%s", message);
  }
  return code;
}

/* A record that may be of another revision: what it lacks reads as zero. 0: there is none. */
static int take(void* to, size_t size, const void* from) {
  uint32_t given = 0;
  memset(to, 0, size);
  if (from != NULL) memcpy(&given, from, sizeof given);
  if (given != 0) memcpy(to, from, given < size ? given : size);
  return given != 0;
}

/* A matrix of that type and size with contiguous rows; rows -1 is any number. */
static moert_code_t expect(const moert_tensor_t* t, uint32_t dtype, int64_t rows, int64_t cols,
                           const char* otherwise, moert_error_t* error) {
  if (t != NULL && (t->flags & 0xffff0000u) != 0)
    return fail(error, MOERT_UNIMPLEMENTED, "a tensor flag is not understood");
  if (t == NULL || t->dtype != dtype || t->rank != 2 || (rows != -1 && t->shape[0] != rows) ||
      t->shape[1] != cols || (cols > 1 && t->strides[1] != 1))
    return fail(error, MOERT_INVALID_ARGUMENT, otherwise);
  return MOERT_OK;
}

static const char* refusal(const moert_routing_t* r) {
  if (strcmp(r->method, "topk") != 0) return "method, supported is topk";
  if (strcmp(r->scoring, "softmax") != 0) return "scoring, supported is softmax";
  if ((r->flags & ~(uint32_t)MOERT_ROUTING_RENORMALIZE) != 0) return "flags of the rule";
  if (r->top_k < 1 || r->top_k > r->num_experts) return "top k outside of 1 to the experts";
  if (r->n_params != 0) return "parameters of the method, supported are none";
  if (r->device.kind != MOERT_DEVICE_CPU) return "device, supported is cpu";
  if (r->activation_dtype != MOERT_DTYPE_F32) return "type of rows, supported is f32";
  return NULL;
}

static moert_code_t supports(const moert_host_t* host, const moert_routing_t* routing,
                             moert_support_t* out, moert_error_t* error) {
  moert_routing_t rule;
  const char* reason;
  (void)host;
  if (!take(&rule, sizeof rule, routing) || out == NULL || out->struct_size < sizeof *out)
    return fail(error, MOERT_INVALID_ARGUMENT, "a record is missing or too short");
  reason = refusal(&rule);
  out->verdict = reason == NULL;
  out->flags = MOERT_SUPPORT_DETERMINISTIC;
  if (reason != NULL) snprintf(out->reason, sizeof out->reason, "%s", reason);
  return MOERT_OK;
}

static moert_code_t create(const moert_host_t* host, const moert_routing_t* routing,
                           const moert_kv_t* options, uint32_t n_options, void** self,
                           moert_error_t* error) {
  moert_routing_t rule;
  plain_router_t* it;
  (void)options;
  if (!take(&rule, sizeof rule, routing) || n_options != 0)
    return fail(error, MOERT_INVALID_ARGUMENT, "no rule, or options, of which there are none");
  if (refusal(&rule) != NULL) return fail(error, MOERT_UNIMPLEMENTED, refusal(&rule));
  it = calloc(1, sizeof *it);
  if (it == NULL) return fail(error, MOERT_RESOURCE_EXHAUSTED, "no memory for a router");
  it->host = host;
  it->hidden = rule.hidden_size;
  it->experts = rule.num_experts;
  it->top_k = rule.top_k;
  it->renormalize = rule.flags & MOERT_ROUTING_RENORMALIZE;
  it->eps = rule.renormalize_eps;
  it->scale = rule.routed_scale;
  *self = it;
  return MOERT_OK;
}

static void destroy(void* self) {
  plain_router_t* it = self;
  it->host->free(it->host->ctx, it->gate);
  free(it);
}

static moert_code_t load(void* self, uint32_t which, const moert_tensor_t* t,
                         moert_error_t* error) {
  plain_router_t* it = self;
  if (which != MOERT_ROUTER_GATE_WEIGHT)
    return fail(error, MOERT_INVALID_ARGUMENT, "no such tensor");
  if (it->gate != NULL) return fail(error, MOERT_ALREADY_EXISTS, "the gate was loaded before");
  if (t == NULL || t->dtype != MOERT_DTYPE_F32 || t->rank != 2 || t->shape[0] != it->experts ||
      t->shape[1] != it->hidden)
    return fail(error, MOERT_INVALID_ARGUMENT, "the gate is not f32 [experts, hidden]");
  it->gate = it->host->alloc(it->host->ctx,
                             (uint64_t)it->experts * (uint64_t)it->hidden * sizeof *it->gate, 64);
  if (it->gate == NULL) return fail(error, MOERT_RESOURCE_EXHAUSTED, "no memory for the gate");
  for (int64_t e = 0; e < it->experts; ++e)
    for (int64_t h = 0; h < it->hidden; ++h)
      it->gate[e * it->hidden + h] = ((const float*)t->data)[e * t->strides[0] + h * t->strides[1]];
  return MOERT_OK;
}

static moert_code_t finish(void* self, moert_error_t* error) {
  plain_router_t* it = self;
  if (it->gate == NULL || it->finished)
    return fail(error, MOERT_FAILED_PRECONDITION,
                "the gate was not loaded, or finish called twice");
  it->finished = 1;
  return MOERT_OK;
}

static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error) {
  (void)self, (void)tokens, (void)error;
  *bytes = 0;
  return MOERT_OK;
}

/* What logits and route have in common. */
static moert_code_t begin(const plain_router_t* it, const moert_router_args_t* from,
                          moert_router_args_t* args, moert_error_t* error) {
  if (!it->finished) return fail(error, MOERT_FAILED_PRECONDITION, "a call before finish");
  if (!take(args, sizeof *args, from)) return fail(error, MOERT_INVALID_ARGUMENT, "no arguments");
  if (args->flags != 0) return fail(error, MOERT_UNIMPLEMENTED, "flags of moert_router_args");
  return expect(args->logits, MOERT_DTYPE_F32, -1, it->experts, "logits", error);
}

static moert_code_t logits(void* self, const moert_router_args_t* given, moert_error_t* error) {
  const plain_router_t* it = self;
  moert_router_args_t args;
  moert_code_t code = begin(it, given, &args, error);
  if (code == MOERT_OK)
    code = expect(args.hidden, MOERT_DTYPE_F32, args.logits->shape[0], it->hidden, "hidden", error);
  if (code != MOERT_OK) return code;
  for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
    const float* row = (const float*)args.hidden->data + t * args.hidden->strides[0];
    for (int64_t e = 0; e < it->experts; ++e) {
      double sum = 0;
      for (int64_t h = 0; h < it->hidden; ++h)
        sum += (double)row[h] * (double)it->gate[e * it->hidden + h];
      ((float*)args.logits->data)[t * args.logits->strides[0] + e] = (float)sum;
    }
  }
  return MOERT_OK;
}

/* NaN counts as less than every number, so that ids stay valid whatever the logits. */
static double key(float logit) { return isnan(logit) ? -HUGE_VAL : (double)logit; }

/* The best expert that is not among the first n ids; the lower id among equals; -1: none is left. */
static int64_t best_but(const plain_router_t* it, const float* row, const int32_t* ids, int64_t n) {
  int64_t best = -1;
  for (int64_t e = 0; e < it->experts; ++e) {
    int64_t j = 0;
    while (j < n && ids[j] != e) ++j;
    if (j == n && (best < 0 || key(row[e]) > key(row[best]))) best = e;
  }
  return best;
}

/* What softmax divides by the sum; NaN has no share, and infinite logits share everything. */
static double share(float logit, double largest) {
  if (isnan(logit) || largest == -HUGE_VAL) return 0;
  return (double)logit == largest ? 1 : exp((double)logit - largest);
}

/* Probability of each expert in `ids`, renormalised and scaled as the rule says. The margin is
 * between the last of them and the best that was left out. */
static float weigh(const plain_router_t* it, const float* row, const int32_t* ids, float* weights) {
  double largest = -HUGE_VAL, all = 0, chosen = 0;
  const int64_t next = best_but(it, row, ids, it->top_k);
  for (int64_t e = 0; e < it->experts; ++e)
    if (key(row[e]) > largest) largest = (double)row[e];
  for (int64_t e = 0; e < it->experts; ++e) all += share(row[e], largest);
  if (all == 0) all = 1;
  for (int64_t j = 0; j < it->top_k; ++j) chosen += share(row[ids[j]], largest) / all;
  for (int64_t j = 0; j < it->top_k; ++j) {
    double weight = share(row[ids[j]], largest) / all;
    if (it->renormalize != 0) weight = chosen + it->eps == 0 ? 0 : weight / (chosen + it->eps);
    weights[j] = (float)(weight * it->scale);
  }
  if (next < 0) return HUGE_VALF;
  return (float)((share(row[ids[it->top_k - 1]], largest) - share(row[next], largest)) / all);
}

/* Rows of -1 route as usual; the ids of other rows must be distinct experts. */
static moert_code_t check_forced(const plain_router_t* it, const moert_tensor_t* forced,
                                 moert_error_t* error) {
  for (int64_t t = 0; forced != NULL && t < forced->shape[0]; ++t) {
    const int32_t* row = (const int32_t*)forced->data + t * forced->strides[0];
    for (int64_t j = 0; j < it->top_k; ++j) {
      int bad = row[j] < -1 || row[j] >= it->experts || (row[j] < 0) != (row[0] < 0);
      for (int64_t i = 0; i < j; ++i) bad |= row[j] >= 0 && row[i] == row[j];
      if (bad) return fail(error, MOERT_INVALID_ARGUMENT, "forced ids are no distinct experts");
    }
  }
  return MOERT_OK;
}

static moert_code_t check_route(const plain_router_t* it, const moert_router_args_t* args,
                                moert_error_t* error) {
  const int64_t n = args->logits->shape[0], k = it->top_k;
  moert_code_t code = expect(args->ids, MOERT_DTYPE_I32, n, k, "ids", error);
  if (code == MOERT_OK) code = expect(args->weights, MOERT_DTYPE_F32, n, k, "weights", error);
  if (code == MOERT_OK && args->forced_ids != NULL)
    code = expect(args->forced_ids, MOERT_DTYPE_I32, n, k, "forced ids", error);
  return code == MOERT_OK ? check_forced(it, args->forced_ids, error) : code;
}

static moert_code_t route(void* self, const moert_router_args_t* given, moert_error_t* error) {
  const plain_router_t* it = self;
  moert_router_args_t args;
  moert_code_t code = begin(it, given, &args, error);
  if (code == MOERT_OK) code = check_route(it, &args, error);
  if (code != MOERT_OK) return code;
  for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
    const float* row = (const float*)args.logits->data + t * args.logits->strides[0];
    int32_t* ids = (int32_t*)args.ids->data + t * args.ids->strides[0];
    float* weights = (float*)args.weights->data + t * args.weights->strides[0];
    const moert_tensor_t* forced = args.forced_ids;
    const int32_t* replay =
        forced == NULL ? NULL : (const int32_t*)forced->data + t * forced->strides[0];
    float margin;
    for (int64_t j = 0; j < it->top_k; ++j)
      ids[j] = replay != NULL && replay[0] >= 0 ? replay[j] : (int32_t)best_but(it, row, ids, j);
    margin = weigh(it, row, ids, weights);
    if (args.margins != NULL) ((float*)args.margins->data)[t * args.margins->strides[0]] = margin;
  }
  return MOERT_OK;
}

static const moert_router_t table = {
    sizeof(moert_router_t), 0, supports, create, destroy, load, finish, workspace, logits, route};
static const moert_feature_t router = {
    sizeof(moert_feature_t), MOERT_RANK_LOW, MOERT_KIND_ROUTER, "plain.router", NULL, 0, 0, &table};
static const moert_feature_t* const features[] = {&router};
static const moert_plugin_t plugin = {sizeof(moert_plugin_t),
                                      MOERT_ABI_MAJOR,
                                      MOERT_ABI_MINOR,
                                      0,
                                      "org.example.plain",
                                      "plain",
                                      "Example",
                                      "0.9.0",
                                      NULL,
                                      features,
                                      1,
                                      0,
                                      NULL,
                                      NULL};

MOERT_DEFINE_NOTE("org.example.plain", "0.9.0", 0u);

MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host);
const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t* host) {
  return host != NULL && host->abi_major == MOERT_ABI_MAJOR ? &plugin : NULL;
}
