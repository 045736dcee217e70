/*-------------------------------------------------------------------------
 *
 * method_table.h
 *	  The entry of Sift's contexts in the server's table of methods.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_METHOD_TABLE_H
#define SIFT_METHOD_TABLE_H

#include "compat.h"

extern void method_table_register(const MemoryContextMethods *methods);
extern bool method_table_ready(void);
extern void method_table_create(MemoryContext context, NodeTag tag,
								const MemoryContextMethods *methods,
								MemoryContext parent, const char *name);
extern int	method_table_number(void);

#endif							/* SIFT_METHOD_TABLE_H */
