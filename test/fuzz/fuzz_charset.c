/*
 * fuzz_charset.c
 *		libFuzzer target: u16 collation, text in its character set.  What comes out is utf-8, zero bytes said, or nothing.
 *
 * The only one that needs Postgres' headers, and of its libraries what it shares with clients; the few functions of the server that
 * src/map/charset*.c call are here.
 */
#include "postgres.h"

#include "base/collation.h"
#include "fuzz.h"
#include "map/charset.h"

MemoryContext TopMemoryContext = NULL;

void *
palloc(Size size)
{
	return capstan_alloc(size);
}

void *
palloc0(Size size)
{
	return capstan_alloc0(size);
}

void
pfree(void *pointer)
{
	capstan_free(pointer);
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return capstan_alloc(size);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return capstan_alloc0(size);
}

/* An elog() of these files says that their own tables are wrong. */
bool
errstart(int elevel, const char *domain)
{
	FUZZ_FAIL("an error was raised");
	return false;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	abort();
}

void
ExceptionalCondition(const char *conditionName,
#if PG_VERSION_NUM < 160000
					 const char *errorType,
#endif
					 const char *fileName, int lineNumber)
{
	abort();
}

static void
check_result(char *result, size_t length, TextFault fault)
{
	bool		zeros = memchr(result, '\0', length) != NULL;

	if (zeros != (fault == TEXT_HAS_NUL))
		FUZZ_FAIL("zero bytes that are not said, or said and not there");
	for (size_t i = 0; zeros && i < length; i++)
	{
		if (result[i] == '\0')
			result[i] = '0';
	}
	if (!capstan_charset_is_utf8(result, length))
		FUZZ_FAIL("what came out is no utf-8");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	ByteReader	reader = capstan_bytes_reader(data, size);
	const char *charset = capstan_collation_charset(capstan_bytes_u16(&reader));
	size_t		length = capstan_bytes_left(&reader);
	const CharsetConverter *converter = charset != NULL ? capstan_charset_converter(charset) : NULL;
	char	   *copy;
	TextFault	fault;
	text	   *converted;

	if (reader.failed || converter == NULL)
		return 0;
	copy = (char *) fuzz_copy(reader.pos, length);
	capstan_memory_largest = 0;
	converted = capstan_charset_to_text(converter, copy, length, &fault);
	if (converted != NULL)
	{
		check_result(VARDATA(converted), VARSIZE(converted) - VARHDRSZ, fault);
		pfree(converted);
		(void) capstan_charset_has_second_code(converter, copy, length);
	}
	fuzz_check_memory(size);
	free(copy);
	return 0;
}
