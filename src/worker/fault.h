/*
 * fault.h
 *		Places at which a test may have a worker struck, or held.
 *
 * Nothing, unless compiled with -DCAPSTAN_FAULT_POINTS, which only t/034_fault_points.pl does.  Only files of worker/ have such
 * places: that build compiles no other folder again (pg_install_extension in test/lib/postgres.sh).
 */
#ifndef CAPSTAN_FAULT_H
#define CAPSTAN_FAULT_H

#ifdef CAPSTAN_FAULT_POINTS
extern void capstan_fault_point(const char *name);
#define CAPSTAN_FAULT(name) capstan_fault_point(name)
#else
#define CAPSTAN_FAULT(name) ((void) 0)
#endif

#endif
