/*
 * source_spec.h
 *		SourceTables and SourceValues written as text, for tests.
 */
#ifndef SOURCE_SPEC_H
#define SOURCE_SPEC_H

#include "row.h"

extern SourceTable *source_spec_table(const char *spec);
extern void source_spec_value(const char *text, SourceValue *value);

#endif
