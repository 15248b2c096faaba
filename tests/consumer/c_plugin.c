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
  uint32_t renormalize;
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

static moert_code_t supports(const moert_host_t* host, const moert_routing_t* routing,
                             moert_support_t* out, moert_error_t* error) {
  const char* reason = NULL;
  (void)host;
  if (routing->struct_size < sizeof *routing || out->struct_size < sizeof *out)
    return fail(error, MOERT_INVALID_ARGUMENT, "a record of another revision");
  if (strcmp(routing->method, "topk") != 0) reason = "method, supported is topk";
  if (strcmp(routing->scoring, "softmax") != 0) reason = "scoring, supported is softmax";
  if ((routing->flags & ~(uint32_t)MOERT_ROUTING_RENORMALIZE) != 0) reason = "flags of the rule";
  if (routing->top_k < 1 || routing->top_k > routing->num_experts) reason = "top k";
  if (routing->n_params != 0) reason = "parameters of the method, supported are none";
  if (routing->device.kind != MOERT_DEVICE_CPU) reason = "device, supported is cpu";
  if (routing->activation_dtype != MOERT_DTYPE_F32) reason = "type of rows, supported is f32";
  out->verdict = reason == NULL;
  out->flags = MOERT_SUPPORT_DETERMINISTIC;
  if (reason != NULL) snprintf(out->reason, sizeof out->reason, "%s", reason);
  return MOERT_OK;
}

static moert_code_t create(const moert_host_t* host, const moert_routing_t* routing,
                           const moert_kv_t* options, uint32_t n_options, void** self,
                           moert_error_t* error) {
  plain_router_t* it = calloc(1, sizeof *it);
  (void)options;
  if (n_options != 0) {
    free(it);
    return fail(error, MOERT_INVALID_ARGUMENT, "plain.router has no options");
  }
  if (it == NULL) return fail(error, MOERT_RESOURCE_EXHAUSTED, "no memory for a router");
  it->host = host;
  it->hidden = routing->hidden_size;
  it->experts = routing->num_experts;
  it->top_k = routing->top_k;
  it->renormalize = routing->flags & MOERT_ROUTING_RENORMALIZE;
  it->eps = routing->renormalize_eps;
  it->scale = routing->routed_scale;
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
  if (t->dtype != MOERT_DTYPE_F32 || t->rank != 2 || t->shape[0] != it->experts ||
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
  const plain_router_t* it = self;
  return it->gate != NULL ? MOERT_OK
                          : fail(error, MOERT_FAILED_PRECONDITION, "the gate was not loaded");
}

static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* error) {
  (void)self, (void)tokens, (void)error;
  *bytes = 0;
  return MOERT_OK;
}

static moert_code_t logits(void* self, const moert_router_args_t* args, moert_error_t* error) {
  const plain_router_t* it = self;
  const moert_tensor_t *x = args->hidden, *out = args->logits;
  if (args->flags != 0) return fail(error, MOERT_UNIMPLEMENTED, "flags of moert_router_args");
  for (int64_t t = 0; t < x->shape[0]; ++t) {
    const float* row = (const float*)x->data + t * x->strides[0];
    for (int64_t e = 0; e < it->experts; ++e) {
      double sum = 0;
      for (int64_t h = 0; h < it->hidden; ++h)
        sum += (double)row[h] * (double)it->gate[e * it->hidden + h];
      ((float*)out->data)[t * out->strides[0] + e] = (float)sum;
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

static moert_code_t route(void* self, const moert_router_args_t* args, moert_error_t* error) {
  const plain_router_t* it = self;
  const moert_tensor_t *in = args->logits, *forced = args->forced_ids;
  if (args->flags != 0) return fail(error, MOERT_UNIMPLEMENTED, "flags of moert_router_args");
  for (int64_t t = 0; t < in->shape[0]; ++t) {
    const float* row = (const float*)in->data + t * in->strides[0];
    int32_t* ids = (int32_t*)args->ids->data + t * args->ids->strides[0];
    const int32_t* replay =
        forced != NULL ? (const int32_t*)forced->data + t * forced->strides[0] : NULL;
    for (int64_t j = 0; replay != NULL && j < it->top_k; ++j)
      if (replay[j] >= it->experts || (replay[j] < 0) != (replay[0] < 0))
        return fail(error, MOERT_INVALID_ARGUMENT, "a replayed id is out of range");
    for (int64_t j = 0; j < it->top_k; ++j)
      ids[j] = replay != NULL && replay[0] >= 0 ? replay[j] : (int32_t)best_but(it, row, ids, j);
    const float margin =
        weigh(it, row, ids, (float*)args->weights->data + t * args->weights->strides[0]);
    if (args->margins != NULL)
      ((float*)args->margins->data)[t * args->margins->strides[0]] = margin;
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
