#ifdef LACONIC_HAVE_ONEDNN

#include "nn/onednn.h"

#include <string.h>

#include "base/memory.h"

typedef struct lac_onednn {
  const lac_graph *graph;
  lac_plan training, inference;
  int forward;                 /* steps of the training plan before the softmax */
  int scores;                  /* tensor of the inference plan */
  lac_activation *activations; /* of the training plan */
  char *arena;                 /* of both plans: one runs at a time */
  float *padded;               /* (batch, C, H, W): pictures of a prediction that is not full */
} lac_onednn;

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
/* Of the OpenMP that oneDNN is linked with; omp.h would be that of the compiler. */
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
#else
static int omp_get_max_threads(void) {
  return 1;
}
static void omp_set_num_threads(int threads) {
  (void)threads;
}
#endif

/* oneDNN computes with as many OpenMP threads as the calling thread has asked for. Here workers are the threads
 * already: one, as long as a call lasts. */
static int begin_one_thread(void) {
  int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  return threads;
}

/* ---- compilation ---- */

static bool has_bf16(void) {
  dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

/* A ReLU is fused into what it reads when nobody else reads that. */
static bool fuses(const lac_graph *graph, int relu) {
  const lac_node *input = &graph->nodes[graph->nodes[relu].input];
  return input->uses == 1 && (input->kind == LAC_NODE_BATCHNORM || input->kind == LAC_NODE_CONV ||
                              input->kind == LAC_NODE_DENSE || input->kind == LAC_NODE_ADD);
}

/* Products are rounded to the type of the products except the last, so that what the softmax sees has all its bits. */
static void choose(const lac_compiler *c) {
  int last = 0;
  for (int i = 0; i < c->graph->count; i++) {
    lac_node_kind kind = c->graph->nodes[i].kind;
    last = kind == LAC_NODE_CONV || kind == LAC_NODE_DENSE ? i : last;
  }
  for (int i = 0; i < c->graph->count; i++) {
    const lac_node *node = &c->graph->nodes[i];
    lac_activation *activation = &c->activations[i];
    *activation = (lac_activation){.type = dnnl_f32,
                                   .value = LAC_NO_TENSOR,
                                   .difference = LAC_NO_TENSOR,
                                   .workspace = LAC_NO_TENSOR,
                                   .mean = LAC_NO_TENSOR,
                                   .variance = LAC_NO_TENSOR,
                                   .mask = LAC_NO_TENSOR};
    activation->wanted = node->weight_count + node->offset_count > 0;
    if (node->kind == LAC_NODE_CONV || node->kind == LAC_NODE_DENSE) {
      activation->type = i != last ? lac_product_type(c, i) : dnnl_f32;
    } else if (node->input >= 0) {
      activation->type = c->activations[node->input].type;
    }
    if (node->input >= 0) {
      activation->wanted |= c->activations[node->input].wanted;
    }
    if (node->other >= 0) {
      activation->wanted |= c->activations[node->other].wanted;
    }
    if (node->kind == LAC_NODE_RELU && fuses(c->graph, i)) {
      activation->fused = c->activations[node->input].fused = true;
    }
  }
}

/* The scores in canonical layout. */
static lac_status compile_forward(const lac_compiler *c, int *scores) {
  choose(c);
  for (int i = 0; i < c->graph->count; i++) {
    LAC_TRY(lac_compile_forward(c, i));
  }
  int last = c->graph->count - 1;
  lac_layout canonical = lac_layout_of_node(c, last, dnnl_f32, dnnl_abcd);
  return lac_compile_convert(c, c->activations[last].value, &canonical, scores);
}

static void softmax(lac_call *call, int node, const float *from, float *to) {
  (void)node;
  lac_softmax(call->graph->batch, call->graph->classes, from, call->labels, NULL, to, &call->loss, &call->errors);
}

static lac_status compile_backward(const lac_compiler *c, int scores) {
  int last = c->graph->count - 1;
  lac_layout canonical = lac_layout_of_node(c, last, dnnl_f32, dnnl_abcd);
  int gradient = 0;
  LAC_TRY(lac_plan_tensor(c->context, c->plan, LAC_PLACE_ARENA, 0, &canonical, &gradient));
  LAC_TRY(lac_plan_work(c->context, c->plan, softmax, last, scores, gradient));
  c->activations[last].difference = gradient;
  for (int i = last; i > 0; i--) {
    if (c->activations[i].wanted) {
      LAC_TRY(lac_compile_backward(c, i));
    }
  }
  return LAC_OK;
}

static lac_status compile(lac_context *context, lac_onednn *state, const lac_net_options *options) {
  lac_compiler c = {.context = context, .graph = state->graph, .options = options};
  LAC_TRY(LAC_NEW(context, state->graph->count, &state->activations));
  c.activations = state->activations;
  c.plan = &state->inference;
  LAC_TRY(lac_plan_create(context, c.plan));
  LAC_TRY(compile_forward(&c, &state->scores));
  LAC_TRY(lac_plan_pack(context, c.plan));
  c.plan = &state->training;
  c.training = true;
  int scores = 0;
  LAC_TRY(lac_plan_create(context, c.plan));
  LAC_TRY(compile_forward(&c, &scores));
  state->forward = c.plan->step_count;
  LAC_TRY(compile_backward(&c, scores));
  return lac_plan_pack(context, c.plan);
}

static lac_status create_arena(lac_context *context, lac_onednn *state) {
  int64_t bytes = state->training.bytes > state->inference.bytes ? state->training.bytes : state->inference.bytes;
  LAC_TRY(LAC_NEW(context, bytes, &state->arena));
  LAC_TRY(lac_plan_place(context, &state->training, state->arena));
  return lac_plan_place(context, &state->inference, state->arena);
}

static void onednn_destroy(void *of) {
  lac_onednn *state = of;
  if (state) {
    lac_plan_clear(&state->training);
    lac_plan_clear(&state->inference);
    lac_free(state->activations);
    lac_free(state->padded);
    lac_free(state->arena);
    lac_free(state);
  }
}

static lac_status onednn_create(lac_context *context, const lac_graph *graph, const lac_net_options *options,
                                void **created) {
  *created = NULL;
  if (options->precision == LAC_PRECISION_BF16 && !has_bf16()) {
    return lac_fail(context, LAC_E_UNSUPPORTED,
                    "precision bf16 needs a processor with AVX512_BF16 or AMX, which this one lacks: use f32");
  }
  lac_onednn *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &state));
  state->graph = graph;
  int threads = begin_one_thread();
  lac_status status = compile(context, state, options);
  omp_set_num_threads(threads);
  lac_image_shape shape = graph->input;
  LAC_TRY_GOTO(status, status, failed);
  LAC_TRY_GOTO(status, create_arena(context, state), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, graph->batch * shape.channels * shape.height * shape.width, &state->padded),
               failed);
  *created = state;
  return LAC_OK;
failed:
  onednn_destroy(state);
  return status;
}

/* ---- calls ---- */

static lac_status run(lac_context *context, lac_plan *plan, int end, lac_call *call) {
  int threads = begin_one_thread();
  lac_status status = lac_plan_bind(context, plan, call);
  status = status ? status : lac_plan_run(context, plan, 0, end, call);
  omp_set_num_threads(threads);
  return status;
}

static lac_status onednn_gradient(lac_context *context, void *of, const float *parameters, const float *pictures,
                                  const int32_t *labels, lac_net_key key, float *gradient, double *loss,
                                  int64_t *errors) {
  lac_onednn *state = of;
  lac_call call = {.graph = state->graph, .labels = labels, .key = key, .dropout = true};
  call.places[LAC_PLACE_PARAMETERS] = (float *)parameters;
  call.places[LAC_PLACE_PICTURES] = (float *)pictures;
  call.places[LAC_PLACE_GRADIENT] = gradient;
  LAC_TRY(run(context, &state->training, state->training.step_count, &call));
  *loss = call.loss;
  *errors = call.errors;
  return LAC_OK;
}

static lac_status onednn_predict(lac_context *context, void *of, const float *parameters, const float *statistics,
                                 int64_t count, const float *pictures, const int32_t *labels, float *probabilities,
                                 double *loss, int64_t *errors) {
  lac_onednn *state = of;
  lac_call call = {.graph = state->graph};
  call.places[LAC_PLACE_PARAMETERS] = (float *)parameters;
  call.places[LAC_PLACE_STATISTICS] = (float *)statistics;
  call.places[LAC_PLACE_PICTURES] = (float *)pictures;
  if (count < state->graph->batch) {
    int64_t pixels = state->graph->input.channels * state->graph->input.height * state->graph->input.width;
    memcpy(state->padded, pictures, (size_t)(count * pixels) * sizeof *pictures);
    memset(state->padded + count * pixels, 0, (size_t)((state->graph->batch - count) * pixels) * sizeof *pictures);
    call.places[LAC_PLACE_PICTURES] = state->padded;
  }
  LAC_TRY(run(context, &state->inference, state->inference.step_count, &call));
  lac_softmax(count, state->graph->classes, lac_plan_floats(&state->inference, state->scores), labels, probabilities,
              NULL, loss, errors);
  return LAC_OK;
}

static lac_status onednn_collect(lac_context *context, void *of, const float *parameters, const float *pictures,
                                 float *statistics) {
  lac_onednn *state = of;
  lac_call call = {.graph = state->graph};
  call.places[LAC_PLACE_PARAMETERS] = (float *)parameters;
  call.places[LAC_PLACE_PICTURES] = (float *)pictures;
  LAC_TRY(run(context, &state->training, state->forward, &call));
  for (int i = 0; i < state->graph->count; i++) {
    const lac_node *node = &state->graph->nodes[i];
    if (node->kind == LAC_NODE_BATCHNORM) {
      const float *mean = lac_plan_floats(&state->training, state->activations[i].mean);
      const float *variance = lac_plan_floats(&state->training, state->activations[i].variance);
      double m = (double)(state->graph->batch * node->shape.height * node->shape.width);
      for (int64_t channel = 0; channel < node->shape.channels; channel++) {
        statistics[node->mean + channel] = mean[channel];
        statistics[node->variance + channel] = (float)(variance[channel] * m / (m > 1 ? m - 1 : 1));
      }
    }
  }
  return LAC_OK;
}

const lac_backend lac_backend_onednn = {.name = "onednn",
                                        .create = onednn_create,
                                        .destroy = onednn_destroy,
                                        .gradient = onednn_gradient,
                                        .predict = onednn_predict,
                                        .collect = onednn_collect};

#endif
