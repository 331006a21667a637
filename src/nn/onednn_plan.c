#ifdef LACONIC_HAVE_ONEDNN

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "nn/onednn.h"

enum { LAC_ALIGNMENT = 64 };

lac_status lac_onednn_check(lac_context *context, dnnl_status_t status, const char *what) {
  if (status == dnnl_success) {
    return LAC_OK;
  }
  if (status == dnnl_out_of_memory) {
    return lac_fail(context, LAC_E_MEMORY, "oneDNN cannot allocate memory for %s", what);
  }
  return lac_fail(context, LAC_E_UNSUPPORTED, "layers: oneDNN cannot do %s (its status %d)", what, (int)status);
}

lac_status lac_plan_create(lac_context *context, lac_plan *plan) {
  *plan = (lac_plan){0};
  LAC_TRY(lac_onednn_check(context, dnnl_engine_create(&plan->engine, dnnl_cpu, 0), "an engine on this processor"));
  return lac_onednn_check(context, dnnl_stream_create(&plan->stream, plan->engine, dnnl_stream_default_flags),
                          "a stream");
}

void lac_plan_clear(lac_plan *plan) {
  for (int s = 0; s < plan->step_count; s++) {
    if (plan->steps[s].primitive) {
      dnnl_primitive_destroy(plan->steps[s].primitive);
    }
  }
  for (int t = 0; t < plan->tensor_count; t++) {
    dnnl_memory_destroy(plan->tensors[t].memory);
  }
  if (plan->stream) {
    dnnl_stream_destroy(plan->stream);
  }
  if (plan->engine) {
    dnnl_engine_destroy(plan->engine);
  }
  lac_free(plan->steps);
  lac_free(plan->tensors);
  *plan = (lac_plan){0};
}

/* Room for one element more in an array of `count`. */
static lac_status grow(lac_context *context, size_t size, int count, int *room, void **array) {
  if (count < *room) {
    return LAC_OK;
  }
  int larger = *room ? 2 * *room : 64;
  void *grown = NULL;
  LAC_TRY(lac_allocate(context, larger, size, &grown));
  if (*array) {
    memcpy(grown, *array, (size_t)count * size);
    lac_free(*array);
  }
  *array = grown;
  *room = larger;
  return LAC_OK;
}

lac_status lac_plan_tensor(lac_context *context, lac_plan *plan, lac_place place, int64_t offset,
                           const lac_layout *layout, int *tensor) {
  LAC_TRY(grow(context, sizeof *plan->tensors, plan->tensor_count, &plan->tensor_room, (void **)&plan->tensors));
  dnnl_memory_t memory = NULL;
  LAC_TRY(lac_onednn_check(context, dnnl_memory_create(&memory, layout, plan->engine, DNNL_MEMORY_NONE), "a tensor"));
  *tensor = plan->tensor_count++;
  plan->tensors[*tensor] = (lac_tensor){.layout = *layout,
                                        .memory = memory,
                                        .place = place,
                                        .whole = *tensor,
                                        .offset = offset * (int64_t)sizeof(float),
                                        .bytes = (int64_t)dnnl_memory_desc_get_size(layout),
                                        .first = plan->step_count,
                                        .last = -1};
  return LAC_OK;
}

lac_status lac_plan_view(lac_context *context, lac_plan *plan, int whole, const lac_layout *layout, int *view) {
  lac_tensor of = plan->tensors[whole];
  LAC_TRY(lac_plan_tensor(context, plan, of.place, of.offset / (int64_t)sizeof(float), layout, view));
  plan->tensors[*view].whole = whole;
  return LAC_OK;
}

/* The tensor whose memory this one has. */
static int whole_of(const lac_plan *plan, int tensor) {
  while (plan->tensors[tensor].whole != tensor) {
    tensor = plan->tensors[tensor].whole;
  }
  return tensor;
}

/* Notes that the step to come uses a tensor. */
static void touch(lac_plan *plan, int tensor) {
  lac_tensor *whole = &plan->tensors[whole_of(plan, tensor)];
  if (whole->last < 0) {
    whole->first = plan->step_count;
  }
  whole->last = plan->step_count;
}

static lac_status append_primitive(lac_context *context, lac_plan *plan, const_dnnl_primitive_desc_t made, int count,
                                   const lac_argument *arguments) {
  LAC_TRY(grow(context, sizeof *plan->steps, plan->step_count, &plan->step_room, (void **)&plan->steps));
  int scratchpad = LAC_NO_TENSOR;
  const lac_layout *need = dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
  if (need && dnnl_memory_desc_get_size(need) > 0) {
    LAC_TRY(lac_plan_tensor(context, plan, LAC_PLACE_ARENA, 0, need, &scratchpad));
  }
  lac_step step = {.from = LAC_NO_TENSOR, .to = LAC_NO_TENSOR};
  for (int a = 0; a <= count; a++) {
    lac_argument argument = a < count ? arguments[a] : (lac_argument){DNNL_ARG_SCRATCHPAD, scratchpad};
    if (argument.tensor != LAC_NO_TENSOR) {
      touch(plan, argument.tensor);
      step.arguments[step.count++] = (dnnl_exec_arg_t){argument.kind, plan->tensors[argument.tensor].memory};
    }
  }
  LAC_TRY(lac_onednn_check(context, dnnl_primitive_create(&step.primitive, made), "a primitive"));
  plan->steps[plan->step_count++] = step;
  return LAC_OK;
}

lac_status lac_plan_primitive(lac_context *context, lac_plan *plan, dnnl_primitive_desc_t made, int count,
                              const lac_argument *arguments) {
  lac_status status = append_primitive(context, plan, made, count, arguments);
  dnnl_primitive_desc_destroy(made);
  return status;
}

void lac_plan_in_place(lac_plan *plan, int from, int to) {
  plan->steps[plan->step_count - 1].from = from;
  plan->steps[plan->step_count - 1].to = to;
}

lac_status lac_plan_work(lac_context *context, lac_plan *plan, lac_host_work *work, int node, int from, int to) {
  LAC_TRY(grow(context, sizeof *plan->steps, plan->step_count, &plan->step_room, (void **)&plan->steps));
  if (from != LAC_NO_TENSOR) {
    touch(plan, from);
  }
  touch(plan, to);
  plan->steps[plan->step_count++] = (lac_step){.work = work, .node = node, .from = from, .to = to};
  return LAC_OK;
}

/* ---- the arena ---- */

static bool in_arena(const lac_plan *plan, int tensor) {
  return plan->tensors[tensor].place == LAC_PLACE_ARENA && plan->tensors[tensor].whole == tensor;
}

/* A step that may work in place does so when its result begins where the life of its source ends. */
static void share_in_place(lac_plan *plan) {
  for (int s = 0; s < plan->step_count; s++) {
    const lac_step *step = &plan->steps[s];
    if (step->work || step->from == LAC_NO_TENSOR) {
      continue;
    }
    int from = whole_of(plan, step->from), to = whole_of(plan, step->to);
    lac_tensor *source = &plan->tensors[from], *result = &plan->tensors[to];
    if (source->place == LAC_PLACE_ARENA && result->place == LAC_PLACE_ARENA && source->last == s &&
        result->first == s && source->bytes == result->bytes) {
      result->whole = from;
      source->last = result->last;
    }
  }
}

static int by_size(const void *left, const void *right) {
  const lac_tensor *a = *(const lac_tensor *const *)left, *b = *(const lac_tensor *const *)right;
  if (a->bytes != b->bytes) {
    return a->bytes < b->bytes ? 1 : -1;
  }
  return (a->whole > b->whole) - (a->whole < b->whole);
}

/* The lowest offset at which a tensor meets none of `placed`, which are sorted by offset, at the same time. */
static int64_t first_fit(const lac_tensor *tensor, int count, lac_tensor *const *placed) {
  int64_t offset = 0;
  for (int p = 0; p < count && placed[p]->offset < offset + tensor->bytes; p++) {
    bool together = placed[p]->first <= tensor->last && tensor->first <= placed[p]->last;
    int64_t end = placed[p]->offset + placed[p]->bytes;
    if (together && end > offset) {
      offset = end;
    }
  }
  return offset;
}

static void insert_by_offset(lac_tensor *tensor, int count, lac_tensor **placed) {
  int p = count;
  for (; p > 0 && placed[p - 1]->offset > tensor->offset; p--) {
    placed[p] = placed[p - 1];
  }
  placed[p] = tensor;
}

lac_status lac_plan_pack(lac_context *context, lac_plan *plan) {
  lac_tensor **sorted = NULL, **placed = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, plan->tensor_count, &sorted), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, plan->tensor_count, &placed), done);
  share_in_place(plan);
  int count = 0;
  for (int t = 0; t < plan->tensor_count; t++) {
    if (in_arena(plan, t) && plan->tensors[t].last >= 0) {
      sorted[count++] = &plan->tensors[t];
      plan->tensors[t].bytes = (plan->tensors[t].bytes + LAC_ALIGNMENT - 1) / LAC_ALIGNMENT * LAC_ALIGNMENT;
    }
  }
  qsort(sorted, (size_t)count, sizeof(lac_tensor *), by_size);
  for (int p = 0; p < count; p++) {
    sorted[p]->offset = first_fit(sorted[p], p, placed);
    insert_by_offset(sorted[p], p, placed);
    int64_t end = sorted[p]->offset + sorted[p]->bytes;
    plan->bytes = end > plan->bytes ? end : plan->bytes;
  }
done:
  lac_free(placed);
  lac_free(sorted);
  return status;
}

lac_status lac_plan_place(lac_context *context, lac_plan *plan, char *arena) {
  plan->arena = arena;
  for (int t = 0; t < plan->tensor_count; t++) {
    lac_tensor *tensor = &plan->tensors[t];
    if (tensor->place == LAC_PLACE_ARENA) {
      tensor->offset = plan->tensors[whole_of(plan, t)].offset;
      LAC_TRY(lac_onednn_check(context, dnnl_memory_set_data_handle(tensor->memory, arena + tensor->offset),
                               "a tensor in the arena"));
    }
  }
  return LAC_OK;
}

float *lac_plan_floats(const lac_plan *plan, int tensor) {
  return tensor == LAC_NO_TENSOR ? NULL : (float *)(void *)(plan->arena + plan->tensors[tensor].offset);
}

lac_status lac_plan_bind(lac_context *context, lac_plan *plan, const lac_call *call) {
  for (int t = 0; t < plan->tensor_count; t++) {
    const lac_tensor *tensor = &plan->tensors[t];
    if (tensor->place != LAC_PLACE_ARENA) {
      float *vector = call->places[tensor->place];
      void *start = vector ? (char *)vector + tensor->offset : DNNL_MEMORY_NONE;
      LAC_TRY(lac_onednn_check(context, dnnl_memory_set_data_handle(tensor->memory, start), "a caller's vector"));
    }
  }
  return LAC_OK;
}

lac_status lac_plan_run(lac_context *context, const lac_plan *plan, int first, int end, lac_call *call) {
  for (int s = first; s < end; s++) {
    const lac_step *step = &plan->steps[s];
    if (step->work) {
      step->work(call, step->node, lac_plan_floats(plan, step->from), lac_plan_floats(plan, step->to));
    } else {
      LAC_TRY(lac_onednn_check(
          context, dnnl_primitive_execute(step->primitive, plan->stream, step->count, step->arguments), "a step"));
    }
    if (call->labels) {
      LAC_TRY(lac_graph_pause(call->graph, context));
    }
  }
  return lac_onednn_check(context, dnnl_stream_wait(plan->stream), "the steps");
}

#endif
