/*-------------------------------------------------------------------------
 *
 * api.h
 *	  What the library exports to C besides its SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_API_H
#define SIFT_API_H

#include "sift.h"

extern PGDLLEXPORT const SiftApi *sift_api(void);

#endif							/* SIFT_API_H */
