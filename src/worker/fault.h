/*
 * fault.h
 *		Places at which a test may have a worker struck, or held.
 *
 * Nothing, unless compiled with -DCAPSTAN_FAULT_POINTS, which only tests do (fault_points => 1 of a script).  Only files of worker/ have such
 * places: that build compiles no other folder again (pg_install_extension in test/lib/postgres.sh).
 */
#ifndef CAPSTAN_FAULT_H
#define CAPSTAN_FAULT_H

#ifdef CAPSTAN_FAULT_POINTS
extern bool capstan_fault_point(const char *name);
extern void capstan_fault_stand(void);
#define CAPSTAN_FAULT(name) ((void) capstan_fault_point(name))
/* Should what stands behind it be done wrong?  Then, to have time for what that leads to: */
#define CAPSTAN_FAULT_SAYS(name) capstan_fault_point(name)
#define CAPSTAN_FAULT_STAND() capstan_fault_stand()
#else
#define CAPSTAN_FAULT(name) ((void) 0)
#define CAPSTAN_FAULT_SAYS(name) false
#define CAPSTAN_FAULT_STAND() ((void) 0)
#endif

#endif
