/*
 * unit.h
 *		A very small test harness: checks are counted, a failed one tells where
 *		and what, and the run goes on.
 */
#ifndef CAPSTAN_UNIT_H
#define CAPSTAN_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The test in progress; shown with failures. */
extern void unit_begin(const char *name);
extern bool unit_check(bool ok, const char *file, int line, const char *format,...)
	__attribute__((format(printf, 4, 5)));

#define CHECK(condition) unit_check((condition), __FILE__, __LINE__, "%s", #condition)
#define CHECK_MSG(condition, ...) unit_check((condition), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_STR(got, expected) \
	unit_check_str((got), (expected), __FILE__, __LINE__)
extern bool unit_check_str(const char *got, const char *expected, const char *file, int line);

/* A file of data/, NUL-terminated; the run ends if it is not there. Free with free(). */
extern uint8_t *unit_load(const char *name, size_t *length);
/*
 * Next line of a text made by unit_load, or NULL; the newline becomes a NUL.
 */
extern char *unit_line(char **rest);
/* Cuts at the next separator: the field, NULL after the last. */
extern char *unit_field(char **rest, char separator);

/* Reproducible pseudo-random numbers. */
extern uint64_t unit_random(void);

extern void test_base(void);
extern void test_gtidset(void);
extern void test_decimal(void);
extern void test_json(void);
extern void test_values(void);
extern void test_tablemap(void);
extern void test_events(void);
extern void test_fixtures(void);
extern void test_statement(void);
extern void test_row(void);
extern void test_mutations(void);
extern void test_hostile(void);

#endif
