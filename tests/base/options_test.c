/* Option tables: what is taken, what is refused and with which words. */
#include "laconic/options.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>

#include "base/text.h"
#include "support.h"

typedef struct settings {
  bool local, keep;
  int64_t bits, seed, bytes;
  double mu, width;
  int method;
  char *output, *label;
} settings;

static const char *const methods[] = {"ba", "itq", "pca", "lsh", NULL};

static const lac_option table[] = {
    {.key = "local-epochs", .type = LAC_OPTION_FLAG, .offset = offsetof(settings, local), .help = "h"},
    {.key = "keep", .type = LAC_OPTION_FLAG, .offset = offsetof(settings, keep), .fallback = "true", .help = "h"},
    {.key = "bits",
     .type = LAC_OPTION_INT,
     .offset = offsetof(settings, bits),
     .low = 1,
     .high = 1024,
     .fallback = "16",
     .unit = "bits",
     .help = "h"},
    {.key = "seed",
     .type = LAC_OPTION_INT,
     .offset = offsetof(settings, seed),
     .low = -0x1p63,
     .high = 0x1p63,
     .fallback = "0",
     .help = "h"},
    {.key = "bytes",
     .type = LAC_OPTION_INT,
     .offset = offsetof(settings, bytes),
     .low = 0,
     .high = 1e15,
     .fallback = "64k",
     .help = "h"},
    {.key = "mu",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(settings, mu),
     .low = 1e-12,
     .high = 1e12,
     .fallback = "0.05",
     .help = "h"},
    {.key = "width",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(settings, width),
     .low = 0,
     .high = 1e300,
     .help = "h"},
    {.key = "method",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(settings, method),
     .names = methods,
     .fallback = "ba",
     .help = "h"},
    {.key = "output", .type = LAC_OPTION_TEXT, .offset = offsetof(settings, output), .help = "h", .letter = 'o'},
    {.key = "label", .type = LAC_OPTION_TEXT, .offset = offsetof(settings, label), .fallback = "run", .help = "h"},
    LAC_OPTIONS_END};

static void takes_defaults_into_uninitialised_memory(void **state) {
  settings options;
  memset(&options, 0xA5, sizeof options);
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_false(options.local);
  assert_true(options.keep);
  assert_int_equal(options.bits, 16);
  assert_int_equal(options.bytes, 64000);
  assert_true(options.mu == 0.05);
  assert_true(options.width == 0);
  assert_int_equal(options.method, 0);
  assert_null(options.output);
  assert_string_equal(options.label, "run");
  lac_options_clear(table, &options);
  assert_null(options.label);
}

static void sets_every_type(void **state) {
  settings options;
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_ok(*state, lac_options_set(*state, table, &options, "local-epochs", NULL));
  assert_true(options.local);
  assert_ok(*state, lac_options_set(*state, table, &options, "no-local-epochs", NULL));
  assert_false(options.local);
  assert_ok(*state, lac_options_set(*state, table, &options, "keep", "false"));
  assert_false(options.keep);
  assert_ok(*state, lac_options_set(*state, table, &options, "bytes", "3G"));
  assert_int_equal(options.bytes, 3000000000);
  assert_ok(*state, lac_options_set(*state, table, &options, "bytes", "7M"));
  assert_int_equal(options.bytes, 7000000);
  assert_ok(*state, lac_options_set(*state, table, &options, "seed", "-9223372036854775808"));
  assert_true(options.seed == INT64_MIN);
  assert_ok(*state, lac_options_set(*state, table, &options, "seed", "9223372036854775807"));
  assert_true(options.seed == INT64_MAX);
  assert_ok(*state, lac_options_set(*state, table, &options, "bits", "1"));
  assert_ok(*state, lac_options_set(*state, table, &options, "bits", "1024"));
  assert_ok(*state, lac_options_set(*state, table, &options, "mu", "2.5e-3"));
  assert_true(options.mu == 2.5e-3);
  assert_ok(*state, lac_options_set(*state, table, &options, "method", "pca"));
  assert_int_equal(options.method, 2);
  assert_ok(*state, lac_options_set(*state, table, &options, "output", "first"));
  char caller[] = "second";
  assert_ok(*state, lac_options_set(*state, table, &options, "output", caller));
  caller[0] = 'X'; /* the struct owns a copy */
  assert_string_equal(options.output, "second");
  lac_options_clear(table, &options);
}

/* Refused values leave the destination as it was and name option, found and expected. */
static void refuses_bad_values(void **state) {
  static const char *const integers[] = {"",
                                         " 8",
                                         "8 ",
                                         "0x10",
                                         "1.5",
                                         "8bits",
                                         "1e2",
                                         "k",
                                         "kk",
                                         "2kk",
                                         "-1",
                                         "0",
                                         "1025",
                                         "--4",
                                         "+-4",
                                         "2M",
                                         "nan",
                                         "9223372036854775808",
                                         "99999999999999999999999",
                                         "10000000000000000G"};
  static const char *const reals[] = {"",    " 1",    "1 ", "0x1p3", "nan", "inf", "-inf", "1e999",
                                      "1,5", "1.5.2", "e5", "-",     "0",   "-1",  "1e13"};
  settings options;
  assert_ok(*state, lac_options_default(*state, table, &options));
  char words[128];
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
    snprintf(words, sizeof words, "--bits: found '%s', expected a whole number from 1 to 1024 bits", integers[i]);
    assert_failure(*state, lac_options_set(*state, table, &options, "bits", integers[i]), LAC_E_USAGE, words);
    assert_int_equal(options.bits, 16);
  }
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
    snprintf(words, sizeof words, "--mu: found '%s', expected a number from 1e-12 to 1e+12", reals[i]);
    assert_failure(*state, lac_options_set(*state, table, &options, "mu", reals[i]), LAC_E_USAGE, words);
    assert_true(options.mu == 0.05);
  }
  assert_failure(*state, lac_options_set(*state, table, &options, "method", "itqq"), LAC_E_USAGE,
                 "--method: found 'itqq', expected one of ba, itq, pca, lsh; did you mean itq?");
  assert_failure(*state, lac_options_set(*state, table, &options, "method", "spectral"), LAC_E_USAGE, "pca, lsh");
  assert_failure(*state, lac_options_set(*state, table, &options, "keep", "maybe"), LAC_E_USAGE, "true or false");
  assert_failure(*state, lac_options_set(*state, table, &options, "no-keep", "true"), LAC_E_USAGE, "no value");
  assert_failure(*state, lac_options_set(*state, table, &options, "bits", NULL), LAC_E_USAGE, "found no value");
  lac_options_clear(table, &options);
}

static void suggests_the_nearest_key(void **state) {
  static const char *const pairs[][2] = {
      {"bit", "bits"},   {"btis", "bits"}, {"ouput", "output"}, {"metod", "method"}, {"local_epochs", "local-epochs"},
      {"with", "width"}, {"Seed", "seed"}};
  settings options;
  assert_ok(*state, lac_options_default(*state, table, &options));
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char words[64];
    snprintf(words, sizeof words, "--%s: unknown option, did you mean --%s?", pairs[i][0], pairs[i][1]);
    assert_failure(*state, lac_options_set(*state, table, &options, pairs[i][0], "1"), LAC_E_USAGE, words);
  }
  assert_failure(*state, lac_options_set(*state, table, &options, "no-bits", NULL), LAC_E_USAGE,
                 "--no-bits: unknown option");
  assert_failure(*state, lac_options_set(*state, table, &options, "zzzzzz", "1"), LAC_E_USAGE,
                 "--zzzzzz: unknown option");
  assert_null(strstr(lac_context_message(*state), "mean")); /* nothing is near */
  lac_options_clear(table, &options);
}

/* get gives a text that set takes back to the same value. */
static void texts_go_round(void **state) {
  static const double reals[] = {0.05, 1.0 / 3, 1e-12, 123456789.125, 0.1 + 0.2, 5e-324, 9.7976931348623157e299};
  settings options, again;
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_ok(*state, lac_options_default(*state, table, &again));
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
    char *text;
    options.width = reals[i];
    assert_ok(*state, lac_options_get(*state, lac_options_find(table, "width"), &options, &text));
    assert_ok(*state, lac_options_set(*state, table, &again, "width", text));
    assert_true(again.width == reals[i]);
    free(text);
  }
  options.method = 3;
  options.seed = INT64_MIN;
  for (const lac_option *option = table; option->key; option++) {
    char *text, *second;
    assert_ok(*state, lac_options_get(*state, option, &options, &text));
    if (text) {
      assert_ok(*state, lac_options_set(*state, table, &again, option->key, text));
      assert_ok(*state, lac_options_get(*state, option, &again, &second));
      assert_string_equal(text, second);
      free(second);
    }
    free(text);
  }
  assert_int_equal(again.method, 3);
  assert_true(again.seed == INT64_MIN);
  lac_options_clear(table, &options);
  lac_options_clear(table, &again);
}

static void gives_json(void **state) {
  settings options;
  char *text;
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_ok(*state, lac_options_set(*state, table, &options, "label", "a \"quoted\" \xFF name"));
  assert_ok(*state, lac_options_json(*state, table, &options, &text));
  assert_string_equal(text,
                      "{\"local-epochs\": false, \"keep\": true, \"bits\": 16, \"seed\": 0, \"bytes\": 64000, \"mu\": "
                      "0.05, \"width\": 0.0, \"method\": \"ba\", \"output\": null, \"label\": \"a \\\"quoted\\\" "
                      "\xEF\xBF\xBD name\"}");
  free(text);
  options.width = 0.1 + 0.2; /* needs all 17 digits */
  assert_ok(*state, lac_options_json(*state, table, &options, &text));
  json_t *object = json_loads(text, 0, NULL);
  assert_true(json_real_value(json_object_get(object, "width")) == 0.1 + 0.2);
  assert_true(json_real_value(json_object_get(object, "mu")) == 0.05);
  json_decref(object);
  free(text);
  lac_options_clear(table, &options);
}

/* A bad default is an error, and nothing is leaked or left undefined. */
static void bad_default_is_refused(void **state) {
  static const lac_option bad[] = {
      {.key = "label", .type = LAC_OPTION_TEXT, .offset = offsetof(settings, label), .fallback = "run"},
      {.key = "bits", .type = LAC_OPTION_INT, .offset = offsetof(settings, bits), .low = 1, .high = 2, .fallback = "3"},
      {.key = "output", .type = LAC_OPTION_TEXT, .offset = offsetof(settings, output)},
      LAC_OPTIONS_END};
  settings options;
  memset(&options, 0xA5, sizeof options);
  assert_failure(*state, lac_options_default(*state, bad, &options), LAC_E_USAGE, "--bits: found '3'");
  assert_null(options.label);
  assert_null(options.output);
}

/* Numbers do not follow the program's locale. Without such a locale on the machine the C locale is what is tested. */
static void ignores_the_locale(void **state) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
  for (size_t i = 0; i < sizeof names / sizeof *names && !setlocale(LC_ALL, names[i]); i++) {
  }
  settings options;
  char *text;
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_true(options.mu == 0.05);
  assert_ok(*state, lac_options_get(*state, lac_options_find(table, "mu"), &options, &text));
  assert_string_equal(text, "0.05");
  free(text);
  lac_options_clear(table, &options);
  setlocale(LC_ALL, "C");
}

static void measures_text_distance(void **state) {
  (void)state;
  assert_int_equal(lac_text_distance("", ""), 0);
  assert_int_equal(lac_text_distance("", "abc"), 3);
  assert_int_equal(lac_text_distance("kitten", "sitting"), 3);
  assert_int_equal(lac_text_distance("abcd", "abdc"), 1); /* a swap of neighbours is one edit */
  assert_int_equal(lac_text_distance("flaw", "lawn"), 2);
  char a[200], b[200];
  memset(a, 'a', sizeof a);
  memset(b, 'b', sizeof b);
  a[199] = b[199] = 0;
  assert_int_equal(lac_text_distance(a, b), 63);
}

/* The table of well-formed byte sequences in the Unicode standard (table 3-7), at its edges. */
static void knows_utf8(void **state) {
  static const char *const good[] = {"",
                                     "a",
                                     "\x7F",
                                     "\xC2\x80",
                                     "\xDF\xBF",
                                     "\xE0\xA0\x80",
                                     "\xED\x9F\xBF",
                                     "\xEE\x80\x80",
                                     "\xEF\xBF\xBF",
                                     "\xF0\x90\x80\x80",
                                     "\xF4\x8F\xBF\xBF",
                                     "x\xC3\xA9y"};
  static const char *const bad[] = {"\x80",
                                    "\xBF",
                                    "\xC0\x80",
                                    "\xC1\xBF",
                                    "\xC2",
                                    "\xC2\x20",
                                    "\xE0\x9F\xBF",
                                    "\xE1\x80",
                                    "\xED\xA0\x80",
                                    "\xEF\xBF",
                                    "\xF0\x8F\xBF\xBF",
                                    "\xF1\x80\x80",
                                    "\xF4\x90\x80\x80",
                                    "\xF5\x80\x80\x80",
                                    "\xFF",
                                    "a\xE2\x28\xA1"};
  char *copy;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_true(lac_utf8_valid(good[i], strlen(good[i])));
    assert_ok(*state, lac_utf8_repair(*state, good[i], &copy));
    assert_string_equal(copy, good[i]);
    free(copy);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(lac_utf8_valid(bad[i], strlen(bad[i])));
    assert_ok(*state, lac_utf8_repair(*state, bad[i], &copy));
    assert_true(lac_utf8_valid(copy, strlen(copy)));
    assert_non_null(strstr(copy, "\xEF\xBF\xBD"));
    free(copy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_defaults_into_uninitialised_memory),
      cmocka_unit_test(sets_every_type),
      cmocka_unit_test(refuses_bad_values),
      cmocka_unit_test(suggests_the_nearest_key),
      cmocka_unit_test(texts_go_round),
      cmocka_unit_test(gives_json),
      cmocka_unit_test(bad_default_is_refused),
      cmocka_unit_test(ignores_the_locale),
      cmocka_unit_test(measures_text_distance),
      cmocka_unit_test(knows_utf8),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
