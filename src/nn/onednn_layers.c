#ifdef LACONIC_HAVE_ONEDNN

#include <stdio.h>

#include "base/memory.h"
#include "nn/onednn.h"

enum {
  LAC_BLOCK = 16, /* channels in a block of oneDNN's largest blocked layout, aBcd16b */
  /* oneDNN takes Winograd's algorithm for fewer input channels too, where its transforms cost more than they save. */
  LAC_WINOGRAD_CHANNELS = 32
};

/* What a primitive of a layer with weights computes. */
typedef enum lac_pass { LAC_FORWARD, LAC_BACKWARD_DATA, LAC_BACKWARD_WEIGHTS } lac_pass;

typedef lac_status lac_compile_step(const lac_compiler *c, int i);

static const lac_node *node_of(const lac_compiler *c, int i) {
  return &c->graph->nodes[i];
}

static lac_activation *input_of(const lac_compiler *c, int i) {
  return &c->activations[node_of(c, i)->input];
}

/* ---- layouts ---- */

bool lac_layout_equal(const lac_layout *left, const lac_layout *right) {
  return dnnl_memory_desc_equal(left, right) != 0;
}

static lac_layout layout_by_tag(int axes, const dnnl_dims_t shape, dnnl_data_type_t type, dnnl_format_tag_t tag) {
  lac_layout layout = {0};
  dnnl_memory_desc_init_by_tag(&layout, axes, shape, type, tag); /* these arguments are always valid */
  return layout;
}

lac_layout lac_layout_of_node(const lac_compiler *c, int node, dnnl_data_type_t type, dnnl_format_tag_t tag) {
  lac_image_shape shape = node_of(c, node)->shape;
  return layout_by_tag(4, (dnnl_dims_t){c->graph->batch, shape.channels, shape.height, shape.width}, type, tag);
}

static lac_layout vector_layout(int64_t count) {
  return layout_by_tag(1, (dnnl_dims_t){count}, dnnl_f32, dnnl_a);
}

static lac_layout with_type(lac_layout layout, dnnl_data_type_t type) {
  layout.data_type = type;
  return layout;
}

static const lac_layout *layout_of(const lac_compiler *c, int tensor) {
  return &c->plan->tensors[tensor].layout;
}

dnnl_data_type_t lac_product_type(const lac_compiler *c, int i) {
  const lac_node *node = node_of(c, i);
  return c->options->precision == LAC_PRECISION_BF16 && node_of(c, node->input)->shape.channels > 1 ? dnnl_bf16
                                                                                                    : dnnl_f32;
}

/* ---- operations ----
 *
 * What oneDNN 3 changes is from here to the end of this section: dnnl_X_desc_init and dnnl_primitive_desc_create become
 * one call, dnnl_X_primitive_desc_create; eltwise and batch normalisation are given a layout each for source and
 * destination, pooling a dilation; layouts are opaque, to be cloned and destroyed. */

typedef struct lac_operation {
  dnnl_status_t status;
  union {
    dnnl_convolution_desc_t convolution;
    dnnl_inner_product_desc_t dense;
    dnnl_batch_normalization_desc_t batchnorm;
    dnnl_eltwise_desc_t eltwise;
    dnnl_pooling_desc_t pooling;
    dnnl_binary_desc_t binary;
  } of;
} lac_operation;

static dnnl_prop_kind_t forward_kind(const lac_compiler *c) {
  return c->training ? dnnl_forward_training : dnnl_forward_inference;
}

static lac_operation convolution(const lac_compiler *c, int i, lac_pass pass, dnnl_alg_kind_t algorithm) {
  const lac_node *node = node_of(c, i);
  dnnl_data_type_t type = lac_product_type(c, i), output = pass == LAC_FORWARD ? c->activations[i].type : type;
  lac_layout from = lac_layout_of_node(c, node->input, type, dnnl_format_tag_any);
  lac_layout to = lac_layout_of_node(c, i, output, dnnl_format_tag_any), bias = vector_layout(node->shape.channels);
  dnnl_dims_t shape = {node->shape.channels, node_of(c, node->input)->shape.channels, node->kernel, node->kernel};
  lac_layout weights = layout_by_tag(4, shape, pass == LAC_BACKWARD_WEIGHTS ? dnnl_f32 : type, dnnl_format_tag_any);
  const lac_layout *offset = node->offset_count ? &bias : NULL;
  dnnl_dims_t stride = {node->stride, node->stride}, pad = {node->pad, node->pad};
  lac_operation made = {0};
  dnnl_convolution_desc_t *of = &made.of.convolution;
  if (pass == LAC_FORWARD) {
    made.status = dnnl_convolution_forward_desc_init(of, forward_kind(c), algorithm, &from, &weights, offset, &to,
                                                     stride, pad, pad);
  } else if (pass == LAC_BACKWARD_DATA) {
    made.status = dnnl_convolution_backward_data_desc_init(of, algorithm, &from, &weights, &to, stride, pad, pad);
  } else {
    made.status =
        dnnl_convolution_backward_weights_desc_init(of, algorithm, &from, &weights, offset, &to, stride, pad, pad);
  }
  return made;
}

/* Axes of the input of a dense layer as oneDNN sees it: a row of numbers or a picture. */
static int dense_axes(const lac_compiler *c, int i) {
  lac_image_shape shape = node_of(c, node_of(c, i)->input)->shape;
  return shape.height == 1 && shape.width == 1 ? 2 : 4;
}

static lac_layout dense_weights(const lac_compiler *c, int i, dnnl_data_type_t type, bool canonical) {
  lac_image_shape shape = node_of(c, node_of(c, i)->input)->shape;
  int axes = dense_axes(c, i);
  dnnl_format_tag_t tag = axes == 2 ? dnnl_ab : dnnl_abcd;
  return layout_by_tag(axes, (dnnl_dims_t){node_of(c, i)->shape.channels, shape.channels, shape.height, shape.width},
                       type, canonical ? tag : dnnl_format_tag_any);
}

static lac_layout rows_layout(const lac_compiler *c, int node, dnnl_data_type_t type) {
  return layout_by_tag(2, (dnnl_dims_t){c->graph->batch, node_of(c, node)->shape.channels}, type, dnnl_ab);
}

static lac_operation dense(const lac_compiler *c, int i, lac_pass pass) {
  const lac_node *node = node_of(c, i);
  dnnl_data_type_t type = lac_product_type(c, i), output = pass == LAC_FORWARD ? c->activations[i].type : type;
  lac_layout from = dense_axes(c, i) == 2 ? rows_layout(c, node->input, type)
                                          : lac_layout_of_node(c, node->input, type, dnnl_format_tag_any);
  lac_layout to = rows_layout(c, i, output), bias = vector_layout(node->shape.channels);
  lac_layout weights = dense_weights(c, i, pass == LAC_BACKWARD_WEIGHTS ? dnnl_f32 : type, false);
  const lac_layout *offset = node->offset_count ? &bias : NULL;
  lac_operation made = {0};
  dnnl_inner_product_desc_t *of = &made.of.dense;
  if (pass == LAC_FORWARD) {
    made.status = dnnl_inner_product_forward_desc_init(of, forward_kind(c), &from, &weights, offset, &to);
  } else if (pass == LAC_BACKWARD_DATA) {
    made.status = dnnl_inner_product_backward_data_desc_init(of, &from, &weights, &to);
  } else {
    made.status = dnnl_inner_product_backward_weights_desc_init(of, &from, &weights, offset, &to);
  }
  return made;
}

static lac_operation batchnorm(const lac_compiler *c, int i, lac_pass pass, const lac_layout *data) {
  const lac_node *node = node_of(c, i);
  unsigned flags = (node->weight_count ? dnnl_use_scale : 0U) | (node->offset_count ? dnnl_use_shift : 0U) |
                   (c->activations[i].fused ? dnnl_fuse_norm_relu : 0U) | (c->training ? 0U : dnnl_use_global_stats);
  lac_operation made = {0};
  dnnl_batch_normalization_desc_t *of = &made.of.batchnorm;
  made.status =
      pass == LAC_FORWARD
          ? dnnl_batch_normalization_forward_desc_init(of, forward_kind(c), data, LAC_BATCHNORM_EPSILON, flags)
          : dnnl_batch_normalization_backward_desc_init(of, dnnl_backward, data, data, LAC_BATCHNORM_EPSILON, flags);
  return made;
}

static lac_operation relu(const lac_compiler *c, lac_pass pass, const lac_layout *data) {
  lac_operation made = {0};
  /* The derivative by the sign of the output, so that the input need not be kept. */
  dnnl_alg_kind_t algorithm = c->training ? dnnl_eltwise_relu_use_dst_for_bwd : dnnl_eltwise_relu;
  made.status = pass == LAC_FORWARD
                    ? dnnl_eltwise_forward_desc_init(&made.of.eltwise, forward_kind(c), algorithm, data, 0, 0)
                    : dnnl_eltwise_backward_desc_init(&made.of.eltwise, algorithm, data, data, 0, 0);
  return made;
}

static lac_operation pooling(const lac_compiler *c, int i, lac_pass pass, const lac_layout *from,
                             const lac_layout *to) {
  const lac_node *node = node_of(c, i);
  dnnl_dims_t stride = {node->stride, node->stride}, pad = {node->pad, node->pad},
              kernel = {node->kernel, node->kernel};
  dnnl_alg_kind_t algorithm = node->kind == LAC_NODE_MAXPOOL ? dnnl_pooling_max : dnnl_pooling_avg_include_padding;
  lac_operation made = {0};
  dnnl_pooling_desc_t *of = &made.of.pooling;
  made.status = pass == LAC_FORWARD
                    ? dnnl_pooling_forward_desc_init(of, forward_kind(c), algorithm, from, to, stride, kernel, pad, pad)
                    : dnnl_pooling_backward_desc_init(of, algorithm, from, to, stride, kernel, pad, pad);
  return made;
}

static lac_operation binary(dnnl_alg_kind_t algorithm, const lac_layout *left, const lac_layout *right) {
  lac_operation made = {0};
  made.status = dnnl_binary_desc_init(&made.of.binary, algorithm, left, right, left);
  return made;
}

static dnnl_status_t set_attributes(dnnl_primitive_attr_t attributes, bool relu_after) {
  dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  if (status || !relu_after) {
    return status;
  }
  dnnl_post_ops_t after = NULL;
  status = dnnl_post_ops_create(&after);
  if (!status) {
    status = dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_relu, 0, 0);
    status = status ? status : dnnl_primitive_attr_set_post_ops(attributes, after);
    dnnl_post_ops_destroy(after);
  }
  return status;
}

/* The primitive descriptor of an operation, or of a reorder when `operation` is NULL. */
static dnnl_status_t describe(const lac_compiler *c, const lac_operation *operation, bool relu_after,
                              const_dnnl_primitive_desc_t hint, const lac_layout *from, const lac_layout *to,
                              dnnl_primitive_desc_t *made) {
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_status_t status = operation ? operation->status : dnnl_success;
  status = status ? status : dnnl_primitive_attr_create(&attributes);
  if (status) {
    return status;
  }
  status = set_attributes(attributes, relu_after);
  if (!status) {
    status = operation
                 ? dnnl_primitive_desc_create(made, &operation->of, attributes, c->plan->engine, hint)
                 : dnnl_reorder_primitive_desc_create(made, from, c->plan->engine, to, c->plan->engine, attributes);
  }
  dnnl_primitive_attr_destroy(attributes);
  return status;
}

/* ---- what primitives are made with ---- */

/* For node `i`; `what` it is, for a message. */
static lac_status make(const lac_compiler *c, int i, lac_operation operation, bool relu_after,
                       const_dnnl_primitive_desc_t hint, const char *what, dnnl_primitive_desc_t *made) {
  char named[64];
  snprintf(named, sizeof named, "%s of line %d", what, node_of(c, i)->line);
  return lac_onednn_check(c->context, describe(c, &operation, relu_after, hint, NULL, NULL, made), named);
}

/* The forward primitive of a node, which its backward ones must fit. */
static const_dnnl_primitive_desc_t forward_of(const lac_compiler *c, int i) {
  const_dnnl_primitive_desc_t forward = NULL;
  dnnl_primitive_get_primitive_desc(c->plan->steps[c->activations[i].forward].primitive, &forward);
  return forward;
}

static lac_status make_convolution(const lac_compiler *c, int i, lac_pass pass, dnnl_primitive_desc_t *made) {
  bool relu_after = pass == LAC_FORWARD && c->activations[i].fused;
  const_dnnl_primitive_desc_t hint = pass == LAC_FORWARD ? NULL : forward_of(c, i);
  bool many = node_of(c, node_of(c, i)->input)->shape.channels >= LAC_WINOGRAD_CHANNELS;
  if (c->options->convolution == LAC_CONVOLUTION_AUTO && many) {
    lac_operation automatic = convolution(c, i, pass, dnnl_convolution_auto);
    if (describe(c, &automatic, relu_after, hint, NULL, NULL, made) == dnnl_success) {
      return LAC_OK;
    }
  }
  return make(c, i, convolution(c, i, pass, dnnl_convolution_direct), relu_after, hint, "the convolution", made);
}

static lac_status make_dense(const lac_compiler *c, int i, lac_pass pass, dnnl_primitive_desc_t *made) {
  bool relu_after = pass == LAC_FORWARD && c->activations[i].fused;
  return make(c, i, dense(c, i, pass), relu_after, pass == LAC_FORWARD ? NULL : forward_of(c, i), "the dense layer",
              made);
}

static lac_status make_weighted(const lac_compiler *c, int i, lac_pass pass, dnnl_primitive_desc_t *made) {
  return node_of(c, i)->kind == LAC_NODE_CONV ? make_convolution(c, i, pass, made) : make_dense(c, i, pass, made);
}

static lac_status append(const lac_compiler *c, dnnl_primitive_desc_t made, int count, const lac_argument *arguments) {
  return lac_plan_primitive(c->context, c->plan, made, count, arguments);
}
#define APPEND(c, made, ...)                                                               \
  append((c), (made), (int)(sizeof((lac_argument[]){__VA_ARGS__}) / sizeof(lac_argument)), \
         (lac_argument[]){__VA_ARGS__})

static lac_status new_tensor(const lac_compiler *c, const lac_layout *layout, int *tensor) {
  return lac_plan_tensor(c->context, c->plan, LAC_PLACE_ARENA, 0, layout, tensor);
}

static lac_status reorder(const lac_compiler *c, int from, int to) {
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(lac_onednn_check(c->context, describe(c, NULL, false, NULL, layout_of(c, from), layout_of(c, to), &made),
                           "this reorder"));
  return APPEND(c, made, {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to});
}

lac_status lac_compile_convert(const lac_compiler *c, int tensor, const lac_layout *layout, int *converted) {
  *converted = tensor;
  if (lac_layout_equal(layout_of(c, tensor), layout)) {
    return LAC_OK;
  }
  LAC_TRY(new_tensor(c, layout, converted));
  return reorder(c, tensor, *converted);
}

/* The output of a layer of 1 x 1 pictures as rows, and rows as pictures: the same memory seen with two axes or four. */
static lac_status rows_of(const lac_compiler *c, int node, dnnl_data_type_t type, int tensor, int *rows) {
  lac_layout either = lac_layout_of_node(c, node, type, dnnl_abcd),
             picture = lac_layout_of_node(c, node, type, dnnl_acdb), layout = rows_layout(c, node, type);
  if (!lac_layout_equal(layout_of(c, tensor), &either)) {
    LAC_TRY(lac_compile_convert(c, tensor, &picture, &tensor));
  }
  return lac_plan_view(c->context, c->plan, tensor, &layout, rows);
}

static lac_status pictures_of(const lac_compiler *c, int node, dnnl_data_type_t type, int rows, int *tensor) {
  lac_layout picture = lac_layout_of_node(c, node, type, dnnl_acdb);
  return lac_plan_view(c->context, c->plan, rows, &picture, tensor);
}

/* The input of a layer with weights, from a tensor with any layout, for a primitive. */
static lac_status source(const lac_compiler *c, int i, int tensor, const lac_layout *layout, int *from) {
  if (node_of(c, i)->kind == LAC_NODE_DENSE && dense_axes(c, i) == 2) {
    LAC_TRY(rows_of(c, node_of(c, i)->input, lac_product_type(c, i), tensor, &tensor));
  }
  return lac_compile_convert(c, tensor, layout, from);
}

/* The same for the derivative by its output. */
static lac_status difference(const lac_compiler *c, int i, const lac_layout *layout, int *to) {
  int tensor = c->activations[i].difference;
  if (node_of(c, i)->kind == LAC_NODE_DENSE) {
    LAC_TRY(rows_of(c, i, lac_product_type(c, i), tensor, &tensor));
  }
  return lac_compile_convert(c, tensor, layout, to);
}

static lac_status vector(const lac_compiler *c, lac_place place, int64_t offset, int64_t count, int *tensor) {
  lac_layout layout = vector_layout(count);
  *tensor = LAC_NO_TENSOR;
  return count ? lac_plan_tensor(c->context, c->plan, place, offset, &layout, tensor) : LAC_OK;
}

/* The weights of a layer as the caller has them, or their gradient. */
static lac_status canonical_weights(const lac_compiler *c, int i, lac_place place, int *tensor) {
  const lac_node *node = node_of(c, i);
  dnnl_dims_t shape = {node->shape.channels, node_of(c, node->input)->shape.channels, node->kernel, node->kernel};
  lac_layout layout =
      node->kind == LAC_NODE_CONV ? layout_by_tag(4, shape, dnnl_f32, dnnl_abcd) : dense_weights(c, i, dnnl_f32, true);
  return lac_plan_tensor(c->context, c->plan, place, node->weight, &layout, tensor);
}

static lac_status weights_for(const lac_compiler *c, int i, const_dnnl_primitive_desc_t made, int *weights) {
  LAC_TRY(canonical_weights(c, i, LAC_PLACE_PARAMETERS, weights));
  return lac_compile_convert(c, *weights, dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0), weights);
}

/* The steps so far: the index of the primitive appended last. */
static int last_step(const lac_compiler *c) {
  return c->plan->step_count - 1;
}

/* Adds to the derivative of the loss by the output of a node. Tensors are never changed once they are written: a sum is
 * a new one, and packing the arena sees to it that memory is used again. */
static lac_status contribute(const lac_compiler *c, int node, int tensor) {
  lac_activation *to = &c->activations[node];
  if (!to->wanted) {
    return LAC_OK;
  }
  if (to->difference == LAC_NO_TENSOR) {
    to->difference = tensor;
    return LAC_OK;
  }
  lac_layout layout = *layout_of(c, to->difference);
  int other = 0, sum = 0;
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(lac_compile_convert(c, tensor, &layout, &other));
  LAC_TRY(new_tensor(c, &layout, &sum));
  LAC_TRY(make(c, node, binary(dnnl_binary_add, &layout, &layout), false, NULL, "the sum of gradients", &made));
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC_0, to->difference}, {DNNL_ARG_SRC_1, other}, {DNNL_ARG_DST, sum}));
  lac_plan_in_place(c->plan, to->difference, sum);
  to->difference = sum;
  return LAC_OK;
}

/* ---- convolutions and dense layers ---- */

static lac_status weighted_forward(const lac_compiler *c, int i) {
  lac_activation *activation = &c->activations[i];
  const lac_node *node = node_of(c, i);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(make_weighted(c, i, LAC_FORWARD, &made));
  int from = 0, weights = 0, bias = 0, to = 0;
  lac_status status;
  LAC_TRY_GOTO(status,
               source(c, i, input_of(c, i)->value, dnnl_primitive_desc_query_md(made, dnnl_query_src_md, 0), &from),
               failed);
  LAC_TRY_GOTO(status, weights_for(c, i, made, &weights), failed);
  LAC_TRY_GOTO(status, vector(c, LAC_PLACE_PARAMETERS, node->offset, node->offset_count, &bias), failed);
  LAC_TRY_GOTO(status, new_tensor(c, dnnl_primitive_desc_query_md(made, dnnl_query_dst_md, 0), &to), failed);
  LAC_TRY(
      APPEND(c, made, {DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, to}));
  activation->forward = last_step(c);
  activation->value = to;
  return node->kind == LAC_NODE_DENSE ? pictures_of(c, i, activation->type, to, &activation->value) : LAC_OK;
failed:
  dnnl_primitive_desc_destroy(made);
  return status;
}

static lac_status weights_backward(const lac_compiler *c, int i) {
  const lac_node *node = node_of(c, i);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(make_weighted(c, i, LAC_BACKWARD_WEIGHTS, &made));
  int from = 0, to = 0, target = 0, weights = 0, bias = 0;
  lac_status status;
  LAC_TRY_GOTO(status,
               source(c, i, input_of(c, i)->value, dnnl_primitive_desc_query_md(made, dnnl_query_src_md, 0), &from),
               failed);
  LAC_TRY_GOTO(status, difference(c, i, dnnl_primitive_desc_query_md(made, dnnl_query_diff_dst_md, 0), &to), failed);
  LAC_TRY_GOTO(status, canonical_weights(c, i, LAC_PLACE_GRADIENT, &target), failed);
  LAC_TRY_GOTO(status, vector(c, LAC_PLACE_GRADIENT, node->offset, node->offset_count, &bias), failed);
  weights = target;
  const lac_layout *layout = dnnl_primitive_desc_query_md(made, dnnl_query_diff_weights_md, 0);
  if (!lac_layout_equal(layout_of(c, target), layout)) {
    LAC_TRY_GOTO(status, new_tensor(c, layout, &weights), failed);
  }
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC, from}, {DNNL_ARG_DIFF_DST, to}, {DNNL_ARG_DIFF_WEIGHTS, weights},
                 {DNNL_ARG_DIFF_BIAS, bias}));
  return weights == target ? LAC_OK : reorder(c, weights, target);
failed:
  dnnl_primitive_desc_destroy(made);
  return status;
}

static lac_status data_backward(const lac_compiler *c, int i) {
  const lac_node *node = node_of(c, i);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(make_weighted(c, i, LAC_BACKWARD_DATA, &made));
  int from = 0, to = 0, weights = 0;
  lac_status status;
  LAC_TRY_GOTO(status, difference(c, i, dnnl_primitive_desc_query_md(made, dnnl_query_diff_dst_md, 0), &to), failed);
  LAC_TRY_GOTO(status, weights_for(c, i, made, &weights), failed);
  LAC_TRY_GOTO(status, new_tensor(c, dnnl_primitive_desc_query_md(made, dnnl_query_diff_src_md, 0), &from), failed);
  LAC_TRY(APPEND(c, made, {DNNL_ARG_DIFF_DST, to}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, from}));
  if (node->kind == LAC_NODE_DENSE && dense_axes(c, i) == 2) {
    LAC_TRY(pictures_of(c, node->input, lac_product_type(c, i), from, &from));
  }
  return contribute(c, node->input, from);
failed:
  dnnl_primitive_desc_destroy(made);
  return status;
}

static lac_status weighted_backward(const lac_compiler *c, int i) {
  LAC_TRY(weights_backward(c, i));
  return input_of(c, i)->wanted ? data_backward(c, i) : LAC_OK;
}

/* ---- batch normalisation ---- */

/* The layout in which a node is normalised: the one its input has, except that oneDNN has fast code in blocks of
 * channels only for 1 x 1 pictures and for channels that fill no whole register: with 24 channels in bfloat16, which it
 * wants last in its convolutions, its other code takes a hundred times as long. */
static lac_layout normal_layout(const lac_compiler *c, int i, int from) {
  lac_image_shape shape = node_of(c, i)->shape;
  lac_layout layout = *layout_of(c, from);
  bool wide = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  bool split = layout.data_type == dnnl_bf16 && shape.channels % LAC_BLOCK != 0;
  return split || (shape.height == 1 && shape.width == 1)
             ? lac_layout_of_node(c, i, c->activations[i].type, wide ? dnnl_aBcd16b : dnnl_aBcd8b)
             : layout;
}

static lac_status batchnorm_forward(const lac_compiler *c, int i) {
  lac_activation *activation = &c->activations[i];
  const lac_node *node = node_of(c, i);
  int from = input_of(c, i)->value, scale = 0, shift = 0;
  int64_t channels = node->shape.channels;
  lac_layout data = normal_layout(c, i, from);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(lac_compile_convert(c, from, &data, &from));
  LAC_TRY(vector(c, LAC_PLACE_PARAMETERS, node->weight, node->weight_count, &scale));
  LAC_TRY(vector(c, LAC_PLACE_PARAMETERS, node->offset, node->offset_count, &shift));
  LAC_TRY(vector(c, c->training ? LAC_PLACE_ARENA : LAC_PLACE_STATISTICS, c->training ? 0 : node->mean, channels,
                 &activation->mean));
  LAC_TRY(vector(c, c->training ? LAC_PLACE_ARENA : LAC_PLACE_STATISTICS, c->training ? 0 : node->variance, channels,
                 &activation->variance));
  LAC_TRY(new_tensor(c, &data, &activation->value));
  LAC_TRY(make(c, i, batchnorm(c, i, LAC_FORWARD, &data), false, NULL, "the batch normalisation", &made));
  const lac_layout *workspace = dnnl_primitive_desc_query_md(made, dnnl_query_workspace_md, 0);
  if (workspace && dnnl_memory_desc_get_size(workspace)) {
    lac_status status = new_tensor(c, workspace, &activation->workspace);
    if (status) {
      dnnl_primitive_desc_destroy(made);
      return status;
    }
  }
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC, from}, {DNNL_ARG_DST, activation->value}, {DNNL_ARG_SCALE, scale},
                 {DNNL_ARG_SHIFT, shift}, {DNNL_ARG_MEAN, activation->mean}, {DNNL_ARG_VARIANCE, activation->variance},
                 {DNNL_ARG_WORKSPACE, activation->workspace}));
  lac_plan_in_place(c->plan, from, activation->value);
  activation->forward = last_step(c);
  return LAC_OK;
}

static lac_status batchnorm_backward(const lac_compiler *c, int i) {
  const lac_activation *activation = &c->activations[i];
  const lac_node *node = node_of(c, i);
  int from = input_of(c, i)->value, scale = 0, shift = 0, to = 0, result = 0, scale_gradient = 0, shift_gradient = 0;
  lac_layout data = normal_layout(c, i, from);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(lac_compile_convert(c, from, &data, &from));
  LAC_TRY(lac_compile_convert(c, activation->difference, &data, &to));
  LAC_TRY(vector(c, LAC_PLACE_PARAMETERS, node->weight, node->weight_count, &scale));
  LAC_TRY(vector(c, LAC_PLACE_PARAMETERS, node->offset, node->offset_count, &shift));
  LAC_TRY(vector(c, LAC_PLACE_GRADIENT, node->weight, node->weight_count, &scale_gradient));
  LAC_TRY(vector(c, LAC_PLACE_GRADIENT, node->offset, node->offset_count, &shift_gradient));
  LAC_TRY(new_tensor(c, &data, &result));
  LAC_TRY(make(c, i, batchnorm(c, i, LAC_BACKWARD_DATA, &data), false, forward_of(c, i),
               "the gradient of the batch normalisation", &made));
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC, from}, {DNNL_ARG_MEAN, activation->mean},
                 {DNNL_ARG_VARIANCE, activation->variance}, {DNNL_ARG_DIFF_DST, to}, {DNNL_ARG_SCALE, scale},
                 {DNNL_ARG_SHIFT, shift}, {DNNL_ARG_WORKSPACE, activation->workspace}, {DNNL_ARG_DIFF_SRC, result},
                 {DNNL_ARG_DIFF_SCALE, scale_gradient}, {DNNL_ARG_DIFF_SHIFT, shift_gradient}));
  lac_plan_in_place(c->plan, to, result);
  return contribute(c, node->input, result);
}

/* ---- ReLU ---- */

static lac_status relu_forward(const lac_compiler *c, int i) {
  lac_activation *activation = &c->activations[i];
  int from = input_of(c, i)->value;
  if (activation->fused) {
    activation->value = from;
    return LAC_OK;
  }
  lac_layout data = *layout_of(c, from);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(new_tensor(c, &data, &activation->value));
  LAC_TRY(make(c, i, relu(c, LAC_FORWARD, &data), false, NULL, "the ReLU", &made));
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC, from}, {DNNL_ARG_DST, activation->value}));
  lac_plan_in_place(c->plan, from, activation->value);
  return LAC_OK;
}

static lac_status relu_backward(const lac_compiler *c, int i) {
  const lac_activation *activation = &c->activations[i];
  const lac_node *node = node_of(c, i);
  if (activation->fused && node_of(c, node->input)->kind == LAC_NODE_BATCHNORM) {
    return contribute(c, node->input, activation->difference); /* its backward step does the rest */
  }
  lac_layout data = *layout_of(c, activation->value);
  lac_operation forward = relu(c, LAC_FORWARD, &data);
  dnnl_primitive_desc_t hint = NULL, made = NULL;
  int to = 0, result = 0;
  LAC_TRY(lac_compile_convert(c, activation->difference, &data, &to));
  LAC_TRY(new_tensor(c, &data, &result));
  LAC_TRY(make(c, i, forward, false, NULL, "the ReLU", &hint));
  lac_status status = make(c, i, relu(c, LAC_BACKWARD_DATA, &data), false, hint, "the gradient of the ReLU", &made);
  dnnl_primitive_desc_destroy(hint);
  LAC_TRY(status);
  LAC_TRY(APPEND(c, made, {DNNL_ARG_DST, activation->value}, {DNNL_ARG_DIFF_DST, to}, {DNNL_ARG_DIFF_SRC, result}));
  lac_plan_in_place(c->plan, to, result);
  return contribute(c, node->input, result);
}

/* ---- pooling ---- */

static lac_status pool_forward(const lac_compiler *c, int i) {
  lac_activation *activation = &c->activations[i];
  int from = input_of(c, i)->value;
  lac_layout data = *layout_of(c, from), any = lac_layout_of_node(c, i, activation->type, dnnl_format_tag_any);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(make(c, i, pooling(c, i, LAC_FORWARD, &data, &any), false, NULL, "the pooling", &made));
  lac_status status = new_tensor(c, dnnl_primitive_desc_query_md(made, dnnl_query_dst_md, 0), &activation->value);
  const lac_layout *workspace = dnnl_primitive_desc_query_md(made, dnnl_query_workspace_md, 0);
  if (!status && workspace && dnnl_memory_desc_get_size(workspace)) {
    status = new_tensor(c, workspace, &activation->workspace);
  }
  if (status) {
    dnnl_primitive_desc_destroy(made);
    return status;
  }
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC, from}, {DNNL_ARG_DST, activation->value},
                 {DNNL_ARG_WORKSPACE, activation->workspace}));
  activation->forward = last_step(c);
  return LAC_OK;
}

static lac_status pool_backward(const lac_compiler *c, int i) {
  const lac_activation *activation = &c->activations[i];
  const lac_node *node = node_of(c, i);
  lac_layout small = *layout_of(c, activation->value), large = *layout_of(c, input_of(c, i)->value);
  int to = 0, result = 0;
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(lac_compile_convert(c, activation->difference, &small, &to));
  LAC_TRY(new_tensor(c, &large, &result));
  LAC_TRY(make(c, i, pooling(c, i, LAC_BACKWARD_DATA, &large, &small), false, forward_of(c, i),
               "the gradient of the pooling", &made));
  LAC_TRY(APPEND(c, made, {DNNL_ARG_DIFF_DST, to}, {DNNL_ARG_WORKSPACE, activation->workspace},
                 {DNNL_ARG_DIFF_SRC, result}));
  return contribute(c, node->input, result);
}

/* ---- dropout ---- */

static void draw_mask(lac_call *call, int node, const float *from, float *to) {
  (void)from;
  const lac_node *dropout = &call->graph->nodes[node];
  int64_t count = call->graph->batch * dropout->shape.channels * dropout->shape.height * dropout->shape.width;
  if (call->dropout) {
    lac_dropout_mask(call->key, node, dropout->rate, count, to);
    return;
  }
  for (int64_t u = 0; u < count; u++) {
    to[u] = 1;
  }
}

/* A tensor times the mask, which is given under the tensor's layout; the mask stays float32: 1 / (1 - rate) is seldom a
 * bfloat16. */
static lac_status multiply_by_mask(const lac_compiler *c, int i, int tensor, int mask, int *product) {
  lac_layout data = *layout_of(c, tensor), factors = with_type(data, dnnl_f32);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(lac_compile_convert(c, mask, &factors, &mask));
  LAC_TRY(new_tensor(c, &data, product));
  LAC_TRY(make(c, i, binary(dnnl_binary_mul, &data, &factors), false, NULL, "the dropout", &made));
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC_0, tensor}, {DNNL_ARG_SRC_1, mask}, {DNNL_ARG_DST, *product}));
  lac_plan_in_place(c->plan, tensor, *product);
  return LAC_OK;
}

static lac_status dropout_forward(const lac_compiler *c, int i) {
  lac_activation *activation = &c->activations[i];
  int from = input_of(c, i)->value;
  if (!c->training) {
    activation->value = from;
    return LAC_OK;
  }
  lac_layout canonical = lac_layout_of_node(c, i, dnnl_f32, dnnl_abcd),
             factors = with_type(*layout_of(c, from), dnnl_f32);
  LAC_TRY(new_tensor(c, &canonical, &activation->mask));
  LAC_TRY(lac_plan_work(c->context, c->plan, draw_mask, i, LAC_NO_TENSOR, activation->mask));
  LAC_TRY(lac_compile_convert(c, activation->mask, &factors, &activation->mask));
  return multiply_by_mask(c, i, from, activation->mask, &activation->value);
}

static lac_status dropout_backward(const lac_compiler *c, int i) {
  const lac_activation *activation = &c->activations[i];
  int result = 0;
  LAC_TRY(multiply_by_mask(c, i, activation->difference, activation->mask, &result));
  return contribute(c, node_of(c, i)->input, result);
}

/* ---- addition ---- */

static lac_status add_forward(const lac_compiler *c, int i) {
  lac_activation *activation = &c->activations[i];
  int left = input_of(c, i)->value, right = c->activations[node_of(c, i)->other].value;
  lac_layout data = *layout_of(c, left);
  dnnl_primitive_desc_t made = NULL;
  LAC_TRY(lac_compile_convert(c, right, &data, &right));
  LAC_TRY(new_tensor(c, &data, &activation->value));
  LAC_TRY(make(c, i, binary(dnnl_binary_add, &data, &data), activation->fused, NULL, "the addition", &made));
  LAC_TRY(APPEND(c, made, {DNNL_ARG_SRC_0, left}, {DNNL_ARG_SRC_1, right}, {DNNL_ARG_DST, activation->value}));
  /* With a ReLU behind the sum oneDNN zeroes the result first when its last block of channels is not full. */
  if (!activation->fused || node_of(c, i)->shape.channels % LAC_BLOCK == 0) {
    lac_plan_in_place(c->plan, left, activation->value);
  }
  return LAC_OK;
}

static lac_status add_backward(const lac_compiler *c, int i) {
  LAC_TRY(contribute(c, node_of(c, i)->input, c->activations[i].difference));
  return contribute(c, node_of(c, i)->other, c->activations[i].difference);
}

/* ---- all kinds ---- */

static lac_status input_forward(const lac_compiler *c, int i) {
  lac_layout canonical = lac_layout_of_node(c, i, dnnl_f32, dnnl_abcd);
  return lac_plan_tensor(c->context, c->plan, LAC_PLACE_PICTURES, 0, &canonical, &c->activations[i].value);
}

static lac_status nothing(const lac_compiler *c, int i) {
  (void)c;
  (void)i;
  return LAC_OK;
}

static const struct {
  lac_compile_step *forward, *backward;
} steps[LAC_NODE_KINDS] = {
    [LAC_NODE_INPUT] = {input_forward, nothing},
    [LAC_NODE_CONV] = {weighted_forward, weighted_backward},
    [LAC_NODE_DENSE] = {weighted_forward, weighted_backward},
    [LAC_NODE_BATCHNORM] = {batchnorm_forward, batchnorm_backward},
    [LAC_NODE_RELU] = {relu_forward, relu_backward},
    [LAC_NODE_MAXPOOL] = {pool_forward, pool_backward},
    [LAC_NODE_AVGPOOL] = {pool_forward, pool_backward},
    [LAC_NODE_DROPOUT] = {dropout_forward, dropout_backward},
    [LAC_NODE_ADD] = {add_forward, add_backward},
};

lac_status lac_compile_forward(const lac_compiler *c, int node) {
  return steps[node_of(c, node)->kind].forward(c, node);
}

lac_status lac_compile_backward(const lac_compiler *c, int node) {
  return steps[node_of(c, node)->kind].backward(c, node);
}

#endif
