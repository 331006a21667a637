/* Sending, receiving and waiting: what lies between a back end's packets and the callers' messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/backend.h"

/* ---- sending ---- */

lac_status lac_world_packet(lac_world *world, int to, int tag, const void *data, size_t bytes) {
  LAC_TRY(world->backend->send(world->link, world->context, to, tag, data, bytes));
  world->sent[to] += tag != LAC_TAG_CLOSE;
  return LAC_OK;
}

static lac_status send_long(lac_world *world, int to, int tag, const char *data, size_t bytes) {
  int64_t head[2] = {tag, (int64_t)bytes};
  LAC_TRY(lac_world_packet(world, to, LAC_TAG_LONG, head, sizeof head));
  for (size_t at = 0; at < bytes; at += world->packet_limit) {
    size_t part = bytes - at < world->packet_limit ? bytes - at : world->packet_limit;
    LAC_TRY(lac_world_packet(world, to, LAC_TAG_PART, data + at, part));
  }
  return LAC_OK;
}

static lac_status deliver(lac_world *world, lac_packet *packet);

static lac_status send_to_self(lac_world *world, int tag, const void *data, size_t bytes) {
  lac_packet *packet;
  LAC_TRY(lac_packet_copy(world->context, world->rank, tag, data, bytes, &packet));
  return deliver(world, packet);
}

static lac_status peer_failed(lac_world *world) {
  const lac_outcome *failure = &world->failure;
  /* An interrupt reaches all workers as an interrupt, whichever of them was signalled. */
  bool interrupt = failure->status == LAC_E_INTERRUPTED;
  return lac_fail(world->context, interrupt ? LAC_E_INTERRUPTED : LAC_E_PEER, "worker %d %s: %.900s", world->failed,
                  interrupt ? "was interrupted" : "failed", failure->line);
}

lac_status lac_world_send_tagged(lac_world *world, int to, int tag, const void *data, size_t bytes,
                                 lac_traffic traffic) {
  if (to < 0 || to >= world->size) {
    return lac_fail(world->context, LAC_E_USAGE, "send: found worker %d, expected 0 to %d", to, world->size - 1);
  }
  if (world->failed >= 0) {
    return peer_failed(world);
  }
  if (to == world->rank) {
    LAC_TRY(send_to_self(world, tag, data, bytes));
  } else if (bytes > world->packet_limit) {
    LAC_TRY(send_long(world, to, tag, data, bytes));
  } else {
    LAC_TRY(lac_world_packet(world, to, tag, data, bytes));
  }
  world->counts.messages[traffic]++;
  world->counts.bytes[traffic] += (int64_t)bytes;
  return LAC_OK;
}

/* ---- arriving ---- */

/* When a packet is due under the random delays: not before what the same worker sent earlier under the same tag. */
static double due_time(lac_world *world, const lac_message *message) {
  int64_t number = world->senders[message->from].messages++;
  if (world->delay_seed == 0 || world->delay_limit <= 0) {
    return 0;
  }
  uint64_t pair = (uint64_t)message->from * (uint64_t)world->size + (uint64_t)world->rank;
  lac_random stream = lac_random_stream(world->delay_seed, LAC_RANDOM_DELAY, pair, (uint64_t)number);
  double due = world->backend->now(world->link) + world->delay_limit * lac_random_uniform(&stream);
  for (const lac_packet *p = world->inbox; p; p = p->next) {
    if (p->message.from == message->from && p->message.tag == message->tag && p->due > due) {
      due = p->due;
    }
  }
  return due;
}

static lac_status deliver(lac_world *world, lac_packet *packet) {
  packet->due = due_time(world, &packet->message);
  lac_packet **at = &world->inbox;
  while (*at && (*at)->due <= packet->due) {
    at = &(*at)->next;
  }
  packet->next = *at;
  *at = packet;
  return LAC_OK;
}

static lac_status broken(lac_world *world, int from, const char *what) {
  return lac_fail(world->context, LAC_E_PEER, "worker %d broke the protocol: %s", from, what);
}

static lac_status begin_long(lac_world *world, const lac_message *message) {
  lac_sender *sender = &world->senders[message->from];
  int64_t head[2] = {0, 0};
  if (message->bytes == sizeof head) {
    memcpy(head, message->data, sizeof head);
  }
  if (head[1] <= 0 || sender->partial) {
    return broken(world, message->from, "a long message began wrongly");
  }
  lac_packet *whole = calloc(1, sizeof *whole);
  void *data = whole ? malloc((size_t)head[1]) : NULL;
  if (!data) {
    free(whole);
    return lac_fail(world->context, LAC_E_MEMORY, "cannot allocate a message of %lld bytes", (long long)head[1]);
  }
  whole->message = (lac_message){.from = message->from, .tag = (int)head[0], .bytes = (size_t)head[1], .data = data};
  sender->partial = whole;
  sender->have = 0;
  return LAC_OK;
}

static lac_status add_part(lac_world *world, const lac_message *part) {
  lac_sender *sender = &world->senders[part->from];
  lac_packet *whole = sender->partial;
  if (!whole || part->bytes > whole->message.bytes - sender->have) {
    return broken(world, part->from, "a part belongs to no message");
  }
  memcpy((char *)whole->message.data + sender->have, part->data, part->bytes);
  sender->have += part->bytes;
  if (sender->have == whole->message.bytes) {
    sender->partial = NULL;
    return deliver(world, whole);
  }
  return LAC_OK;
}

static lac_status note_failure(lac_world *world, const lac_message *message) {
  if (message->bytes != sizeof world->failure) {
    return broken(world, message->from, "a notice of the wrong size");
  }
  if (world->failed < 0) {
    memcpy(&world->failure, message->data, sizeof world->failure);
    world->failure.line[LAC_LINE_BYTES - 1] = 0;
    world->failed = message->from;
  }
  return LAC_OK;
}

static lac_status answer_question(lac_world *world, const lac_message *message) {
  int64_t answer[2];
  if (message->bytes != sizeof answer[0]) {
    return broken(world, message->from, "a question of the wrong size");
  }
  if (world->closing) {
    return LAC_OK;
  }
  memcpy(answer, message->data, sizeof answer[0]);
  answer[1] = world->waits_for;
  return lac_world_packet(world, message->from, LAC_TAG_ANSWER, answer, sizeof answer);
}

static lac_status note_answer(lac_world *world, const lac_message *message) {
  int64_t answer[2];
  if (message->bytes != sizeof answer) {
    return broken(world, message->from, "an answer of the wrong size");
  }
  memcpy(answer, message->data, sizeof answer);
  if (answer[0] == world->question) { /* else too late: the answer to an earlier question */
    world->answer = (int)answer[1];
  }
  return LAC_OK;
}

/* Takes one packet in, and over. */
static lac_status admit(lac_world *world, lac_packet *packet) {
  const lac_message *message = &packet->message;
  lac_status status;
  world->senders[message->from].packets += message->tag != LAC_TAG_CLOSE;
  switch (message->tag) {
    case LAC_TAG_FAILURE:
      status = note_failure(world, message);
      break;
    case LAC_TAG_LONG:
      status = begin_long(world, message);
      break;
    case LAC_TAG_PART:
      status = add_part(world, message);
      break;
    case LAC_TAG_QUESTION:
      status = answer_question(world, message);
      break;
    case LAC_TAG_ANSWER:
      status = note_answer(world, message);
      break;
    default:
      return deliver(world, packet);
  }
  free(packet->message.data);
  free(packet);
  return status;
}

lac_status lac_world_drain(lac_world *world) {
  lac_packet *arrived = NULL;
  lac_status status = world->backend->fetch(world->link, world->context, &arrived);
  while (arrived) {
    lac_packet *packet = arrived;
    arrived = packet->next;
    lac_status admitted = admit(world, packet);
    status = status ? status : admitted;
  }
  return status;
}

/* ---- receiving ---- */

/* Takes the first message that matches and is due. */
static bool take(lac_world *world, int from, int tag, lac_message *message) {
  double now = 0;
  for (lac_packet **at = &world->inbox; *at; at = &(*at)->next) {
    lac_packet *packet = *at;
    if (packet->message.tag != tag || (from != LAC_ANY_WORKER && packet->message.from != from)) {
      continue;
    }
    if (packet->due > 0) {
      now = now > 0 ? now : world->backend->now(world->link);
      if (packet->due > now) {
        return false; /* the inbox is sorted: no later one is due */
      }
    }
    *at = packet->next;
    *message = packet->message;
    free(packet);
    return true;
  }
  return false;
}

static const char *tag_name(int tag, char *buffer, size_t bytes) {
  static const char *const names[LAC_TAG_FAILURE - LAC_TAG_LIMIT] = {
      [LAC_TAG_BARRIER - LAC_TAG_LIMIT] = "a barrier",     [LAC_TAG_SUM - LAC_TAG_LIMIT] = "a sum",
      [LAC_TAG_MIN - LAC_TAG_LIMIT] = "a minimum",         [LAC_TAG_MAX - LAC_TAG_LIMIT] = "a maximum",
      [LAC_TAG_BROADCAST - LAC_TAG_LIMIT] = "a broadcast", [LAC_TAG_GATHER - LAC_TAG_LIMIT] = "a gathering",
      [LAC_TAG_AGREE - LAC_TAG_LIMIT] = "an agreement",    [LAC_TAG_RING - LAC_TAG_LIMIT] = "a submodel",
      [LAC_TAG_RING_ODD - LAC_TAG_LIMIT] = "a submodel",   [LAC_TAG_EXCHANGE - LAC_TAG_LIMIT] = "a model",
      [LAC_TAG_ANSWER_MEAN - LAC_TAG_LIMIT] = "a mean",    [LAC_TAG_HALT - LAC_TAG_LIMIT] = "a halt",
      [LAC_TAG_STATE - LAC_TAG_LIMIT] = "a replica",       [LAC_TAG_HISTORY - LAC_TAG_LIMIT] = "a history",
  };
  _Static_assert(LAC_TAG_FAILURE - LAC_TAG_HISTORY == 1, "a tag without a name");
  if (tag >= LAC_TAG_LIMIT && tag < LAC_TAG_FAILURE) {
    return names[tag - LAC_TAG_LIMIT];
  }
  if (tag == LAC_TAG_CLOSE) {
    return "the end of its work";
  }
  snprintf(buffer, bytes, "tag %d", tag);
  return buffer;
}

static const char *worker_name(int worker, char *buffer, size_t bytes) {
  if (worker == LAC_ANY_WORKER) {
    return "any worker";
  }
  snprintf(buffer, bytes, "worker %d", worker);
  return buffer;
}

/* Asks a worker whom it waits for: LAC_NO_ANSWER when it does not say within the grace. Only workers inside a call of
 * this room answer, so silence means that it computes, is stuck, or is dead. */
static lac_status ask(lac_world *world, int worker, double grace, int *answer) {
  *answer = world->answer = LAC_NO_ANSWER;
  world->question++;
  LAC_TRY(lac_world_packet(world, worker, LAC_TAG_QUESTION, &world->question, sizeof world->question));
  double deadline = world->backend->now(world->link) + grace;
  for (;;) {
    LAC_TRY(lac_world_drain(world));
    double left = deadline - world->backend->now(world->link);
    if (world->answer != LAC_NO_ANSWER || world->failed >= 0 || left <= 0) {
      *answer = world->answer;
      return LAC_OK;
    }
    world->backend->wait(world->link, left < world->backend->slice ? left : world->backend->slice);
  }
}

/* Follows the chain of waits from `suspect` to the worker that holds up the others, and says so in `chain`. */
static lac_status find_culprit(lac_world *world, int suspect, int *culprit, char *chain, size_t bytes) {
  double grace = world->timeout / 4 < 1 ? world->timeout / 4 : 1;
  size_t used = 0;
  chain[0] = 0;
  *culprit = suspect;
  for (int hop = 0; hop < world->size && *culprit != world->rank; hop++) {
    int next;
    LAC_TRY(ask(world, *culprit, grace, &next));
    if (next < 0) {
      const char *state = next == LAC_NO_ANSWER     ? "does not answer"
                          : next == LAC_NOT_WAITING ? "is at work"
                          : next == LAC_ENDED       ? "has ended its work"
                                                    : "waits for any worker";
      snprintf(chain + used, bytes - used, ", which %s", state);
      return LAC_OK;
    }
    *culprit = next;
    if (used + 64 < bytes) {
      used += (size_t)snprintf(chain + used, bytes - used, ", which waits for worker %d", next);
    }
  }
  return LAC_OK;
}

/* The end of a wait by its deadline, unless asking around brings the message or a better reason after all. */
static lac_status late(lac_world *world, int from, int tag, int suspect, double start, lac_message *message) {
  char chain[512] = "", tag_text[32], from_text[32];
  int culprit = suspect;
  if (suspect != LAC_ANY_WORKER && suspect != world->rank) {
    LAC_TRY(find_culprit(world, suspect, &culprit, chain, sizeof chain));
  }
  if (take(world, from, tag, message)) {
    return LAC_OK;
  }
  if (world->failed >= 0) {
    return peer_failed(world);
  }
  world->awaited = culprit;
  return lac_fail(world->context, LAC_E_TIMEOUT, "worker %d waited %.2f s for %s from %s%s", world->rank,
                  world->backend->now(world->link) - start, tag_name(tag, tag_text, sizeof tag_text),
                  worker_name(suspect, from_text, sizeof from_text), chain);
}

/* How long the wait may sleep before something must be looked at again. */
static double nap(const lac_world *world, double now, double deadline) {
  double until = deadline < now + world->backend->slice ? deadline : now + world->backend->slice;
  for (const lac_packet *p = world->inbox; p; p = p->next) {
    if (p->due > now) {
      return (p->due < until ? p->due : until) - now;
    }
  }
  return until - now;
}

static lac_status wait_for(lac_world *world, int from, int tag, int suspect, lac_message *message) {
  double start = world->backend->now(world->link), deadline = start + world->timeout;
  for (;;) {
    LAC_TRY(lac_world_drain(world));
    if (take(world, from, tag, message)) {
      return LAC_OK;
    }
    if (world->failed >= 0) {
      return peer_failed(world);
    }
    if (lac_context_interrupted(world->context)) {
      return lac_fail(world->context, LAC_E_INTERRUPTED, "interrupted");
    }
    double now = world->backend->now(world->link);
    if (now >= deadline) {
      return late(world, from, tag, suspect, start, message);
    }
    world->backend->wait(world->link, nap(world, now, deadline));
  }
}

lac_status lac_world_await(lac_world *world, int from, int tag, double seconds, lac_message *message) {
  double start = world->backend->now(world->link), deadline = start + seconds;
  char text[32];
  world->waits_for = LAC_ENDED;
  for (;;) {
    LAC_TRY(lac_world_drain(world));
    if (take(world, from, tag, message)) {
      return LAC_OK;
    }
    double now = world->backend->now(world->link);
    if (now >= deadline) {
      return lac_fail(world->context, LAC_E_TIMEOUT, "worker %d waited %.2f s for %s from worker %d", world->rank,
                      now - start, tag_name(tag, text, sizeof text), from);
    }
    world->backend->wait(world->link, nap(world, now, deadline));
  }
}

lac_status lac_world_receive_tagged(lac_world *world, int from, int tag, int suspect, lac_message *message) {
  *message = (lac_message){0};
  if (from != LAC_ANY_WORKER && (from < 0 || from >= world->size)) {
    return lac_fail(world->context, LAC_E_USAGE, "receive: found worker %d, expected 0 to %d", from, world->size - 1);
  }
  world->waits_for = from != LAC_ANY_WORKER ? from : suspect;
  lac_status status = wait_for(world, from, tag, world->waits_for, message);
  world->waits_for = LAC_NOT_WAITING;
  return status;
}

lac_status lac_world_poll_tagged(lac_world *world, int from, int tag, lac_message *message, bool *found) {
  *message = (lac_message){0};
  *found = false;
  if (from != LAC_ANY_WORKER && (from < 0 || from >= world->size)) {
    return lac_fail(world->context, LAC_E_USAGE, "poll: found worker %d, expected 0 to %d", from, world->size - 1);
  }
  LAC_TRY(lac_world_drain(world));
  *found = take(world, from, tag, message);
  if (!*found && world->backend->miss) {
    world->backend->miss(world->link);
  }
  if (!*found && world->failed >= 0) {
    return peer_failed(world);
  }
  return *found || !lac_context_interrupted(world->context)
             ? LAC_OK
             : lac_fail(world->context, LAC_E_INTERRUPTED, "interrupted while looking for %s",
                        tag_name(tag, (char[LAC_LINE_BYTES]){0}, LAC_LINE_BYTES));
}

/* ---- callers' tags ---- */

static lac_status check_tag(lac_world *world, int tag) {
  if (tag < 0 || tag >= LAC_TAG_LIMIT) {
    return lac_fail(world->context, LAC_E_USAGE, "tag: found %d, expected 0 to %d", tag, LAC_TAG_LIMIT - 1);
  }
  return LAC_OK;
}

lac_status lac_world_send(lac_world *world, int to, int tag, const void *data, size_t bytes, lac_traffic traffic) {
  LAC_TRY(check_tag(world, tag));
  return lac_world_send_tagged(world, to, tag, data, bytes, traffic);
}

lac_status lac_world_receive(lac_world *world, int from, int tag, lac_message *message) {
  *message = (lac_message){0};
  LAC_TRY(check_tag(world, tag));
  return lac_world_receive_tagged(world, from, tag, LAC_ANY_WORKER, message);
}

lac_status lac_world_poll(lac_world *world, int from, int tag, lac_message *message, bool *found) {
  *message = (lac_message){0};
  *found = false;
  LAC_TRY(check_tag(world, tag));
  return lac_world_poll_tagged(world, from, tag, message, found);
}
