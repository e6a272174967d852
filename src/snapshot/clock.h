/*
 * clock.h
 *		A clock for how long something took: locks are held for microseconds.
 */
#ifndef CAPSTAN_CLOCK_H
#define CAPSTAN_CLOCK_H

#include "portability/instr_time.h"

/* Microseconds since some moment in the past; never set back. */
static inline int64
capstan_clock_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

#endif
