/*
 * convert_time.c
 *		Converters of DATE, DATETIME, TIMESTAMP and TIME, by integers only.
 *
 * What MySQL stores and Postgres has no value for:
 *
 *	- zero dates (0000-00-00, TIMESTAMP 0) and partial dates (month or day 0): the zero_dates policy.
 *		null: NULL.  infinity: -infinity, for both sorts.  halt: an error.
 *		In a key two different values must not become one: under null all of them, under
 *		infinity the partial ones are errors.
 *	- days that are not in the calendar (2015-02-31, with ALLOW_INVALID_DATES): always an error.
 *
 * Year 0 is 1 BC; both sides count it by the Gregorian calendar.
 */
#include "postgres.h"

#include "common/int.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "map/internal.h"

#define EPOCH_DAYS (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)
#define EPOCH_USECS ((int64) EPOCH_DAYS * USECS_PER_DAY)

typedef enum DateSort
{
	DATE_REAL,
	DATE_ZERO,
	DATE_PARTIAL
} DateSort;

/* Under null and infinity: counts, and tells which.  True: the value is NULL. */
static bool
apply_zero_dates(ColumnMap *map, DateSort sort)
{
	ZeroDates	policy = map->table->policies.zero_dates;

	if (policy == ZERO_DATES_HALT)
		capstan_convert_fail(map, "is a zero or partial date and zero_dates is halt",
							 "Set the pipeline's zero_dates to null or infinity, or correct the value on the source.");
	if (map->in_key && (policy == ZERO_DATES_NULL || sort == DATE_PARTIAL))
		capstan_convert_fail(map, "is a zero or partial date in the primary key, where no substitute is safe",
							 "Correct the value on the source.");
	if (policy == ZERO_DATES_NULL && map->not_null)
		capstan_convert_fail(map, "is a zero or partial date, zero_dates is null, and the target column is NOT NULL",
							 "Drop the target column's NOT NULL, set the pipeline's zero_dates to infinity, or correct the value on the source.");
	map->table->zero_dates_applied++;
	return policy == ZERO_DATES_NULL;
}

static DateSort
sort_of_date(ColumnMap *map, const SourceValue *value)
{
	const SourceDateTime *datetime = &value->u.datetime;
	int			days;

	if (value->kind != VALUE_DATETIME)
		capstan_convert_wrong_kind(map, value);
	if (datetime->year > 9999 || datetime->month > 12 || datetime->day > 31 ||
		datetime->hour > 23 || datetime->minute > 59 || datetime->second > 59 || datetime->microsecond > 999999)
		capstan_convert_fail(map, "is out of range", NULL);
	if (datetime->month == 0 || datetime->day == 0)
	{
		if (datetime->year == 0 && datetime->month == 0 && datetime->day == 0 && datetime->hour == 0 &&
			datetime->minute == 0 && datetime->second == 0 && datetime->microsecond == 0)
			return DATE_ZERO;
		return DATE_PARTIAL;
	}
	days = day_tab[isleap(datetime->year)][datetime->month - 1];
	if (datetime->day > days)
		capstan_convert_fail(map, "is a day that is not in the calendar", "Correct the value on the source.");
	return DATE_REAL;
}

static int64
days_of(const SourceDateTime *datetime)
{
	return date2j(datetime->year, datetime->month, datetime->day) - POSTGRES_EPOCH_JDATE;
}

Datum
capstan_convert_date(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	DateSort	sort;

	if (convert_null(value, isnull))
		return (Datum) 0;
	sort = sort_of_date(map, value);
	if (sort != DATE_REAL)
	{
		*isnull = apply_zero_dates(map, sort);
		return *isnull ? (Datum) 0 : DateADTGetDatum(DATEVAL_NOBEGIN);
	}
	return DateADTGetDatum((DateADT) days_of(&value->u.datetime));
}

Datum
capstan_convert_datetime(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	const SourceDateTime *datetime = &value->u.datetime;
	DateSort	sort;
	int64		seconds;

	if (convert_null(value, isnull))
		return (Datum) 0;
	sort = sort_of_date(map, value);
	if (sort != DATE_REAL)
	{
		*isnull = apply_zero_dates(map, sort);
		return *isnull ? (Datum) 0 : TimestampGetDatum(DT_NOBEGIN);
	}
	seconds = days_of(datetime) * SECS_PER_DAY +
		datetime->hour * SECS_PER_HOUR + datetime->minute * SECS_PER_MINUTE + datetime->second;
	return TimestampGetDatum(seconds * USECS_PER_SEC + datetime->microsecond);
}

Datum
capstan_convert_timestamp(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int64		result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_TIMESTAMP)
		capstan_convert_wrong_kind(map, value);
	if (value->u.integer == 0)
	{
		*isnull = apply_zero_dates(map, DATE_ZERO);
		return *isnull ? (Datum) 0 : TimestampTzGetDatum(DT_NOBEGIN);
	}
	if (pg_sub_s64_overflow(value->u.integer, EPOCH_USECS, &result) || !IS_VALID_TIMESTAMP(result))
		capstan_convert_fail(map, "is out of range", NULL);
	return TimestampTzGetDatum(result);
}

static int64
microseconds_of(ColumnMap *map, const SourceValue *value)
{
	if (value->kind != VALUE_TIME)
		capstan_convert_wrong_kind(map, value);
	return value->u.integer;
}

Datum
capstan_convert_time_interval(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	Interval   *result;
	int64		microseconds;
	const int64 limit = 839 * (int64) USECS_PER_HOUR;

	if (convert_null(value, isnull))
		return (Datum) 0;
	microseconds = microseconds_of(map, value);
	if (microseconds <= -limit || microseconds >= limit)
		capstan_convert_fail(map, "is out of range", NULL);
	result = (Interval *) palloc0(sizeof(Interval));
	result->time = microseconds;
	return IntervalPGetDatum(result);
}

/* 24:00:00 is a time of day in Postgres too. */
Datum
capstan_convert_time(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int64		microseconds;

	if (convert_null(value, isnull))
		return (Datum) 0;
	microseconds = microseconds_of(map, value);
	if (microseconds < 0 || microseconds > USECS_PER_DAY)
		capstan_convert_fail(map, "is not between 00:00:00 and 24:00:00", "Use interval for the target column.");
	return TimeADTGetDatum(microseconds);
}
