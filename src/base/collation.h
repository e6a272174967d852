/*
 * collation.h
 *		MySQL's collation ids: which character set they belong to.
 *
 * Facts from information_schema.collations of MySQL 9.7 (ids are stable over versions).
 */
#ifndef CAPSTAN_COLLATION_H
#define CAPSTAN_COLLATION_H

#include <stdint.h>

/* "utf8mb4", "latin1", "binary", ...; NULL for an id that is not known. */
extern const char *capstan_collation_charset(uint16_t id);
/* "utf8mb4_0900_ai_ci", ...; NULL for an id that is not known. */
extern const char *capstan_collation_name(uint16_t id);
/* Most bytes of a character; 0 for an unknown name. */
extern int	capstan_charset_max_bytes(const char *charset);
/* Id of a collation by name; 0 for an unknown one. */
extern uint16_t capstan_collation_id(const char *name);

#endif
