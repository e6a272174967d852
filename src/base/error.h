/*
 * error.h
 *		How the pure layers report a failure: a code and a text, by value.
 *
 * They never throw.  A function that can fail returns false (or NULL) and fills
 * the CapstanError; the extension turns that into an ereport with the
 * SQLSTATE that belongs to the code (see errcodes.h).
 *
 * Texts never contain row values.
 */
#ifndef CAPSTAN_ERROR_H
#define CAPSTAN_ERROR_H

#include <stdbool.h>

typedef enum CapstanErrorCode
{
	CAPSTAN_OK = 0,
	CAPSTAN_ERROR_TRUNCATED,	/* the bytes end before the value does */
	CAPSTAN_ERROR_MALFORMED,	/* the bytes contradict the format */
	CAPSTAN_ERROR_CHECKSUM,		/* the CRC32 of an event does not match */
	CAPSTAN_ERROR_UNSUPPORTED,	/* well-formed, but not known here */
	CAPSTAN_ERROR_LIMIT			/* a length or count over its limit */
} CapstanErrorCode;

typedef struct CapstanError
{
	CapstanErrorCode code;
	char		message[400];	/* lower-case, no period, in Postgres' manner */
} CapstanError;

/* Fills the error and returns false, so that callers can `return capstan_error(...)`. */
extern bool capstan_error(CapstanError *error, CapstanErrorCode code, const char *format,...)
	__attribute__((format(printf, 3, 4)));

#endif
