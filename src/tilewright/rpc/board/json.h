/* JSON texts as trees, for the worker of a board: bounded in depth, each node from one block that is freed as a whole. */
#ifndef TILEWRIGHT_JSON_H
#define TILEWRIGHT_JSON_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_OBJECT };

/* Members of lists and objects are chained by `next`; those of objects have a `key`. */
struct json {
  enum json_kind kind;
  char *key, *text;
  double number;
  int64_t integer;
  int32_t count;
  struct json *first, *next;
};

struct json_text {
  char *at;
  struct json *nodes;
  size_t used, most;
};

static void json_space(struct json_text *t) {
  while (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r') ++t->at;
}

static char *json_utf8(char *to, unsigned code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xC0 | code >> 6);
    *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xE0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

/* A string, decoded in place; null where it does not end. */
static char *json_string(struct json_text *t) {
  static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  char *start = ++t->at, *to = start;
  for (; *t->at && *t->at != '"'; ++t->at) {
    if (*t->at != '\\') {
      *to++ = *t->at;
      continue;
    }
    char letter = *++t->at;
    if (letter == 'u') {
      char digits[5] = {0};
      for (int i = 0; i < 4; ++i) {
        if (!t->at[1]) return NULL;
        digits[i] = *++t->at;
      }
      to = json_utf8(to, (unsigned)strtoul(digits, NULL, 16));
      continue;
    }
    const char *known = escapes;
    while (*known && *known != letter) known += 2;
    if (!*known) return NULL;
    *to++ = known[1];
  }
  if (*t->at != '"') return NULL;
  ++t->at;
  *to = 0;
  return start;
}

static struct json *json_value(struct json_text *t, int depth);

static struct json *json_members(struct json_text *t, struct json *node, char end, int depth) {
  struct json **link = &node->first;
  ++t->at;
  json_space(t);
  if (*t->at == end) return ++t->at, node;
  for (;;) {
    char *key = NULL;
    json_space(t);
    if (end == '}') {
      if (*t->at != '"' || !(key = json_string(t))) return NULL;
      json_space(t);
      if (*t->at++ != ':') return NULL;
    }
    struct json *member = json_value(t, depth + 1);
    if (!member) return NULL;
    member->key = key;
    *link = member;
    link = &member->next;
    ++node->count;
    json_space(t);
    char next = *t->at++;
    if (next == end) return node;
    if (next != ',') return NULL;
  }
}

static struct json *json_word(struct json_text *t, struct json *node, const char *word, enum json_kind kind) {
  size_t length = strlen(word);
  if (strncmp(t->at, word, length)) return NULL;
  t->at += length;
  node->kind = kind;
  node->integer = *word == 't';
  return node;
}

static struct json *json_value(struct json_text *t, int depth) {
  json_space(t);
  if (depth > 32 || t->used == t->most) return NULL;
  struct json *node = &t->nodes[t->used++];
  memset(node, 0, sizeof *node);
  switch (*t->at) {
    case '{': node->kind = JSON_OBJECT; return json_members(t, node, '}', depth);
    case '[': node->kind = JSON_LIST; return json_members(t, node, ']', depth);
    case '"': node->kind = JSON_STRING; node->text = json_string(t); return node->text ? node : NULL;
    case 't': return json_word(t, node, "true", JSON_BOOL);
    case 'f': return json_word(t, node, "false", JSON_BOOL);
    case 'n': return json_word(t, node, "null", JSON_NULL);
    default: break;
  }
  char *end;
  node->kind = JSON_NUMBER;
  node->number = strtod(t->at, &end);
  node->integer = strtoll(t->at, NULL, 10);
  if (end == t->at) return NULL;
  t->at = end;
  return node;
}

/* The tree of a text of `length` bytes, followed by a zero, which is changed; null for what is no JSON text.
 * `*nodes` is to be freed. */
static struct json *json_read(char *text, size_t length, struct json **nodes) {
  struct json_text t = {text, NULL, 0, length / 2 + 2};
  *nodes = t.nodes = calloc(t.most, sizeof *t.nodes);
  struct json *found = t.nodes ? json_value(&t, 0) : NULL;
  if (found) json_space(&t);
  return found && t.at == text + length ? found : NULL;
}

static struct json *json_get(const struct json *node, const char *key) {
  struct json *member = node && node->kind == JSON_OBJECT ? node->first : NULL;
  while (member && strcmp(member->key, key)) member = member->next;
  return member;
}

static int64_t json_int(const struct json *node, const char *key, int64_t otherwise) {
  struct json *found = json_get(node, key);
  return found && found->kind == JSON_NUMBER ? found->integer : otherwise;
}

static const char *json_text_of(const struct json *node, const char *key) {
  struct json *found = json_get(node, key);
  return found && found->kind == JSON_STRING ? found->text : "";
}

#endif
