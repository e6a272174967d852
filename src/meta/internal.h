/*
 * internal.h
 *		What the files of meta/ share.  All between capstan_meta_enter and _leave.
 */
#ifndef CAPSTAN_META_INTERNAL_H
#define CAPSTAN_META_INTERNAL_H

#include "access/htup.h"
#include "access/tupdesc.h"

/* Runs one statement; `expected` is the SPI_OK_ code it must give. */
extern void meta_execute(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls, int expected);
/* A text Datum, or 0 and 'n' in *null. */
extern Datum meta_text_or_null(const char *text, char *null);
/* Any column in its text form, in `context`; NULL when NULL. */
extern char *meta_get_text(HeapTuple tuple, TupleDesc desc, int column, MemoryContext context);
extern int64 meta_get_int64(HeapTuple tuple, TupleDesc desc, int column, int64 when_null);

#endif
