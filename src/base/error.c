/*
 * error.c
 *		Filling a CapstanError; see error.h.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

bool
capstan_error(CapstanError *error, CapstanErrorCode code, const char *format,...)
{
	va_list		args;

	error->code = code;
	va_start(args, format);
	vsnprintf(error->message, sizeof(error->message), format, args);
	va_end(args);
	return false;
}
