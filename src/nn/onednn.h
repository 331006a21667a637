/* The oneDNN back end. A graph is compiled into plans: lists of oneDNN primitives over tensors that all lie in one
 * arena.
 *
 *     onednn.c         the walk over the graph, the calls of lac_backend
 *     onednn_layers.c  the primitives of each kind of node; what oneDNN 3 changes stands there and in onednn_plan.c
 *     onednn_plan.c    tensors, steps, the packing of the arena
 *
 * Only these files see dnnl.h. */
#ifndef LACONIC_NN_ONEDNN_H
#define LACONIC_NN_ONEDNN_H

#include <dnnl.h>

#include "nn/backend.h"

/* ---- plans ---- */

typedef dnnl_memory_desc_t lac_layout; /* data type, dimensions, order in memory; oneDNN 3: a pointer to be destroyed */

/* Where a tensor lies: in the arena, or in a vector that the caller brings with each call. */
typedef enum lac_place {
  LAC_PLACE_ARENA,
  LAC_PLACE_PARAMETERS,
  LAC_PLACE_GRADIENT,
  LAC_PLACE_PICTURES,
  LAC_PLACE_STATISTICS,
  LAC_PLACES
} lac_place;

enum { LAC_NO_TENSOR = -1, LAC_MOST_ARGUMENTS = 12 };

typedef struct lac_tensor {
  lac_layout layout;
  dnnl_memory_t memory;
  lac_place place;
  int whole;             /* index of the tensor of which this is another view; its own otherwise */
  int64_t offset, bytes; /* in its place */
  int first, last;       /* steps that touch it or its views; outside of them its memory is another's */
} lac_tensor;

typedef struct lac_argument {
  int kind; /* DNNL_ARG_… */
  int tensor;
} lac_argument;

/* What a call brings. */
typedef struct lac_call {
  const lac_graph *graph;
  float *places[LAC_PLACES]; /* the arena's is unused; read-only vectors are only read */
  const int32_t *labels;
  lac_net_key key;
  bool dropout; /* otherwise all units are kept */
  double loss;
  int64_t errors;
} lac_call;

/* A step that is not oneDNN's, over tensors in canonical layout. */
typedef void lac_host_work(lac_call *call, int node, const float *from, float *to);

typedef struct lac_step {
  dnnl_primitive_t primitive; /* NULL: `work` */
  int count;
  dnnl_exec_arg_t arguments[LAC_MOST_ARGUMENTS];
  lac_host_work *work;
  int node;     /* of the work */
  int from, to; /* tensors of the work, or those that a primitive may work in place on; LAC_NO_TENSOR: none */
} lac_step;

typedef struct lac_plan {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  lac_tensor *tensors;
  lac_step *steps;
  int tensor_count, tensor_room, step_count, step_room;
  int64_t bytes; /* of the arena, after lac_plan_pack */
  char *arena;
} lac_plan;

/* The status of a call of oneDNN: MEMORY, or UNSUPPORTED with a line that names what was asked for. */
lac_status lac_onednn_check(lac_context *context, dnnl_status_t status, const char *what);

lac_status lac_plan_create(lac_context *context, lac_plan *plan);
void lac_plan_clear(lac_plan *plan);

/* A tensor; `offset` counts floats from the start of a caller's vector, and is 0 for the arena. */
lac_status lac_plan_tensor(lac_context *context, lac_plan *plan, lac_place place, int64_t offset,
                           const lac_layout *layout, int *tensor);
/* The same memory under another layout of the same size. */
lac_status lac_plan_view(lac_context *context, lac_plan *plan, int whole, const lac_layout *layout, int *view);
/* Appends a primitive and its scratchpad; `made` is taken, also on failure. Arguments of LAC_NO_TENSOR are left out. */
lac_status lac_plan_primitive(lac_context *context, lac_plan *plan, dnnl_primitive_desc_t made, int count,
                              const lac_argument *arguments);
/* The last primitive may write `to` over `from`, which has the same layout. */
void lac_plan_in_place(lac_plan *plan, int from, int to);
lac_status lac_plan_work(lac_context *context, lac_plan *plan, lac_host_work *work, int node, int from, int to);
/* Gives every tensor of the arena its place: those whose steps do not overlap share memory. */
lac_status lac_plan_pack(lac_context *context, lac_plan *plan);
lac_status lac_plan_place(lac_context *context, lac_plan *plan, char *arena);
float *lac_plan_floats(const lac_plan *plan, int tensor); /* of the arena */
/* The caller's vectors of the next steps. */
lac_status lac_plan_bind(lac_context *context, lac_plan *plan, const lac_call *call);
lac_status lac_plan_run(lac_context *context, const lac_plan *plan, int first, int end, lac_call *call);

/* ---- compiling a graph ---- */

/* What is known of a node's output. */
typedef struct lac_activation {
  dnnl_data_type_t type;
  bool wanted;    /* its gradient is: there are parameters at or before it */
  bool fused;     /* a RELU computed by the step of its input, or the node whose RELU does so */
  int value;      /* tensor of the output */
  int difference; /* tensor of the loss's derivative by it, once its readers have been walked backwards */
  int forward;    /* step, for the backward primitives */
  int workspace, mean, variance, mask; /* tensors that the backward step needs */
} lac_activation;

typedef struct lac_compiler {
  lac_context *context;
  lac_plan *plan;
  const lac_graph *graph;
  const lac_net_options *options;
  bool training;
  lac_activation *activations; /* (graph->count) */
} lac_compiler;

bool lac_layout_equal(const lac_layout *left, const lac_layout *right);
/* The type in which the weights and inputs of a CONV or DENSE are multiplied. A single channel stays float32: there is
 * little to gain, and oneDNN has no fast code for it. */
dnnl_data_type_t lac_product_type(const lac_compiler *c, int i);
/* The outputs of a node in canonical layout, or, with the tag any, in whichever a primitive likes. */
lac_layout lac_layout_of_node(const lac_compiler *compiler, int node, dnnl_data_type_t type, dnnl_format_tag_t tag);
/* The tensor under a layout: itself, or a copy by a reorder. */
lac_status lac_compile_convert(const lac_compiler *compiler, int tensor, const lac_layout *layout, int *converted);

/* Appends the steps of a node. Forwards they set activations[node].value, backwards they add to the differences of its
 * inputs. */
lac_status lac_compile_forward(const lac_compiler *compiler, int node);
lac_status lac_compile_backward(const lac_compiler *compiler, int node);

#endif
