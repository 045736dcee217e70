/*-------------------------------------------------------------------------
 *
 * caches.h
 *	  The server's catalog caches, when there is no memory for them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_CACHES_H
#define SIFT_CACHES_H

extern void caches_drop_soon(void);
extern void caches_error(void);
extern void caches_drop_refused(void);
extern bool caches_grant(Size bytes);
extern int64 caches_granted(void);
extern void caches_drop(void);
extern void caches_check(void);

#endif							/* SIFT_CACHES_H */
